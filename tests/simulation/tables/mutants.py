"""One lake with two tables and one guard removed, from the tests' side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.coordinator.cells.agreement import TableAgreement
from penstock.coordinator.cells.table_record import mismatch
from tests.simulation.mutant import Mutant
from tests.simulation.patches import always, attribute, everywhere


def _where_none_is(original: Callable[..., Any]) -> Callable[..., Any]:
    async def stay(self: TableAgreement) -> None:
        """Goes on without a record where there is none."""
        if self._record is not None and self._record.value is None:
            self._proved_s = self._clock.monotonic_s()
            return
        await original(self)

    return stay


MUTANTS = {
    "compared": Mutant(
        guard="a process compares its table with the recorded one",
        patch=everywhere(mismatch, always(None)),
        scenario="strays",
        seeds=(0,),
        calm=False,
    ),
    "recorded": Mutant(
        guard="the first writer records its table before it writes a cell",
        patch=attribute(TableAgreement, "_stay", _where_none_is),
        scenario="strays",
        seeds=(0,),
        calm=False,
    ),
}

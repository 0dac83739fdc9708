"""One lake with two tables and one guard removed, from the tests' side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.coordinator.cells.agreement import TableAgreement
from penstock.coordinator.cells.table_record import mismatch
from penstock.coordinator.operators.table_move import TableMove
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


async def _nothing(*_: object) -> None:
    return None


async def _once_over(self: TableMove) -> None:
    """One pass, whatever it found."""
    for key in sorted({*await self._keys(self._source), *await self._keys(self._target)}):
        await self._copied(key)


MUTANTS = {
    "compared": Mutant(
        guard="a process compares its table with the recorded one",
        patch=everywhere(mismatch, always(None)),
        scenario="strays",
        seeds=(0,),
        calm=False,
    ),
    "confirmed": Mutant(
        guard="who makes a cell looks at the record afterwards",
        patch=attribute(TableAgreement, "confirm", lambda _: _nothing),
        scenario="late",
        seeds=(1,),
    ),
    "fenced": Mutant(
        guard="a move fences the workers that are past their leases",
        patch=attribute(TableMove, "_fence_dead", lambda _: _nothing),
        scenario="late",
        unmet=True,
    ),
    "proofs": Mutant(
        guard="a move waits until nobody trusts a look at the record of before it",
        patch=attribute(TableMove, "_await_end_of_proofs", lambda _: TableMove._fence),
        scenario="late",
        seeds=(1,),
    ),
    "gives-up": Mutant(
        guard="who changes a cell that a move has copied gives the move up",
        patch=attribute(TableAgreement, "stay", lambda _: _nothing),
        scenario="late",
        seeds=(6,),
    ),
    "thawed": Mutant(
        guard="a cell that a move has copied is believed by who has read the record after it",
        patch=attribute(TableAgreement, "thaw", lambda _: _nothing),
        scenario="late",
        seeds=(6,),
    ),
    "passes": Mutant(
        guard="a move passes over the cells until it finds each copied and marked",
        patch=attribute(TableMove, "_copy", lambda _: _once_over),
        scenario="late",
        seeds=(0,),
    ),
    "recorded": Mutant(
        guard="the first writer records its table before it writes a cell",
        patch=attribute(TableAgreement, "_stay", _where_none_is),
        scenario="strays",
        seeds=(0,),
        calm=False,
    ),
}

"""How far a broadcasting member is, kept in its cell."""

from __future__ import annotations

import pytest

from penstock.coordinator.cells.cells import Cells, StoredCell
from penstock.coordinator.cells.keys import member_key
from penstock.coordinator.registry.broadcast_progress import open_progress, read_progress
from penstock.coordinator.tables import MemoryTable
from penstock.log.errors import FencedError, UnknownOutcome
from penstock.log.runtime.runtime import Runtime

KEY = member_key("screens", "prices", "one")


class Doubtful(Cells):
    """Carries out the next write, and cannot tell."""

    doubtful = False

    async def write(self, key: str, data: bytes, *, on: StoredCell | None, deadline_s: float) -> StoredCell:
        stored = await super().write(key, data, on=on, deadline_s=deadline_s)
        if self.doubtful:
            self.doubtful = False
            raise UnknownOutcome("the table does not tell")
        return stored


async def test_what_was_kept_without_an_answer_is_no_other_process() -> None:
    runtime = Runtime()
    cells = Doubtful(MemoryTable(), runtime)

    progress = await open_progress(cells, runtime, group="screens", topic="prices", member="one", life=1, start=(0,))
    cells.doubtful = True
    with pytest.raises(UnknownOutcome):
        await progress.save((5,))
    await progress.save((7,))
    again = await open_progress(cells, runtime, group="screens", topic="prices", member="one", life=1, start=(0,))
    assert again.progress.offsets == (7,)
    for _ in range(2):
        with pytest.raises(FencedError, match="another process"):
            await progress.save((8,))
    await progress.save((7,))  # as it was saved last: nothing is asked
    assert (await read_progress(cells, KEY)) == again.progress

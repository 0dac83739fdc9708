"""Two that recall one message, while the player moves recalled messages out of the cell."""

from __future__ import annotations

import pytest

from penstock.coordinator.timers.cell import TimerCell, timer_cells
from penstock.coordinator.timers.recalls import Recalls
from penstock.coordinator.timers.state import NEVER, Bounds, Due, Run
from penstock.coordinator.timers.waiting import recall
from penstock.log import UnknownOutcome
from penstock.log.lake import Lake
from tests.coordinator.timers.test_play import Played


def test_one_of_them_is_not_told_that_it_recalled_what_the_other_did(monkeypatch: pytest.MonkeyPatch) -> None:
    due, keep_to, looked = Due(10**17, 0), Recalls.keep_to, 0

    async def script(_: Played, lake: Lake) -> None:
        cells, clock = timer_cells(lake), lake.runtime.clock
        cell = TimerCell(cells, clock, "orders", "life")
        await cell.read()
        await cell.write(cell.state.with_claim(Bounds(1, NEVER), 0))

        async def beside(recalls: Recalls, runs: tuple[Run, ...]) -> None:
            nonlocal looked
            looked += 1
            await keep_to(recalls, runs)
            if looked == 1:
                await recall(cells, clock, "orders", "life", due)
                await cell.read()
                await cell.write(cell.state.with_claim(Bounds(1, NEVER), 0))
                spilling = Recalls(lake.store, lake.runtime, "orders", "life").spill(cell.state)
                assert spilling is not None
                spilled = await spilling
                await cell.write(cell.state.with_spilled(spilled.recalled, frozenset(), spilled.run))

        monkeypatch.setattr(Recalls, "keep_to", beside)
        with pytest.raises(UnknownOutcome):
            await recall(cells, clock, "orders", "life", due, lake=lake)
        assert looked == 2
        assert (await cell.read()).recalled == frozenset()

    Played("recalled twice").run(script)

"""Two that recall one message, while the player moves recalled messages out of the cell."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from penstock.coordinator.timers.cell.cell import TimerCell, timer_cells
from penstock.coordinator.timers.cell.state import NEVER, DeliveredBounds, DuePosition, TimerRun
from penstock.coordinator.timers.runs.recalls import RecallObjects
from penstock.coordinator.timers.waiting_messages import read_timer_state, recall, waiting
from penstock.log import UnknownOutcome
from penstock.log.lake import LogLake
from penstock.log.message.message import to_us
from tests.coordinator.timers.test_delivery import SMALL, Played


def test_one_of_them_is_not_told_that_it_recalled_what_the_other_did(monkeypatch: pytest.MonkeyPatch) -> None:
    due, keep_to, looked = DuePosition(10**17, 0), RecallObjects.keep_to, 0

    async def script(_: Played, lake: LogLake) -> None:
        cells, clock = timer_cells(lake), lake.runtime.clock
        cell = TimerCell(cells, clock, "orders", "life")
        await cell.read()
        await cell.write(cell.state.with_claim(DeliveredBounds(1, NEVER), 0))

        async def beside(recalls: RecallObjects, runs: tuple[TimerRun, ...]) -> None:
            nonlocal looked
            looked += 1
            await keep_to(recalls, runs)
            if looked == 1:
                await recall(cells, clock, "orders", "life", due)
                await cell.read()
                await cell.write(cell.state.with_claim(DeliveredBounds(1, NEVER), 0))
                spilling = RecallObjects(lake.store, lake.runtime, "orders", "life").spill(cell.state)
                assert spilling is not None
                spilled = await spilling
                await cell.write(cell.state.with_spilled(spilled.recalled, frozenset(), spilled.run))

        monkeypatch.setattr(RecallObjects, "keep_to", beside)
        with pytest.raises(UnknownOutcome):
            await recall(cells, clock, "orders", "life", due, lake=lake)
        assert looked == 2
        assert (await cell.read()).recalled == frozenset()

    Played("recalled twice").run(script)


@pytest.mark.parametrize("beside", [False, True])
def test_recalls_leave_the_cell_though_nothing_is_let_go_for_a_month(*, beside: bool) -> None:
    """No claim says of what waits that it is known, and whoever plays has nothing to write (``beside``: and plays all the time)."""
    month_s = 30 * 24 * 3600.0
    options = replace(SMALL, flush_rows=10**6, recalled_rows=4)

    async def recall_eight(lake: LogLake) -> None:
        _, log = await lake.timer_log("orders")
        rows = (await waiting(lake, timer_cells(lake), "orders")).to_pylist()
        for row in rows[:8]:
            due = DuePosition(to_us(row["delivery_timestamp"]), row["offset"])
            await recall(timer_cells(lake), lake.runtime.clock, "orders", log.record.incarnation, due)

    async def script(played: Played, lake: LogLake) -> None:
        await played.send(lake, *(month_s + place for place in range(10)))
        await played.play_for(lake, 2, options)
        if beside:
            playing = asyncio.ensure_future(played.play_for(lake, 100, options))
            await played.kernel.let_pass(timedelta(seconds=20))
            await recall_eight(lake)
            await playing
        else:
            await recall_eight(lake)
            await played.play_for(lake, 2, options)
        _, log = await lake.timer_log("orders")
        state = await read_timer_state(timer_cells(lake), lake.runtime.clock, "orders", log.record.incarnation)
        assert (len(state.recalled), sum(run.rows for run in state.recalls)) == (0, 8)
        assert len(await waiting(lake, timer_cells(lake), "orders")) == 2
        await played.kernel.let_pass(timedelta(seconds=month_s))
        await played.play_for(lake, 20, options)
        assert [one.body for one in await played.read(lake)] == [b"%g/%d" % (month_s + place, place) for place in (8, 9)]

    Played("recalled unknown").run(script)

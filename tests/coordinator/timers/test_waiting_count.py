"""How much waits, counted one by one or by what the cell says."""

from __future__ import annotations

import pytest

from penstock.coordinator.timers import waiting_count
from penstock.coordinator.timers.cell.cell import timer_cells
from penstock.coordinator.timers.runs.memtable import due_times
from penstock.coordinator.timers.waiting_count import WaitingCount, count_waiting
from penstock.coordinator.timers.waiting_messages import waiting
from penstock.log.lake import LogLake
from tests.coordinator.timers.test_delivery import Played


def test_what_waits_in_runs_is_counted_by_what_was_sent_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(played: Played, lake: LogLake) -> None:
        cells = timer_cells(lake)
        assert await count_waiting(lake, cells, "orders") == WaitingCount()
        delays = [float(10 + 7 * n % 90) for n in range(60)]
        for start in range(0, 60, 10):
            await played.send(lake, *delays[start : start + 10])
            await played.play_for(lake, 1)
        await played.play_for(lake, 20)
        rows = await waiting(lake, cells, "orders")
        first_us = int(due_times(rows)[0])
        assert 0 < rows.num_rows < 60
        told = WaitingCount(messages=rows.num_rows, next_due_us=first_us)
        assert await count_waiting(lake, cells, "orders") == told
        monkeypatch.setattr(waiting_count, "READ_ROWS_MAX", 10)  # less than lies in runs
        assert await count_waiting(lake, cells, "orders") == WaitingCount(messages=rows.num_rows, exact=False, next_due_us=first_us)
        await played.send(lake, *[100.0] * 11)  # more than is looked through
        assert await count_waiting(lake, cells, "orders") == WaitingCount(messages=rows.num_rows + 11, exact=False)

    Played("counted").run(script)

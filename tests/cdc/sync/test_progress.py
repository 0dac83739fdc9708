"""How far a sync is, shown as a consumer group's lag."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

import penstock
from penstock import SyncOptions, sync
from penstock.cdc.sync.options import NO_STEPS
from tests.cdc.sync.crashes import Crash, CrashAt
from tests.cdc.sync.streams import TOPIC, event, send


def test_every_batch_of_a_run_shows_in_the_group(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    send(lake, [event("c", "bills", {"id": number}, {"id": number}) for number in range(9)])
    lags = list[int]()

    def look(_: object) -> None:
        with penstock.connect(lake, read_only=True) as reading:
            lags.append(reading.describe_group(f"sync-{TOPIC}").lag)

    run = sync(lake, TOPIC, SyncOptions(into=tmp_path / "targets", max_events=3), listener=look)
    assert run.await_termination()
    assert lags == [6, 3, 0]


def test_the_group_is_told_behind_the_record_and_catches_up(tmp_path: Path) -> None:
    """Else it could show what the sync would begin before."""
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"

    def lag() -> int:
        with penstock.connect(lake, read_only=True) as reading:
            return reading.describe_group(f"sync-{TOPIC}").lag

    for number in range(2):
        send(lake, [event("c", "bills", {"id": number}, {"id": number})])
        run = sync(lake, TOPIC, SyncOptions(into=into), steps=CrashAt("progress", "in") if number else NO_STEPS)
        with pytest.raises(Crash) if number else nullcontext():
            run.await_termination()
    assert lag() == 1
    send(lake, [event("c", "bills", {"id": 2}, {"id": 2})])
    again = sync(lake, TOPIC, SyncOptions(into=into))
    assert again.await_termination()
    assert (again.status.events, lag()) == (1, 0)

"""How far a sync is, shown as a consumer group's lag."""

from __future__ import annotations

from pathlib import Path

import penstock
from penstock.spark import sync
from tests.cdc.sync.streams import TOPIC, event, send


def test_every_batch_of_a_run_shows_in_the_group(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    send(lake, [event("c", "bills", {"id": number}, {"id": number}) for number in range(9)])
    lags = list[int]()

    def look(_: object) -> None:
        with penstock.connect(lake, read_only=True) as reading:
            lags.append(reading.describe_group(f"sync-{TOPIC}").lag)

    run = sync(None, lake, TOPIC, into=tmp_path / "targets", max_events_per_batch=3, listener=look)
    assert run.await_termination()
    assert lags == [6, 3, 0]

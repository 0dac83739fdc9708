"""Tables that stand still, by the engine without Spark: it decides the same and starts at once."""

from __future__ import annotations

from pathlib import Path

from penstock.spark import sync
from tests.spark.sync.streams import TOPIC, event, group_for, rows, send


def test_a_table_that_stood_still_gets_what_came_meanwhile_by_all_queues(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    events = [event("c", "keyless", None, {"id": n}) for n in range(6)] + [
        event("c", "bills", {"id": n}, {"id": n}) for n in range(6)
    ]
    groups = [group_for(queue, 2) for queue in (0, 0, 1, 1, 0, 1)] * 2
    send(lake, events, groups=groups)
    for _ in range(2):  # the second run meets the same, and loses nothing by it
        run = sync(None, lake, TOPIC, into=into, max_events_per_batch=3)
        assert run.await_termination()
        assert set(run.stopped) == {"public.keyless"}
        assert rows(into / "bills") == [{"id": n} for n in range(6)]
    with sync(None, lake, TOPIC, into=into, max_events_per_batch=3, keys={"keyless": ["id"]}) as run:
        assert run.await_termination()
    assert run.stopped == {}
    assert rows(into / "keyless") == rows(into / "bills") == [{"id": n} for n in range(6)]

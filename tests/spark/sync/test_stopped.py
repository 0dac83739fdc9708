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


def test_what_came_before_the_event_that_a_target_refuses_is_applied_and_that_event_is_named(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    events = [event("c", "t", {"id": n}, {"id": n, "name": "a"}) for n in range(3)]
    events.append(event("c", "t", {"id": 3}, {"id": 3, "Name": "b"}))
    events += [event("c", "t", {"id": 4}, {"id": 4, "name": "c"}), event("c", "u", {"id": 5}, {"id": 5})]
    send(lake, events, groups=[group_for(queue, 2) for queue in (0, 0, 1, 0, 1, 0)])
    for _ in range(2):
        run = sync(None, lake, TOPIC, into=into)
        assert run.await_termination()
        ((_, (stop,)),) = run.stopped.items()
        assert (stop.queue, stop.offset) == (0, 2)
        assert "two columns differ in case only" in stop.reason
        assert rows(into / "t") == [{"id": 0, "name": "a"}, {"id": 1, "name": "a"}, {"id": 2, "name": "a"}, {"id": 4, "name": "c"}]
        assert rows(into / "u") == [{"id": 5}]

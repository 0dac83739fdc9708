"""Where a run begins: no table begins in the middle without a word. By the engine without Spark, which decides the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import penstock
from penstock import SyncOptions, sync
from penstock.consumers.ranges.offsets import TopicSnapshot
from penstock.consumers.ranges.topic_view import TopicView
from tests.cdc.sync.crashes import Crash, CrashAt
from tests.cdc.sync.streams import TOPIC, Row, event, group_for, rows, send


def of_both(first: int, count: int) -> list[Row]:
    return [event("c", table, {"id": n}, {"id": n}, at=n + 1) for n in range(first, first + count) for table in "ab"]


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in rows(path))


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """By queue, the earliest offset that retention has left."""
    left: dict[int, int] = {}
    really = TopicView.refresh

    def refresh(self: TopicView) -> TopicSnapshot:
        standing = really(self)
        kept = {queue: (max(first, left.get(queue, 0)), limit) for queue, (first, limit) in standing.kept.items()}
        object.__setattr__(standing, "kept", kept)
        return standing

    monkeypatch.setattr(TopicView, "refresh", refresh)
    return left


def test_a_table_that_was_not_asked_for_before_begins_at_the_beginning(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, of_both(0, 3), queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into, tables=["a"])).await_termination()
    send(lake, of_both(3, 1), queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into, tables=["b", "a"])).await_termination()
    assert ids(into / "b") == ids(into / "a") == [0, 1, 2, 3]


def test_a_target_that_was_deleted_is_made_from_the_beginning(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, of_both(0, 3), queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    shutil.rmtree(into / "a")
    send(lake, of_both(3, 1), queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    assert ids(into / "b") == ids(into / "a") == [0, 1, 2, 3]


def test_a_target_that_was_deleted_stands_still_when_retention_has_cut_off_its_beginning(
    tmp_path: Path, cut: dict[int, int]
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, of_both(0, 3), queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    shutil.rmtree(into / "a")
    cut[0] = 2
    send(lake, of_both(3, 1), queues=1)
    for _ in range(2):
        run = sync(lake, TOPIC, SyncOptions(into=into))
        assert run.await_termination()
        assert "the target has gone, and retention has removed events" in run.stopped["public.a"][0].reason
        assert not (into / "a").exists()
    assert ids(into / "b") == [0, 1, 2, 3]
    adopted = sync(lake, TOPIC, SyncOptions(into=into, adopt=True))
    assert adopted.await_termination()
    assert adopted.stopped == {}
    assert ids(into / "a") == [1, 2, 3]


def test_a_target_behind_what_retention_left_stands_still_when_nothing_else_tells_how_far_it_is(
    tmp_path: Path, cut: dict[int, int]
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, of_both(0, 3), queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    send(lake, of_both(3, 3), queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into, tables=["a"])).await_termination()
    cut[0] = 9
    run = sync(lake, TOPIC, SyncOptions(into=into))
    assert run.await_termination()
    assert set(run.stopped) == {"public.b"}
    assert "retention has removed events that the target lacks" in run.stopped["public.b"][0].reason
    assert (ids(into / "a"), ids(into / "b")) == ([0, 1, 2, 3, 4, 5], [0, 1, 2])


def test_what_retention_took_from_all_tables_ends_the_run(tmp_path: Path, cut: dict[int, int]) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, of_both(0, 3), queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    send(lake, of_both(3, 3), queues=1)
    cut[0] = 9
    with pytest.raises(penstock.PenstockError, match="events were removed by retention before this sync applied them"):
        sync(lake, TOPIC, SyncOptions(into=into))


def test_a_sync_of_the_same_name_does_not_write_elsewhere(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    send(lake, of_both(0, 1), queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=tmp_path / "targets")).await_termination()
    with pytest.raises(penstock.PenstockError, match="a sync of this name writes elsewhere"):
        sync(lake, TOPIC, SyncOptions(into=tmp_path / "others"))


def test_a_truncate_that_is_a_run_s_first_event_empties_the_target(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": 1}, {"id": 1}, at=1)], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    send(lake, [event("t", "t", None, at=2)], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    assert rows(into / "t") == []


def test_a_truncate_before_anything_else_of_its_table_is_remembered_over_runs(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("t", "t", None, at=9)], groups=[group_for(0, 2)])
    run = sync(lake, TOPIC, SyncOptions(into=into))
    assert run.await_termination()
    assert not (into / "t").exists()
    late = [event("c", "t", {"id": 1}, {"id": 1}, at=5), event("c", "t", {"id": 2}, {"id": 2}, at=10)]
    send(lake, late, groups=[group_for(1, 2)] * 2)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    assert ids(into / "t") == [2]


def test_a_target_made_for_a_batch_with_a_truncate_has_the_rows_before_it_where_smaller_batches_end(tmp_path: Path) -> None:
    """A driver that died takes smaller batches. The target's vector is before the truncate then, and its rows are to be so, too."""
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    changes = [event("c", "t", {"id": n}, {"id": n}, at=n) for n in (1, 2)]
    send(lake, [*changes, event("t", "t", None, at=3), event("c", "t", {"id": 4}, {"id": 4}, at=4)], queues=1)
    with pytest.raises(Crash):
        sync(lake, TOPIC, SyncOptions(into=into), steps=CrashAt("create", "after")).await_termination()
    found = list[list[int]]()
    sync(lake, TOPIC, SyncOptions(into=into, max_events=1), listener=lambda _: found.append(ids(into / "t"))).await_termination()
    assert found == [[1], [1, 2], [], [4]]

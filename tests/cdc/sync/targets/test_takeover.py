"""What another driver, or another life of the topic, did to a target in the meantime: by the engine without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

import penstock
from penstock import SyncOptions, sync
from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.events.sources import TableId
from penstock.cdc.target import Target, TargetOwner, TargetProgress, encode_metadata
from penstock.log.errors import ReopenError
from tests.cdc.columns import target_column
from tests.cdc.sync.streams import TOPIC, event, group_for, rows, send

OWNER = TargetOwner(TOPIC, 1, TOPIC)
TARGET = Target(TableId("public", "t", "shop"), "t", (target_column("id", "bigint"),), ("id",))


def nets(ids: range) -> pa.Table:
    """Rows to merge, each at a position of its own."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "__position": pa.array(ids, pa.int64()),
            "__put": [True] * len(ids),
            "__applies_up_to": pa.array(ids, pa.int64()),
            "__column_positions": pa.array([None] * len(ids), pa.list_(pa.int64())),
        }
    )


class Other:
    """Merges another batch into the new target, as a driver does that took the lease over from one that stands still."""

    def __init__(self, into: Path) -> None:
        self._into = into

    def reached(self, step: str, moment: str, what: str = "") -> None:
        if (step, moment) == ("merge", "in"):
            tables = DeltalakeTargets(str(self._into), by_position=True)
            found = tables.find("t")
            assert found is not None
            assert found.written is not None
            assert tables.merge(TARGET.reached({0: 2, 1: 1}, None), nets(range(1)), found.written.owner)


@pytest.mark.parametrize("engine", ["deltalake", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_driver_that_stood_still_after_its_look_at_the_lease_commits_nothing_over_its_successor(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    """Row 1 was removed in the other one's batch; this one has it, and more events in all."""
    session = request.getfixturevalue("spark") if engine == "spark" else None
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    groups = [group_for(queue, 2) for queue in (0, 1)]
    events = [event("c", "t", {"id": n}, {"id": n}) for n in (1, 0, 2, 3)]
    send(lake, events, groups=[groups[0], *groups[1:] * 3])

    class OtherHasMore(Other):
        def reached(self, step: str, moment: str, what: str = "") -> None:
            if (step, moment) == ("merge", "in"):
                send(lake, [event("d", "t", {"id": 1}, before={"id": 1})], groups=groups[:1])
            super().reached(step, moment, what)

    run = sync(lake, TOPIC, SyncOptions(into=into), spark=session, steps=OtherHasMore(into))
    with pytest.raises(ReopenError, match="the target is further than this driver knows"):
        run.await_termination()
    written = DeltalakeTargets(str(into), by_position=True).written("t")
    assert written is not None
    assert replace(written.progress, watermarks={}) == TargetProgress({0: 2, 1: 1}, None, commits=1)
    assert sync(lake, TOPIC, SyncOptions(into=into), spark=session).await_termination()
    assert rows(into / "t") == [{"id": n} for n in (0, 2, 3)]


def test_a_merge_that_lost_against_another_commit_looks_at_the_rows_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = DeltalakeTargets(str(tmp_path), by_position=True)
    tables.create(TARGET, OWNER)
    opened: list[DeltaTable] = []
    really = DeltalakeTargets._as_of_now

    def opens(self: DeltalakeTargets, target: Target) -> DeltaTable:
        table = really(self, target)
        if not opened:  # while the merge is planned by this one
            write_deltalake(str(tmp_path / "t"), pa.table({"id": [1], "__position": [0]}), mode="append")
        opened.append(table)
        return table

    monkeypatch.setattr(DeltalakeTargets, "_as_of_now", opens)
    asked: list[int] = []
    assert tables.merge(TARGET.reached({0: 3}, None), nets(range(3)), OWNER, check=lambda: asked.append(len(opened)))
    assert rows(tmp_path / "t") == [{"id": 0}, {"id": 1}, {"id": 2}]
    assert len(opened) == 2
    assert asked == [0, 1]  # whether the lease holds, before each attempt


def test_of_two_syncs_that_make_a_target_at_once_one_has_it(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": 1}, {"id": 1})])

    class Another:
        def reached(self, step: str, moment: str, what: str = "") -> None:
            if (step, moment) == ("create", "before"):
                assert sync(lake, TOPIC, SyncOptions(into=into, name="another")).await_termination()

    run = sync(lake, TOPIC, SyncOptions(into=into, name="one"), steps=Another())
    assert run.await_termination()
    assert "written by sync another of topic" in run.stopped["public.t"][0].reason
    written = DeltalakeTargets(str(into), by_position=True).written("t")
    assert written is not None
    assert written.owner.name == "another"


def test_a_topic_made_again_begins_anew_in_a_target_that_is_adopted(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": n}, {"id": n}) for n in range(5)], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    with penstock.connect(lake) as opened:
        opened.delete_topic(TOPIC)
    send(lake, [event("c", "t", {"id": 100}, {"id": 100})], queues=1)

    refused = sync(lake, TOPIC, SyncOptions(into=into))
    assert refused.await_termination()
    assert "written from an earlier topic of that name" in refused.stopped["public.t"][0].reason

    adopted = sync(lake, TOPIC, SyncOptions(into=into, adopt=True))
    assert adopted.await_termination()
    assert adopted.stopped == {}
    assert rows(into / "t") == sorted(({"id": n} for n in [*range(5), 100]), key=repr)


def test_a_batch_that_changes_no_row_is_remembered_by_the_target(tmp_path: Path) -> None:
    """A truncate of an empty table: an older event, which another queue brings to a later driver, is of a row that is gone."""
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    groups = [group_for(queue, 2) for queue in (0, 1)]
    for events, group in (
        ([event("c", "t", {"id": 1}, {"id": 1}, at=1), event("d", "t", {"id": 1}, before={"id": 1}, at=2)], groups[0]),
        ([event("t", "t", None, at=20)], groups[0]),
        ([event("c", "t", {"id": 5}, {"id": 5}, at=10)], groups[1]),
    ):
        send(lake, events, groups=[group] * len(events))
        assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    assert rows(into / "t") == []
    written = DeltalakeTargets(str(into), by_position=True).written("t")
    assert written is not None
    assert written.progress.offsets == {0: 3, 1: 1}


def test_a_target_with_history_is_left_to_spark(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", name, {"id": 1}, {"id": 1}, at=1) for name in "tu"], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    written = DeltalakeTargets(str(into), by_position=True).written("t")
    assert written is not None
    kept = encode_metadata(written.owner, replace(TARGET, history=True, progress=written.progress))
    write_deltalake(  # as Spark would have left it
        str(into / "t"),
        pa.table({"id": [2], "__position": [2]}),
        mode="append",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": kept}),
    )
    send(lake, [event("c", name, {"id": 3}, {"id": 3}, at=3) for name in "tu"], queues=1)
    run = sync(lake, TOPIC, SyncOptions(into=into))
    assert run.await_termination()
    assert [(stop.queue, stop.offset) for stop in run.stopped["public.t"]] == [(0, 2)]
    assert "the target keeps history, and this engine does not" in run.stopped["public.t"][0].reason
    assert (rows(into / "t"), rows(into / "u")) == ([{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 3}])


def test_a_target_that_is_further_than_the_driver_knows_ends_the_run(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": 1}, {"id": 1}, at=1)], queues=1)

    class Other:
        """Another driver, which has another queue's events than this one."""

        def reached(self, step: str, moment: str, what: str = "") -> None:
            if (step, moment) == ("merge", "in"):
                tables = DeltalakeTargets(str(into), by_position=True)
                found = tables.find("t")
                assert found is not None
                assert found.written is not None
                tables.merge(replace(TARGET).reached({7: 3}, None), nets(range(3)), found.written.owner)

    run = sync(lake, TOPIC, SyncOptions(into=into), steps=Other())
    with pytest.raises(penstock.PenstockError, match="the target is further than this driver knows"):
        run.await_termination()

"""Targets stay in few files beside a sync, and nobody waits or loses a row for that."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from penstock import SyncOptions, sync
from penstock.cdc.delta.compaction import FILES_MIN, NOTHING, TargetCompactionResult, TargetCompactor, file_bytes, is_due
from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.events.sources import TableId
from penstock.cdc.sync.options import Moment
from penstock.cdc.target import Target, TargetProgress
from penstock.log.errors import InvalidArgument
from tests.cdc.columns import target_column
from tests.cdc.sync.streams import TOPIC, event, rows, send
from tests.spark.sync.driver import Life, end_of
from tests.thorough import thoroughly

TARGET = Target(TableId("s", "t"), "t", (target_column("id", "bigint"),), ("id",))


def at(commits: int, name: str = "t") -> Target:
    return replace(TARGET, name=name, progress=TargetProgress(commits=commits))


class Tables:
    """Tables that note what is compacted, and wait for a word."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def compact(self, name: str) -> TargetCompactionResult | None:
        self.begun.set()
        assert self.go_on.wait(30)
        self.names.append(name)
        if name == "bad":
            raise OSError("the disk is full")
        return TargetCompactionResult(3, 1)


@pytest.mark.parametrize(("commits", "every", "due"), [(99, 100, False), (100, 100, True), (200, 100, True), (7, 0, False)])
def test_a_target_is_looked_at_after_so_many_commits_of_its_own(commits: int, every: int, due: bool) -> None:
    assert is_due(commits, every) is due


def test_one_target_is_compacted_at_a_time_and_none_twice_at_once(caplog: pytest.LogCaptureFixture) -> None:
    tables = Tables()
    compaction = TargetCompactor(tables, every=2)
    for commits in (1, 2, 4):
        compaction.merged(at(commits))
    assert tables.begun.wait(30)
    compaction.merged(at(6))
    tables.go_on.set()
    compaction.close()
    assert tables.names == ["t"]
    compaction.merged(at(8))
    compaction.close()
    assert tables.names == ["t", "t"]


def test_what_goes_wrong_is_told_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    tables = Tables()
    tables.go_on.set()
    compaction = TargetCompactor(tables, every=1)
    compaction.merged(at(1, "bad"))
    compaction.close()
    compaction.merged(at(1, "good"))
    compaction.close()
    assert tables.names[0] == "bad"
    assert "the target bad could not be compacted: the disk is full" in caplog.text


class Losing:
    """Tables to which a merge always comes first, unless merges are kept out."""

    def __init__(self) -> None:
        self.compaction = TargetCompactor(self, every=1)
        self.tries: list[bool] = []

    def compact(self, name: str) -> TargetCompactionResult | None:
        kept_out = not self.compaction.apart(name).acquire(blocking=False)
        self.tries.append(kept_out)
        if not kept_out:
            self.compaction.apart(name).release()
        return TargetCompactionResult(20, 1) if kept_out else None


def test_a_compaction_that_loses_to_a_merge_is_done_while_merges_wait(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "penstock.cdc")
    tables = Losing()
    tables.compaction.merged(at(1))
    tables.compaction.close()
    assert tables.tries == [False, True]
    assert "20 files became 1" in caplog.text
    assert not tables.compaction.apart("t").locked()
    assert tables.compaction.apart("u") is not tables.compaction.apart("t"), "other targets go on"


def test_a_merge_waits_for_such_a_compaction_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each merge of a batch holds the target's lock, so a compaction that has it keeps all of them out."""
    held: list[bool] = []
    merge = DeltalakeTargets.merge

    def looking(self: DeltalakeTargets, target: Target, *given: Any, **more: Any) -> bool:
        held.append(locks[target.name].locked())
        return merge(self, target, *given, **more)

    locks: dict[str, threading.Lock] = {}
    apart = TargetCompactor.apart

    def noting(self: TargetCompactor, name: str) -> threading.Lock:
        return locks.setdefault(name, apart(self, name))

    monkeypatch.setattr(DeltalakeTargets, "merge", looking)
    monkeypatch.setattr(TargetCompactor, "apart", noting)
    many_batches(tmp_path, 2, compact_every=0)
    assert held == [True, True]
    assert not locks["a"].locked()


@pytest.mark.parametrize(("said", "size"), [("1000", 1_000), ("", 100 << 20), ("0", 100 << 20), ("1gb", 100 << 20)])
def test_a_table_may_say_how_large_its_files_become(said: str, size: int) -> None:
    assert file_bytes({"delta.targetFileSize": said}) == size
    assert file_bytes({}) == 100 << 20


def many_batches(tmp_path: Path, batches: int, compact_every: int) -> Path:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "a", {"id": n}, {"id": n}, at=n + 1) for n in range(batches)], queues=1)
    run = sync(lake, TOPIC, SyncOptions(into=into, max_events=1, compact_every=compact_every))
    assert run.await_termination()
    assert run.stopped == {}
    assert [row["id"] for row in rows(into / "a")] == sorted(range(batches), key=lambda n: repr({"id": n}))
    return into / "a"


def test_a_sync_puts_small_files_together(tmp_path: Path) -> None:
    batches = 2 * FILES_MIN
    path = many_batches(tmp_path, batches, compact_every=FILES_MIN)
    table = DeltaTable(str(path))
    assert len(table.file_uris()) < batches
    assert "OPTIMIZE" in {commit["operation"] for commit in table.history()}
    lake = str(tmp_path / "lake")
    send(lake, [event("u", "a", {"id": 3}, {"id": 3}, at=900), event("c", "a", {"id": 900}, {"id": 900}, at=901)], queues=1)
    again = sync(lake, TOPIC, SyncOptions(into=path.parent))
    assert again.await_termination()
    assert again.stopped == {}
    assert len(rows(path)) == batches + 1


@pytest.mark.thorough
def test_none_is_compacted_if_nobody_wants_it(tmp_path: Path) -> None:
    path = many_batches(tmp_path, FILES_MIN + 2, compact_every=0)
    assert len(DeltaTable(str(path)).file_uris()) == FILES_MIN + 2


@pytest.mark.thorough
def test_few_files_and_no_table_are_left_alone(tmp_path: Path) -> None:
    path = many_batches(tmp_path, FILES_MIN - 1, compact_every=1)
    tables = DeltalakeTargets(str(path.parent), by_position=True)
    assert tables.compact("a") == NOTHING
    assert tables.compact("no such table") == NOTHING
    assert "OPTIMIZE" not in {commit["operation"] for commit in DeltaTable(str(path)).history()}


@pytest.mark.thorough
def test_large_files_are_not_written_again(tmp_path: Path) -> None:
    path = many_batches(tmp_path, FILES_MIN, compact_every=0)
    DeltaTable(str(path)).alter.set_table_properties({"delta.targetFileSize": "100"})
    assert DeltalakeTargets(str(path.parent), by_position=True).compact("a") == NOTHING


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "often"])
def test_a_wrong_number_is_refused(tmp_path: Path, wrong: int) -> None:
    with pytest.raises(InvalidArgument, match="bad compact_every"):
        sync(str(tmp_path / "lake"), TOPIC, SyncOptions(into=tmp_path / "targets", compact_every=wrong))


def test_a_merge_that_meets_a_compaction_is_made_once_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many_batches(tmp_path, FILES_MIN, compact_every=0)
    merge_into, attempts = DeltalakeTargets.merge_into, list[int]()

    def beside_a_compaction(self: DeltalakeTargets, table: DeltaTable, *given: Any, **more: Any) -> bool:
        attempts.append(table.version())
        if len(attempts) == 1:
            assert DeltalakeTargets(str(path.parent), by_position=True).compact("a") is not None
        return merge_into(self, table, *given, **more)

    monkeypatch.setattr(DeltalakeTargets, "merge_into", beside_a_compaction)
    lake = str(tmp_path / "lake")
    send(lake, [event("d", "a", {"id": 3}, before={"id": 3}, at=900), event("c", "a", {"id": 900}, {"id": 900}, at=901)], queues=1)
    run = sync(lake, TOPIC, SyncOptions(into=path.parent))
    assert run.await_termination()
    assert (run.stopped, len(attempts)) == ({}, 2)
    assert [commit["operation"] for commit in DeltaTable(str(path)).history(2)] == ["MERGE", "OPTIMIZE"]
    assert {row["id"] for row in rows(path)} == {*range(FILES_MIN), 900} - {3}


def test_a_compaction_that_meets_a_merge_leaves_the_target_as_it_is(tmp_path: Path) -> None:
    path = many_batches(tmp_path, FILES_MIN, compact_every=0)
    tables = DeltalakeTargets(str(path.parent), by_position=True)
    read = tables.open("a")
    assert read is not None
    lake = str(tmp_path / "lake")
    send(lake, [event("u", "a", {"id": 3}, {"id": 3, "n": 1}, at=900)], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=path.parent)).await_termination()
    assert tables.compacted(read) is None
    assert DeltaTable(str(path)).history(1)[0]["operation"] == "MERGE"
    assert {row["id"]: row["n"] for row in rows(path)} == {**dict.fromkeys(range(FILES_MIN)), 3: 1}


@pytest.mark.processes
def test_a_process_that_is_killed_around_a_compaction_has_lost_nothing(tmp_path: Path) -> None:
    path, lake = many_batches(tmp_path, 1, compact_every=0), str(tmp_path / "lake")
    send(lake, [event("c", "a", {"id": n}, {"id": n}, at=n + 1) for n in range(1, 9)], queues=1)
    moments: tuple[Moment, ...] = ("before", "after")
    for moment in thoroughly(moments, moments[1:]):
        life = Life(
            lake=lake, into=str(path.parent), name=TOPIC, engine="deltalake", batch=1, compact_every=2, dies=("compact", moment, 1)
        )
        assert end_of(life) == -signal.SIGKILL
    assert sync(lake, TOPIC, SyncOptions(into=path.parent)).await_termination()
    assert {row["id"] for row in rows(path)} == set(range(9))
    assert "OPTIMIZE" in {commit["operation"] for commit in DeltaTable(str(path)).history()}

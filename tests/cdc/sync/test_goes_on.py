"""A sync that lost its lease takes it again and goes on, unless another driver has it: by the engine without Spark, whose loop is the same."""

from __future__ import annotations

import logging
import queue
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock import SyncOptions, SyncRun, sync
from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.sync import engine
from penstock.cdc.sync.lease import SyncInUse, SyncLease, take_lease
from penstock.cdc.sync.options import BatchReport
from penstock.coordinator.lakes import LakePlace, OpenLake
from penstock.coordinator.workers.worker import LeaseLost
from penstock.log.errors import StoreUnavailable
from tests.cdc.sync.crashes import BATCH, POINTS, stream
from tests.cdc.sync.judging import Check, stored
from tests.cdc.sync.losing import Loses, lose_lease
from tests.cdc.sync.streams import TOPIC, event, rows, send


def taken_over(place: LakePlace) -> tuple[OpenLake, SyncLease]:
    """Another driver has it."""
    opened = OpenLake(place)

    async def taken() -> SyncLease:
        return await take_lease(opened, TOPIC, TOPIC, patience_s=60.0)

    return opened, opened.run(taken)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("at_once", [1, 3])
def test_a_run_that_loses_its_lease_at_any_step_goes_on_and_counts_its_batches(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at_once: int
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, stream(14))
    loses, batches = Loses(lake, into, POINTS, under_way=at_once - 1), list[BatchReport]()
    with caplog.at_level(logging.WARNING, logger="penstock.cdc"):
        run = sync(
            lake, TOPIC, SyncOptions(into=into, max_events=BATCH, merges_at_once=at_once), steps=loses, listener=batches.append
        )
        assert run.await_termination()
    assert set(loses.lost) == set(POINTS)
    Check(into, stored(lake))(complete=True)
    assert [batch.number for batch in batches] == list(range(1, run.status.batches + 1))
    epochs = [batch.epoch for batch in batches]
    assert (epochs, epochs[-1]) == (sorted(epochs), len(POINTS) + 1)
    told = [record.getMessage() for record in caplog.records]
    assert sum("lost its lease" in line for line in told) == len(POINTS)
    assert any(line.endswith(f"it goes on under epoch {len(POINTS) + 1}") for line in told)


def test_a_run_whose_lease_another_driver_took_and_keeps_says_so_and_commits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": n}, {"id": n}) for n in range(3)])
    others = list[tuple[OpenLake, SyncLease]]()

    async def impatient(opened: OpenLake, topic: str, name: str, **_: Any) -> SyncLease:
        return await take_lease(opened, topic, name, patience_s=0.0)

    monkeypatch.setattr(engine, "take_lease", impatient)
    loses = Loses(lake, into, [("merge", "before")], meanwhile=lambda: others.append(taken_over(LakePlace.of(lake))))
    run = sync(lake, TOPIC, SyncOptions(into=into), steps=loses)
    try:
        with pytest.raises(SyncInUse, match="another driver took the sync over, after this one had lost its lease"):
            run.await_termination()
        ((opened, other),) = others
        other.check()
        assert other.record is None
        assert rows(into / "t") == []
        opened.run(other.give_up)
    finally:
        for opened, _ in others:
            opened.close()
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    assert rows(into / "t") == [{"id": n} for n in range(3)]


@pytest.mark.parametrize("engine", ["deltalake", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.thorough])])
def test_a_run_goes_on_from_what_another_driver_did_that_has_ended(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    session = request.getfixturevalue("spark") if engine == "spark" else None
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": n}, {"id": n}, at=n + 1) for n in range(6)])

    def other() -> None:
        told = queue.SimpleQueue[SyncRun]()
        # It takes over from one that may have died of its batch, so it begins with a fourth of 16.
        run = sync(lake, TOPIC, SyncOptions(into=into, max_events=16), listener=lambda _: told.get(timeout=60).stop())
        told.put(run)
        assert run.await_termination()

    run = sync(lake, TOPIC, SyncOptions(into=into), spark=session, steps=Loses(lake, into, [("merge", "in")], meanwhile=other))
    assert run.await_termination()
    assert (run.status.batches, run.status.events) == (1, 2)
    assert rows(into / "t") == [{"id": n} for n in range(6)]


def test_a_driver_that_stood_still_in_its_commit_while_another_went_on_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its look at the lease, so that only the target tells."""
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": n}, {"id": n}, at=n + 1) for n in range(4)], queues=1)
    really = DeltalakeTargets.merge
    paused = list[str]()

    def merge(self: DeltalakeTargets, target: Any, found: pa.Table, owner: Any, *, check: Any, **how: Any) -> bool:
        check()
        if not paused:
            paused.append(target.name)
            lose_lease(lake)
            send(lake, [event("d", "t", {"id": 1}, before={"id": 1}, at=9)], queues=1)
            assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
            return really(self, target, found, owner, **how)  # as if the look had come before
        return really(self, target, found, owner, check=check, **how)

    monkeypatch.setattr(DeltalakeTargets, "merge", merge)
    run = sync(lake, TOPIC, SyncOptions(into=into))
    assert run.await_termination()
    assert paused == ["t"]
    assert rows(into / "t") == [{"id": n} for n in (0, 2, 3)]


def test_a_run_that_loses_its_lease_again_and_again_without_a_batch_between_ends(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": 1}, {"id": 1})])
    loses = Loses(lake, into, [("merge", "before")], always=True)
    run = sync(lake, TOPIC, SyncOptions(into=into), steps=loses)
    with pytest.raises(LeaseLost, match="the sync's lease was lost"):
        run.await_termination()
    assert loses.begun == 6
    assert rows(into / "t") == []
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()  # it holds nothing any more
    assert rows(into / "t") == [{"id": 1}]


def test_a_table_that_cannot_be_reached_when_the_lease_is_to_be_taken_again_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": 1}, {"id": 1})])
    taken = list[str]()

    async def takes(opened: OpenLake, topic: str, name: str, *, patience_s: float | None) -> SyncLease:
        taken.append(name)
        if len(taken) == 2:
            raise StoreUnavailable("no answer")
        return await take_lease(opened, topic, name, patience_s=patience_s)

    monkeypatch.setattr(engine, "take_lease", takes)
    run = sync(lake, TOPIC, SyncOptions(into=into), steps=Loses(lake, into, [("merge", "before")]))
    assert run.await_termination()
    assert len(taken) == 3
    assert rows(into / "t") == [{"id": 1}]


def test_a_run_that_is_stopped_when_it_lost_its_lease_ends_in_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("c", "t", {"id": 1}, {"id": 1})])
    told = queue.SimpleQueue[SyncRun]()
    loses = Loses(lake, into, [("merge", "before")], meanwhile=lambda: told.get(timeout=60).stop())
    run = sync(lake, TOPIC, SyncOptions(into=into), steps=loses)
    told.put(run)
    assert run.await_termination()
    assert (loses.begun, rows(into / "t")) == (1, [])
    assert caplog.records == []  # it did not take it again for nothing

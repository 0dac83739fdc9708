"""How large batches are: bounded in events and in bytes, and smaller after one that ran out of memory or ended its driver."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import SyncOptions, sync
from penstock.cdc.sync.backends import local, merge_rows
from penstock.cdc.sync.backends.local import LocalBackend
from penstock.cdc.sync.engine import SyncEngine
from penstock.cdc.sync.options import BatchReport
from penstock.cdc.sync.plan import SyncPlan
from penstock.coordinator.lakes import LakePlace
from penstock.log.errors import InvalidArgument
from tests.cdc.sync.streams import TOPIC, event, group_for, rows, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BODY = 2_000
COUNT = 40


@pytest.fixture
def lake(tmp_path: Path) -> str:
    lake = str(tmp_path / "lake")
    send(lake, [event("c", "notes", {"id": number}, {"id": number, "text": "x" * BODY}) for number in range(COUNT)], queues=4)
    return lake


def engine(lake: str, into: Path, *, events: int = 100_000, size: int = 2**40) -> SyncEngine:
    place = LakePlace.of(lake)
    limits = SyncPlan.of(place, TOPIC, SyncOptions(into=into, name="s", max_events=events, max_bytes=size))
    found = SyncEngine(limits, LocalBackend(limits))
    found.open()
    found.look()
    return found


def whole(into: Path) -> bool:
    return [row["id"] for row in rows(into / "notes")] == sorted(
        range(COUNT), key=lambda one: repr({"id": one, "text": "x" * BODY})
    )


@pytest.mark.parametrize(
    ("max_bytes", "events_max"),
    [(1, 1), pytest.param(BODY, 1, marks=pytest.mark.thorough), (3 * (BODY + 400), 3), (10 * (BODY + 400), 11), (2**40, COUNT)],
)
def test_batches_are_bounded_in_bytes(lake: str, tmp_path: Path, max_bytes: int, events_max: int) -> None:
    batches: list[BatchReport] = []
    run = sync(lake, TOPIC, SyncOptions(into=tmp_path / "targets", max_bytes=max_bytes), listener=batches.append)
    assert run.await_termination()
    assert sum(batch.events for batch in batches) == COUNT
    assert max(batch.events for batch in batches) <= events_max
    assert len(batches) <= 3 * -(-COUNT // events_max)
    assert whole(tmp_path / "targets")


def test_a_queue_of_large_events_holds_up_no_other(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    large = [event("c", "notes", {"id": number}, {"id": number, "text": "x" * 5_000}) for number in range(30)]
    small = [event("c", "notes", {"id": number}, {"id": number, "text": ""}) for number in range(30, 60)]
    send(lake, [*large, *small], groups=[group_for(0, 2)] * 30 + [group_for(1, 2)] * 30)
    found = engine(lake, tmp_path / "targets", size=12_000)
    done: list[dict[int, int]] = []
    while found.step() is not None:
        done.append(found.position)
    first = {queue: next(number for number, at in enumerate(done) if at[queue] == 30) for queue in done[-1]}
    assert min(first.values()) < len(done) // 2
    found.close()


def test_a_batch_that_ran_out_of_memory_is_taken_again_smaller(
    lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    batch_of = merge_rows.batch_of

    def out_of_memory(*given: object) -> object:
        if len(given[2]) > 6:  # type: ignore[arg-type]
            raise MemoryError
        return batch_of(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(local, "batch_of", out_of_memory)
    batches: list[BatchReport] = []
    assert sync(lake, TOPIC, SyncOptions(into=tmp_path / "targets"), listener=batches.append).await_termination()
    assert whole(tmp_path / "targets")
    assert max(batch.events for batch in batches) <= 6
    assert "goes on with smaller batches" in caplog.text


def test_one_event_that_needs_more_memory_than_there_is_ends_the_run(
    lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*given: object) -> object:
        raise MemoryError

    monkeypatch.setattr(local, "batch_of", out_of_memory)
    with pytest.raises(MemoryError):
        sync(lake, TOPIC, SyncOptions(into=tmp_path / "targets")).await_termination()


def test_what_failed_is_not_taken_again_at_its_size_by_the_next_run(
    lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "targets"
    with monkeypatch.context() as broken:
        broken.setattr(merge_rows, "typed_batch", lambda *_: 1 / 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    batches: list[BatchReport] = []
    assert sync(lake, TOPIC, SyncOptions(into=into), listener=batches.append).await_termination()
    assert [batch.events for batch in batches][:2] == [6, 12]  # 40, and then 12, were too many
    assert whole(into)


def test_after_a_death_a_driver_begins_small_and_grows(lake: str, tmp_path: Path) -> None:
    found = engine(lake, tmp_path / "targets", events=8)
    assert found.step() is not None
    lease = found._held
    lease.after_death = True  # as if it had been taken from one that died
    found.halving.halve(2)
    found.close()
    found = engine(lake, tmp_path / "targets", events=8)
    assert [batch.events for batch in iter(found.step, None)][:4] == [2, 4, 8, 8]
    found.close()


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "1"])
def test_a_bad_limit_is_told(tmp_path: Path, value: int) -> None:
    with pytest.raises(InvalidArgument, match=r"bad max_bytes.*a whole number of 1 or more"):
        sync(str(tmp_path / "lake"), TOPIC, SyncOptions(into=tmp_path / "targets", max_bytes=value))


@pytest.mark.thorough
@pytest.mark.spark
def test_batches_of_tasks_are_bounded_in_bytes(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    batches: list[BatchReport] = []
    run = sync(
        lake,
        TOPIC,
        SyncOptions(into=tmp_path / "targets", events_in_driver=0, max_bytes=16 * (BODY + 400)),
        spark=spark,
        listener=batches.append,
    )
    assert run.await_termination()
    assert sum(batch.events for batch in batches) == COUNT
    assert 8 <= max(batch.events for batch in batches) <= 18  # of two tasks, each with one half
    assert whole(tmp_path / "targets")

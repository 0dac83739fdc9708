"""What tasks do, without Spark: rows become parts; tried again, or twice at once, they leave what nobody links."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.coordinator.lakes import LakePlace, OpenLake, lakes
from penstock.log.errors import InternalError, MessageTypeMismatch, StoreUnavailable
from penstock.log.format.header import Part
from penstock.log.linker import Linker, open_linker
from penstock.log.paths import TopicPaths
from penstock.log.stage.jobs import Job
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.spark.errors import error_in_spark_text, reraise_ours
from penstock.spark.produce.parts import UploadedPart, UploadPlan, parts_of, upload_results, upload_rows

QUEUES = 4


class Staging:
    """A topic in a folder, and a job that is open on it."""

    def __init__(self, folder: Path) -> None:
        self.place = LakePlace.of(folder)
        self.lake = penstock.connect(folder, maintenance=False)
        self.lake.create_topic("orders", message_type="FIFO", queues=QUEUES)
        self.opened: OpenLake = lakes.open(self.place)
        self.linker: Linker = self.opened.run(lambda: open_linker(self.opened.lake, "orders", name="spark/test"))
        self.job: Job = self.opened.run(self.linker.begin)

    def upload(self, *, part_bytes: int = 2_000) -> UploadPlan:
        return UploadPlan(
            place=self.place,
            paths=TopicPaths.of("orders"),
            settings=self.linker.settings,
            producer=self.linker.id,
            job=self.job.id,
            born_us=1_750_000_000_000_000,
            part_bytes=part_bytes,
            named=(("message_group", "user"),),
        )

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.lake.reader("orders").messages()]


@pytest.fixture
def staging(tmp_path: Path) -> Iterator[Staging]:
    made = Staging(tmp_path)
    yield made
    made.lake.close()
    lakes.close()


def batches(count: int, *, of: int = 40) -> list[pa.RecordBatch]:
    return [
        pa.record_batch(
            {
                "queue": pa.array([1] * of, pa.int32()),
                "message_group": [f"g-{n % 3}" for n in range(first, first + of)],
                "body": pa.array([b"%06d" % n for n in range(first, first + of)]),
            }
        )
        for first in range(0, count, of)
    ]


def test_a_task_that_ran_twice_is_there_once(staging: Staging) -> None:
    first = list(upload_rows(staging.upload(), batches(400), task=0, attempt=0))
    second = list(upload_rows(staging.upload(), batches(400), task=0, attempt=1))
    assert len(first) == len(second) > 3
    assert {one.part.key for one in first}.isdisjoint(one.part.key for one in second)
    staging.opened.run(lambda: staging.linker.link(staging.job, [one.part for one in second], batch=0))
    assert staging.bodies() == [b"%06d" % n for n in range(400)]


def test_parts_are_cut_by_size_also_inside_a_batch(staging: Staging) -> None:
    parts = list(upload_rows(staging.upload(part_bytes=500), batches(400, of=200), task=0, attempt=0))
    assert len(parts) > 10
    assert [len(one.part.rows) for one in parts] == [1] * len(parts)
    assert sum(one.part.rows[1] for one in parts) == 400
    assert list(upload_rows(staging.upload(), [*batches(0), batches(40)[0].slice(0, 0)], task=0, attempt=0)) == []


def test_what_is_wrong_with_the_rows_is_an_answer_in_the_users_words(staging: Staging) -> None:
    bad = pa.record_batch(
        {"queue": pa.array([1], pa.int32()), "message_group": pa.array([None], pa.string()), "body": pa.array([b"x"])}
    )
    rest = iter([*batches(400), bad, *batches(80)])
    told = [row for answer in upload_results(staging.upload(), rest) for row in zip(*answer.to_pydict().values(), strict=True)]
    assert next(rest, None) is None, "Spark waits for who does not take all"
    with pytest.raises(MessageTypeMismatch, match="message_group is null, in column user") as raised:
        parts_of(told)
    assert raised.value.object == "orders"


def test_a_queue_from_two_tasks_has_no_order_and_is_noticed() -> None:
    def answer(task: int, queue: int) -> tuple[int, int, bytes]:
        return task, 0, pickle.dumps(UploadedPart(Part(f"{task}", 0, {queue: 1}, 1, "")))

    given = [answer(1, 3), answer(0, 2), answer(1, 1)]
    assert [one.part.key for one in parts_of(given, routed=True)] == ["0", "1", "1"]
    assert len(parts_of([*given, answer(2, 1)])) == 4
    with pytest.raises(InternalError, match="several tasks"):
        parts_of([*given, answer(2, 1)], routed=True)


def test_a_store_that_does_not_answer_for_a_moment_costs_no_task(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shaky(StoreWrapper):
        def __init__(self, inner: object) -> None:
            super().__init__(inner)  # type: ignore[arg-type]
            self.left = 2

        async def _around(self, call: StoreCall, run):  # type: ignore[no-untyped-def]
            if call.verb == "put_large" and self.left:
                self.left -= 1
                raise StoreUnavailable("no answer", operation=call.verb)
            return await run()

    store = Shaky(staging.opened.lake.store)
    monkeypatch.setattr(staging.opened.lake, "store", store)
    parts = list(upload_rows(staging.upload(part_bytes=10**6), batches(40), task=0, attempt=0))
    assert store.left == 0
    assert len(parts) == 1


def test_a_task_that_is_abandoned_leaves_no_thread(staging: Staging) -> None:
    running = upload_rows(staging.upload(), batches(4000), task=0, attempt=0)
    next(running)
    running.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-upload")]


def test_sparks_page_of_stack_is_told_in_a_line() -> None:
    page = (
        "Job aborted due to stage failure: …\n  File worker.py, line 1\n"
        "penstock.log.errors.StoreUnavailable: the store did not answer (operation: put_large)\n\n\tat org.apache.spark.Many\n"
    )
    error = error_in_spark_text(RuntimeError(page))
    assert isinstance(error, StoreUnavailable)
    assert str(error) == "the store did not answer (operation: put_large)"
    assert error_in_spark_text(RuntimeError("somebody else's")) is None
    assert error_in_spark_text(RuntimeError("penstock.log.errors.asyncio: no error of ours")) is None
    with pytest.raises(StoreUnavailable) as raised, reraise_ours():
        raise RuntimeError(page)
    assert raised.value.__suppress_context__
    with pytest.raises(ZeroDivisionError), reraise_ours():
        asyncio.run(_divided())


async def _divided() -> None:
    raise ZeroDivisionError

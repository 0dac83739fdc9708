"""Batches whose rows other processes staged: linked whole, in the order of their parts, once under a name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from penstock.log import LogLake, Message, TopicSettings
from penstock.log.append.in_flight import AppendResult, Outcome
from penstock.log.errors import (
    FencedError,
    InvalidArgument,
    LimitExceeded,
    NotSupported,
    NotWritten,
    StoreUnavailable,
    TopicDeleted,
    UnknownOutcome,
)
from penstock.log.format.header import Deleted, Part
from penstock.log.limits import ENTRY_ROWS_MAX
from penstock.log.linker import (
    BATCH_MAX,
    BATCH_SEQUENCES,
    LinkedBatch,
    Linker,
    check_batch,
    current_topic,
    open_linker,
    rows_of,
    sequence_of,
)
from penstock.log.message.arrow import check_arrow
from penstock.log.message.batch_rows import MessageIds, rows_of_arrow, rows_of_messages
from penstock.log.message.message_type import MessageType
from penstock.log.message.routing import Router, queue_of
from penstock.log.produce.typed_rows import rows_of_columns, rules_of
from penstock.log.schema.topic_schema import schema_of_source
from penstock.log.stage.jobs import Job, upload_part
from penstock.log.stores import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.topic.topics import Topic

T = TypeVar("T")
QUEUES = 4


class Silent(StoreWrapper):
    """Loses all requests about entries, once it is told to."""

    silent = False

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if self.silent and "/log/" in call.key:
            raise StoreUnavailable("no answer", operation=call.verb, object=call.key)
        return await run()


async def lake_of(store: MemoryStore | StoreWrapper) -> LogLake:
    lake = LogLake(store)
    await lake.create_topic("orders", TopicSettings(message_type="FIFO", queues=QUEUES))
    return lake


async def staged(linker: Linker, job: Job, bodies: Sequence[str]) -> Part:
    """A part with these bodies, each of the message group before its dash."""
    router = Router(linker.settings.queues)
    groups = [body.partition("-")[0] for body in bodies]
    data, born = [body.encode() for body in bodies], np.zeros(len(bodies), np.int64)
    rows = rows_of_messages(data, groups, {}, {}, born, router, producer=linker.id, ids=MessageIds(len(bodies), 0))
    topic = linker.topic
    return await upload_part(topic.store, topic.paths, topic.runtime, job.id, "00000000", lambda: rows.part(0, rows.count))


async def linked(linker: Linker, batch: int | None, *parts: Sequence[str]) -> None:
    job = await linker.begin()
    await linker.link(job, [await staged(linker, job, bodies) for bodies in parts], batch=batch)


async def read(lake: LogLake) -> list[str]:
    table = await (await lake.reader("orders")).to_arrow(columns=["queue", "offset", "body"])
    return [body.decode() for body in table["body"].to_pylist()]


def of_group(bodies: Sequence[str], group: str) -> list[str]:
    return [body for body in bodies if body.startswith(f"{group}-")]


async def test_a_batch_is_there_whole_and_its_parts_in_order() -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders", name="spark/etl")
    job = await linker.begin()
    parts = [await staged(linker, job, part) for part in (["a-1", "b-1", "c-1"], ["a-2", "d-1"], ["a-3", "b-2"])]
    lost = await staged(linker, job, ["a-9", "b-9"])  # of a task that was tried twice
    assert await read(lake) == []
    done = await linker.link(job, parts, batch=0)
    bodies = await read(lake)
    assert sorted(bodies) == ["a-1", "a-2", "a-3", "b-1", "b-2", "c-1", "d-1"]
    assert of_group(bodies, "a") == ["a-1", "a-2", "a-3"]
    assert of_group(bodies, "b") == ["b-1", "b-2"]
    assert done.rows == 7
    assert done.offsets is not None
    assert sum(end - start for start, end in done.offsets.values()) == 7
    assert lost not in parts
    await lake.close()


async def test_typed_parts_are_linked_with_the_version_that_they_were_written_with() -> None:
    lake = LogLake(MemoryStore())
    await lake.create_topic("orders", TopicSettings(queues=QUEUES, schema=schema_of_source("id int")))
    linker = await open_linker(lake, "orders", name="n")
    assert linker.schema is not None
    typed = rows_of_columns(pa.table({"id": [1, 2], "key": [b"k", None]}), rules_of(linker.settings, linker.schema))
    rows = check_arrow(typed.table.drop_columns(["value"]), MessageType.NORMAL, linker.settings.limits, QUEUES)
    rows = rows.append_column("value", typed.table["value"])
    made = rows_of_arrow(rows, 0, Router(QUEUES), producer=linker.id, ids=MessageIds(0, 0))
    job, topic = await linker.begin(), linker.topic
    part = await upload_part(topic.store, topic.paths, topic.runtime, job.id, "0", lambda: made.part(0, 2))
    for version in (0, 2):
        with pytest.raises(InvalidArgument, match="not of the topic's schema"):
            await linker.link(job, [part], batch=0, schema_version=version)
    await linker.link(job, [part], batch=0, schema_version=typed.schema_version, extended=made.is_extended)
    found = await (await lake.reader("orders")).to_arrow(columns=["value", "key"])
    assert sorted(map(str, found.to_pylist())) == ["{'value': {'id': 1}, 'key': b'k'}", "{'value': {'id': 2}, 'key': None}"]
    plain = await open_linker(await lake_of(MemoryStore()), "orders", name="n")
    with pytest.raises(InvalidArgument, match="expected: rows with bodies; observed: typed rows of version 1"):
        await plain.link(job, [part], batch=0, schema_version=1)
    await lake.close()


async def test_a_name_links_each_batch_once_and_goes_on_where_it_was() -> None:
    lake = await lake_of(MemoryStore())
    first = await open_linker(lake, "orders", name="n")
    assert first.last_batch == -1
    assert not first.is_linked(0)
    await linked(first, 0, ["a-1"] * 3)
    await linked(first, 7, ["a-2"])
    again = await open_linker(lake, "orders", name="n")
    assert again.last_batch == 7
    assert [again.is_linked(batch) for batch in (0, 3, 7, 8)] == [True, True, True, False]
    with pytest.raises(InvalidArgument, match="the batch is linked"):
        await linked(again, 7, ["a-2"])
    with pytest.raises(FencedError):
        await linked(first, 8, ["a-3"])
    await linked(again, 8, ["a-3"])
    assert sorted(await read(lake)) == ["a-1", "a-1", "a-1", "a-2", "a-3"]
    await lake.close()


async def test_a_batch_of_other_rows_under_a_number_that_is_linked_is_no_repetition() -> None:
    lake = await lake_of(MemoryStore())
    await linked(await open_linker(lake, "orders", name="n"), 4, ["a-1"] * 3)
    again = await open_linker(lake, "orders", name="n")
    for batch, rows in ((4, 3), (4, 0), (3, 1), (5, 1)):
        again.check_repeated(batch, rows)
    for rows in (2, 4):
        with pytest.raises(
            InvalidArgument, match=f"no repetition.*batch 4 of n; expected: 3 rows; observed: {rows} rows.*new name"
        ):
            again.check_repeated(4, rows)
    # Older versions told no number of rows.
    again._last_sequence = 5 * BATCH_SEQUENCES - 1
    again.check_repeated(4, 9)
    assert again.last_batch == 4
    await lake.close()


async def test_a_name_that_an_older_version_linked_under_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = await lake_of(MemoryStore())
    with monkeypatch.context() as older:
        older.setattr("penstock.log.linker.sequence_of", lambda batch, rows: (batch + 1) * BATCH_SEQUENCES - 1)
        await linked(await open_linker(lake, "orders", name="n"), 4, ["a-1"] * 3)
    again = await open_linker(lake, "orders", name="n")
    assert (again.last_batch, rows_of(again._last_sequence)) == (4, None)
    await linked(again, 5, ["a-2"])
    with pytest.raises(InvalidArgument, match="expected: 1 rows"):
        (await open_linker(lake, "orders", name="n")).check_repeated(5, 2)
    await lake.close()


async def test_a_link_without_an_answer_that_a_rival_made_of_other_rows_is_told() -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders", name="n")
    job = await linker.begin()
    parts = [await staged(linker, job, ["a-1", "b-1"])]
    await linked(await open_linker(lake, "orders", name="n"), 0, ["a-1", "b-1", "a-2"])
    forgetting(linker, lost=True)
    with pytest.raises(InvalidArgument, match="expected: 3 rows; observed: 2 rows"):
        await linker.link(job, parts, batch=0)
    await lake.close()


async def test_without_a_name_batches_follow_each_other() -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders")
    await linked(linker, None, ["a-1", "a-2"])
    await linked(linker, None, ["a-3"])
    assert await read(lake) == ["a-1", "a-2", "a-3"]
    with pytest.raises(InvalidArgument, match="if, and only if, the linker has a name"):
        await linked(linker, 1, ["a-4"])
    await lake.close()


def forgetting(linker: Linker, *, lost: bool) -> None:
    """The outcome of its next append never reaches it, whether there was one or not."""
    append = linker._append

    async def once(*args: Any) -> Outcome:
        linker._append = append  # type: ignore[method-assign]
        if not lost:
            assert isinstance(await append(*args), AppendResult)
        return UnknownOutcome("nobody knows", operation="append")

    linker._append = once  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("lost", [False, True], ids=["landed", "lost"])
async def test_a_link_without_an_answer_is_read_back_by_opening_the_name_anew(lost: bool) -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders", name="n")
    job = await linker.begin()
    parts = [await staged(linker, job, ["a-1", "b-1"])]
    forgetting(linker, lost=lost)
    done = await linker.link(job, parts, batch=0)
    assert done.rows == 2
    assert (done.offsets is None) is not lost
    await linked(linker, 1, ["a-2"])
    assert sorted(await read(lake)) == ["a-1", "a-2", "b-1"]
    await lake.close()


async def test_a_name_that_cannot_be_opened_anew_leaves_the_batch_unknown() -> None:
    """Though its own opening is known not to be written."""
    store = Silent(MemoryStore())
    lake = await lake_of(store)
    linker = await open_linker(lake, "orders", name="n", timeout=timedelta(milliseconds=200))
    job = await linker.begin()
    parts = [await staged(linker, job, ["a-1"])]
    forgetting(linker, lost=False)
    reopened = linker._reopened_behind

    async def silently(batch: int) -> bool:
        store.silent = True
        return await reopened(batch)

    linker._reopened_behind = silently  # type: ignore[method-assign]
    with pytest.raises(UnknownOutcome, match="whether the batch got into the log"):
        await linker.link(job, parts, batch=0)
    store.silent = False
    again = await open_linker(lake, "orders", name="n")
    assert again.is_linked(0)
    await lake.close()


async def test_without_a_name_a_link_without_an_answer_stays_unknown() -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders")
    job = await linker.begin()
    parts = [await staged(linker, job, ["a-1"])]
    forgetting(linker, lost=True)
    with pytest.raises(UnknownOutcome, match="nobody knows"):
        await linker.link(job, parts)
    await lake.close()


async def test_a_job_that_was_linked_or_given_up_is_not_linked() -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders", name="n")
    job = await linker.begin()
    part = await staged(linker, job, ["a-1"])
    await linker.link(job, [part], batch=0)
    with pytest.raises(NotWritten, match="given up"):
        await linker.link(job, [part], batch=1)
    late = replace(await linker.begin(), link_until_s=0.0)
    with pytest.raises(NotWritten):
        await linker.link(late, [await staged(linker, late, ["a-2"])], batch=1)
    assert await read(lake) == ["a-1"]
    await lake.close()


async def test_what_was_routed_for_a_topic_that_is_gone_is_not_linked_into_its_successor() -> None:
    store = MemoryStore()
    lake = await lake_of(store)
    linker = await open_linker(lake, "orders", name="n")
    job = await linker.begin()
    part = await staged(linker, job, ["a-1"])
    await lake.delete_topic("orders")
    await lake_of(store)
    with pytest.raises(TopicDeleted):
        await linker.link(job, [part], batch=0)
    await lake.close()


async def test_a_link_without_an_answer_is_not_looked_for_in_a_later_topic() -> None:
    """There the name is another's, who goes on, and a higher batch of it says nothing of this one."""
    store = MemoryStore()
    lake, other = await lake_of(store), LogLake(store)
    linker = await open_linker(lake, "orders", name="n")
    job = await linker.begin()
    parts = [await staged(linker, job, ["of the former"])]
    await other.delete_topic("orders")
    await lake_of(store)
    owner = await open_linker(other, "orders", name="n")
    for batch in range(4):
        await linked(owner, batch, [f"a-{batch}"])
    await linker.topic.tail.catch_up()
    forgetting(linker, lost=True)
    with pytest.raises(TopicDeleted, match="in no other"):
        await linker.link(job, parts, batch=3)
    await linked(owner, 4, ["a-4"])
    assert await read(other) == [f"a-{batch}" for batch in range(5)]
    await lake.close()
    await other.close()


async def test_a_topic_that_was_deleted_while_it_was_opened_is_not_linked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = await lake_of(MemoryStore())
    opened, opens = lake.topic, iter((False, True))

    async def deleted_behind(name: str, *, writable: bool = False) -> Topic:
        topic = await opened(name, writable=writable)
        if next(opens):
            deadline_s = lake.runtime.clock.monotonic_s() + 60
            await topic.appender.append_actions([Deleted(topic.record.incarnation)], deadline_s=deadline_s)
        return topic

    monkeypatch.setattr(lake, "topic", deleted_behind)
    with pytest.raises(TopicDeleted, match="deleted meanwhile"):
        await open_linker(lake, "orders")
    await lake.close()


async def test_a_job_without_rows_leaves_nothing_behind() -> None:
    store = MemoryStore()
    lake = await lake_of(store)
    linker = await open_linker(lake, "orders", name="n")
    job = await linker.begin()
    assert await store.list(linker.topic.paths.jobs)
    await linker.discard(job)
    assert not await store.list(linker.topic.paths.jobs)
    with pytest.raises(InvalidArgument, match="no rows"):
        await linker.link(job, [], batch=0)
    await lake.close()


async def test_what_the_log_would_void_is_refused_at_once() -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders", name="n")
    job = await linker.begin()
    part = await staged(linker, job, ["a-1"])
    with pytest.raises(InvalidArgument, match="queues that are not there"):
        await linker.link(job, [replace(part, rows={QUEUES: 1})], batch=0)
    with pytest.raises(LimitExceeded, match="too many rows"):
        await linker.link(job, [replace(part, rows={0: ENTRY_ROWS_MAX + 1})], batch=0)
    assert linker._checked([replace(part, rows={0: ENTRY_ROWS_MAX})], 0) == {0: ENTRY_ROWS_MAX}
    for batch in (-1, BATCH_MAX + 1, True, 1.5):
        with pytest.raises(InvalidArgument, match="not a batch's number"):
            await linker.link(job, [part], batch=batch)  # type: ignore[arg-type]
    await lake.close()


def test_a_batch_number_leaves_room_for_as_many_rows_as_a_batch_may_have() -> None:
    most = ENTRY_ROWS_MAX
    assert sequence_of(0, 1) - -1 >= 1
    assert sequence_of(0, most) - -1 >= most
    for rows in (1, 2, most):
        assert sequence_of(5, rows) - sequence_of(4, most) >= rows
        assert sequence_of(5, rows) // BATCH_SEQUENCES == 5
        assert rows_of(sequence_of(5, rows)) == (None if rows == most else rows)
    assert sequence_of(BATCH_MAX, most) < 2**63
    for batch in (0, BATCH_MAX):
        check_batch(batch)


async def test_a_name_with_sequences_of_messages_is_refused() -> None:
    lake = await lake_of(MemoryStore())
    producer = await lake.producer("orders", name="mine")
    await producer.send(Message(b"1", message_group="a"), sequence=41)
    with pytest.raises(InvalidArgument, match="sequences of its own"):
        await open_linker(lake, "orders", name="mine")
    await lake.close()


async def test_what_is_staged_cannot_be_delayed() -> None:
    """Spark's ordered writes and its sink find their topic so."""
    async with LogLake(MemoryStore()) as lake:
        await lake.create_topic("later", TopicSettings(message_type="DELAY"))
        with pytest.raises(NotSupported, match=r"rows that are staged cannot be delayed.*later.*send_batch takes a table"):
            await current_topic(lake, "later", timeout=timedelta(seconds=60))
        for name, error in (("later", NotSupported), ("%TIMER%later", InvalidArgument)):
            with pytest.raises(error):
                await open_linker(lake, name, name="spark/etl")


async def test_what_was_staged_for_another_generation_of_the_topic_is_not_linked() -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders")
    assert (await open_linker(lake, "orders", generation=linker.generation)).generation == linker.generation
    for generation in (linker.generation - 1, linker.generation + 1):
        with pytest.raises(TopicDeleted, match="not the one that the rows were staged for"):
            await open_linker(lake, "orders", generation=generation)
    await lake.close()


async def test_a_batch_whose_entry_was_passed_over_is_linked_at_offsets_that_nobody_knows() -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders", name="n")
    assert linker._linked(AppendResult(7, 1, None), {0: 2, 1: 1}, 4) == LinkedBatch(3, None, None)
    assert linker.last_batch == 4
    assert linker._linked(AppendResult(8, 1, {0: 5, 1: 9}), {0: 2, 1: 1}, 5) == LinkedBatch(3, 8, {0: (5, 7), 1: (9, 10)})
    await lake.close()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same linker", "linked elsewhere"])
async def test_what_was_staged_before_growths_is_linked_by_the_new_queues(*, named: bool, elsewhere: bool) -> None:
    store = MemoryStore()
    lake, admin = await lake_of(store), LogLake(store)
    name, number = ("spark/etl", 3) if named else (None, None)
    linker = await open_linker(lake, "orders", name=name)
    bodies = [f"g{group}-{row:02d}" for row in range(30) for group in range(9)]
    job = await linker.begin()
    parts = [await staged(linker, job, bodies[at : at + 90]) for at in range(0, len(bodies), 90)]
    for factor in (2, 4):
        await admin.alter_topic("orders", queues=factor * QUEUES)
    linking = await open_linker(lake, "orders", name=name, generation=linker.generation) if elsewhere else linker
    done = await linking.link(job, parts, batch=number)
    assert (done.rows, linking.settings.queues) == (len(bodies), 4 * QUEUES)
    stored = (await (await lake.reader("orders")).to_arrow(columns=["queue", "offset", "message_group", "body"])).to_pylist()
    assert all(row["queue"] == queue_of(row["message_group"], 4 * QUEUES) for row in stored)
    for group in range(9):
        assert [row["body"].decode() for row in stored if row["message_group"] == f"g{group}"] == [
            f"g{group}-{row:02d}" for row in range(30)
        ]
    await linked(linking, None if number is None else number + 1, ["g1-30"])
    for one in (lake, admin):
        await one.close()


async def test_rows_that_name_their_queue_stay_there_when_parts_are_routed_anew() -> None:
    lake = await lake_of(MemoryStore())
    linker = await open_linker(lake, "orders")
    job, topic = await linker.begin(), linker.topic
    chosen = (queue_of("g", QUEUES) + 1) % QUEUES
    rows = rows_of_messages(
        [b"1", b"2"], ["g", "g"], {}, {1: chosen}, np.zeros(2, np.int64), Router(QUEUES), producer="p", ids=MessageIds(1, 0)
    )
    parts = [
        await upload_part(topic.store, topic.paths, topic.runtime, job.id, "0", partial(rows.part, start, 1)) for start in range(2)
    ]
    kept = next(part for part in parts if chosen in part.rows)
    await lake.alter_topic("orders", queues=2 * QUEUES)
    anew = await linker._routed_anew(job, parts)
    assert kept in anew
    await linker.link(job, anew)
    stored = await (await lake.reader("orders")).to_arrow(columns=["queue", "body"])
    assert {row["body"]: row["queue"] for row in stored.to_pylist()} == {b"1": queue_of("g", 2 * QUEUES), b"2": chosen}
    await lake.close()


async def test_parts_that_were_given_up_are_not_routed_anew() -> None:
    store = MemoryStore()
    lake = await lake_of(store)
    linker = await open_linker(lake, "orders", name="n")
    job = await linker.begin()
    part = await staged(linker, job, ["a-1", "b-1", "c-1"])
    await lake.alter_topic("orders", queues=2 * QUEUES)
    await store.delete(linker.topic.paths.root + part.key)
    with pytest.raises(NotWritten, match="given up before they were linked"):
        await linker.link(job, [part], batch=0)
    assert await read(lake) == []
    await lake.close()

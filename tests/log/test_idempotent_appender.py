"""Many idempotent producers' batches in one append, on real topics in memory: what each is answered, and that each counts once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from penstock.log.errors import (
    InvalidArgument,
    LimitExceeded,
    NotSupported,
    PenstockError,
    StorageFull,
    StoreUnavailable,
    TopicDeleted,
)
from penstock.log.format.idempotence import SEQUENCES
from penstock.log.lake import LogLake
from penstock.log.limits import ENTRY_LINKS_MAX
from penstock.log.message.message_type import MessageType
from penstock.log.message.routing import queue_of
from penstock.log.produce.idempotent_appender import IdempotentAppender
from penstock.log.produce.idempotent_batches import AppendedBatches, BatchStatus, IdempotentBatch
from penstock.log.schema.sources import fields_of
from penstock.log.schema.topic_schema import first_schema
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.topic.growth import grow_topic
from penstock.log.topic.settings import TopicSettings
from tests.gateway.kafka.stage import until

T = TypeVar("T")
WRITTEN, DUPLICATE, OUT_OF_ORDER = BatchStatus.WRITTEN, BatchStatus.DUPLICATE, BatchStatus.OUT_OF_ORDER


class Broken(StoreWrapper):
    """A store that fails while a switch is on."""

    lose_answers = refuse_reads = is_full = False
    opened: asyncio.Event | None = None
    """Entries are held until it is set."""
    holds = False

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        is_log, is_entry = "/log/" in call.key, "/log/" in call.key and call.mode is Put.CREATE
        if is_entry and self.is_full:
            raise StorageFull("no room", operation=call.verb, object=call.key)
        if is_log and call.verb == "get" and self.refuse_reads:
            raise StoreUnavailable("refused", operation=call.verb, object=call.key)
        if is_entry and self.opened is not None:
            self.holds = True
            await self.opened.wait()
        answer = await run()
        if is_entry and self.lose_answers:
            raise StoreUnavailable("lost", operation=call.verb, object=call.key)
        return answer


Gateway = tuple[LogLake, IdempotentAppender, Broken]


@asynccontextmanager
async def gateways(
    count: int = 1, *, memory: MemoryStore | None = None, **settings: Any
) -> AsyncIterator[list[tuple[LogLake, IdempotentAppender, Broken]]]:
    memory = memory or MemoryStore()
    stores = [Broken(memory) for _ in range(count)]
    lakes = [LogLake(store) for store in stores]
    await lakes[0].create_topic("orders", TopicSettings(**{"message_type": "MIXED", "queues": 2, **settings}))
    found = [
        (lake, IdempotentAppender(await lake.topic("orders", writable=True)), store)
        for lake, store in zip(lakes, stores, strict=True)
    ]
    try:
        yield found
    finally:
        for lake, appender, _ in found:
            appender.close()
            await lake.close()


def rows(*bodies: str, queue: int | Sequence[int] = 0, **more: Any) -> pa.Table:
    queues = [queue] * len(bodies) if isinstance(queue, int) else queue
    return pa.table({"body": [body.encode() for body in bodies], "queue": pa.array(queues, pa.int32()), **more})


def sent(sequence: int = 0, count: int = 1, start: int = 0, *, producer: str = "7", epoch: int = 0) -> IdempotentBatch:
    return IdempotentBatch(producer, epoch, sequence, start, count)


def begun(appender: IdempotentAppender, body: str, sequence: int, **more: Any) -> asyncio.Task[AppendedBatches]:
    return asyncio.ensure_future(appender.append(rows(body), [sent(sequence, **more)]))


async def one(
    appender: IdempotentAppender, sequence: int, *bodies: str, queue: int = 0, **more: Any
) -> tuple[BatchStatus, int | None]:
    timeout = more.pop("timeout", timedelta(seconds=30))
    found = await appender.append(rows(*bodies, queue=queue), [sent(sequence, len(bodies), **more)], timeout=timeout)
    assert found.plain is None
    (answer,) = found.batches
    assert (answer.error is None) == (answer.status in {WRITTEN, DUPLICATE})
    return answer.status, answer.base_offset


async def stored(lake: LogLake, queue: int = 0) -> list[str]:
    reader = await lake.reader("orders")
    found = [batch.column("body").to_pylist() async for batch in reader.read(queue=queue)]
    return [body.decode() for bodies in found for body in bodies]


def runs(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**arguments), 60))

    return run


@runs
async def test_all_goes_into_one_entry_and_each_is_told_its_place() -> None:
    async with gateways() as [(lake, appender, _)]:
        born = pa.array([datetime(2001, 2, 3, tzinfo=UTC)] * 7, pa.timestamp("us", "UTC"))
        table = rows(*"abcdefg", queue=[1, 1, 0, 1, 0, 1, 0], key=pa.array([b"k"] * 7, pa.binary()), born_timestamp=born)
        batches = [sent(0, 2), sent(2, 1, 3), sent(5, 1, 4, producer="8"), sent(9, 1, 6, producer="9", epoch=3)]
        topic = await lake.topic("orders")
        before = topic.tail.state.entry
        found = await appender.append(table, batches)
        assert topic.tail.state.entry == before + 1
        assert [(answer.status, answer.base_offset) for answer in found.batches] == [
            (WRITTEN, 0),
            (WRITTEN, 2),
            (WRITTEN, 0),
            (WRITTEN, 1),
        ]
        assert found.plain is not None
        assert (found.plain.status, found.plain.queues.tolist()) == (WRITTEN, [0, 1])
        assert found.plain.offsets is not None
        assert found.plain.offsets.tolist() == [2, 3]
        assert (await stored(lake), await stored(lake, 1)) == (["e", "g", "c"], ["a", "b", "d", "f"])
        reader = await lake.reader("orders")
        told = await reader.to_arrow(columns=["body", "producer", "key", "born_timestamp"])
        by_body = {row["body"]: row for row in told.to_pylist()}
        assert [by_body[body]["producer"] for body in (b"a", b"d", b"e", b"g")] == ["7", "7", "8", "9"]
        assert all(row["key"] == b"k" and row["born_timestamp"].year == 2001 for row in by_body.values())


@runs
async def test_what_is_sent_again_to_another_process_counts_once() -> None:
    async with gateways(2) as [(lake, first, _), (_, second, _)]:
        assert await one(first, 0, "a", "b") == (WRITTEN, 0)
        assert await one(second, 0, "a", "b") in {(WRITTEN, 0), (DUPLICATE, 0)}
        assert await one(second, 0, "a", "b") == (DUPLICATE, 0)
        assert await one(second, 2, "c") == (WRITTEN, 2)
        assert await one(first, 3, "d") == (WRITTEN, 3), "it seems to be a gap, until the log is read on"
        assert await one(first, 0, "a") == (DUPLICATE, None), "another cut than was written"
        assert await one(first, 9, "x") == (OUT_OF_ORDER, None)
        assert await one(first, 3, "d", "e") == (OUT_OF_ORDER, None)
        assert await one(first, 0, "f", epoch=1) == (WRITTEN, 4)
        assert await one(second, 4, "x") == (BatchStatus.FENCED, None)
        assert await stored(lake) == [*"abcdf"]


@runs
async def test_a_lost_answer_is_unknown_and_the_batch_counts_once_wherever_it_is_sent_again() -> None:
    async with gateways(2) as [(lake, first, store), (_, second, _)]:
        store.lose_answers = store.refuse_reads = True
        assert await one(first, 0, "a", timeout=0.2) == (BatchStatus.UNKNOWN, None)
        assert await one(second, 0, "a") in {(WRITTEN, 0), (DUPLICATE, 0)}
        assert await one(second, 1, "b") == (WRITTEN, 1)
        store.lose_answers = store.refuse_reads = False
        assert await one(first, 0, "a") in {(WRITTEN, 0), (DUPLICATE, 0)}, "the entry may be read only now"
        assert await stored(lake) == ["a", "b"]


@runs
async def test_nothing_overtakes_a_first_batch_that_failed() -> None:
    """The log does not know the producer, so that it would take the second for its first."""
    async with gateways() as [(lake, appender, store)]:
        store.is_full = True
        both = await asyncio.gather(one(appender, 0, "a"), one(appender, 1, "b"))
        assert [status for status, _ in both] == [BatchStatus.NOT_WRITTEN] * 2
        store.is_full = False
        assert await one(appender, 5, "f", producer="8") == (WRITTEN, 0)
        assert await one(appender, 1, "b") == (OUT_OF_ORDER, None)
        assert await one(appender, 2, "c") == (OUT_OF_ORDER, None)
        assert await one(appender, 0, "a") == (WRITTEN, 1)
        assert await one(appender, 1, "b") == (WRITTEN, 2)
        assert await stored(lake) == [*"fab"]


@runs
async def test_calls_that_are_under_way_are_one_chain_and_copies_share_their_fate() -> None:
    async with gateways() as [(lake, appender, _)]:
        calls = [begun(appender, f"{number}", number) for number in (0, 1, 2, 1, 0, 3)]
        found = [(await call).batches[0] for call in calls]
        assert {answer.status for answer in found} <= {WRITTEN, DUPLICATE}
        assert [answer.base_offset for answer in found] == [0, 1, 2, 1, 0, 3]
        assert await stored(lake) == [*"0123"]


@runs
async def test_a_small_batch_does_not_overtake_a_large_one_of_the_call_before() -> None:
    async with gateways() as [(_, appender, __)]:
        calls = [begun(appender, "x" * 3 * 2**20, 0), begun(appender, "1", 1)]
        found = [(await call).batches[0] for call in calls]
        assert [(answer.status, answer.base_offset) for answer in found] == [(WRITTEN, 0), (WRITTEN, 1)]


@runs
async def test_a_call_that_is_given_up_lets_nothing_overtake() -> None:
    async with gateways() as [(lake, appender, _)]:
        calls = [begun(appender, str(number), number) for number in range(3)]
        given_up = begun(appender, "x", 0, producer="8")
        calls.append(begun(appender, "3", 3))
        given_up.cancel()
        found = [(await call).batches[0].status for call in calls]
        assert found == [WRITTEN] * 4
        assert [body for body in await stored(lake) if body != "x"] == [*"0123"]


@pytest.mark.parametrize("batches", [[sent()], []], ids=["of a producer", "of nobody"])
@runs
async def test_a_call_that_is_given_up_while_it_is_written_hides_nothing_that_follows(batches: list[IdempotentBatch]) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with gateways() as [(lake, appender, store)]:
        store.opened = asyncio.Event()
        given_up = asyncio.ensure_future(appender.append(rows("0"), batches))
        await until(lambda: store.holds)
        given_up.cancel()
        await asyncio.wait((given_up,))
        store.opened.set()
        following = await appender.append(rows("1"), [sent(1)] if batches else [])
        assert [one.status for one in (*following.batches, following.plain) if one is not None] == [WRITTEN]
        assert await stored(lake) == [*"01"]
    assert not told


@runs
async def test_racing_processes_keep_every_producer_in_order() -> None:
    async with gateways(3) as found:
        lake = found[0][0]

        async def client(name: str, queue: int) -> None:
            for number in range(12):
                for try_ in range(2):
                    _, appender, _ = found[(number + try_ + queue) % 3]
                    status, _ = await one(appender, number, f"{name}{number}", queue=queue, producer=name)
                    assert status is WRITTEN or (try_ and status is DUPLICATE), (name, number, status)

        await asyncio.gather(*(client(name, queue) for name in "pq" for queue in (0, 1)))
        for queue in (0, 1):
            bodies = await stored(lake, queue)
            assert [body for body in bodies if body[0] == "p"] == [f"p{n}" for n in range(12)]
            assert len(bodies) == 24


@runs
async def test_more_batches_than_an_entry_takes_go_into_several() -> None:
    async with gateways() as [(lake, appender, _)]:
        count = ENTRY_LINKS_MAX + 40
        found = await appender.append(rows(*map(str, range(count))), [sent(n, 1, n) for n in range(count)])
        assert [answer.base_offset for answer in found.batches] == list(range(count))
        assert await stored(lake) == [str(n) for n in range(count)]


@runs
async def test_sequences_begin_again_behind_2_to_the_31() -> None:
    async with gateways(2) as [(lake, first, _), (_, second, _)]:
        assert await one(first, SEQUENCES - 2, "a", "b", "c") == (WRITTEN, 0)
        assert await one(first, 1, "d") == (WRITTEN, 3)
        assert await one(second, SEQUENCES - 2, "a", "b", "c") in {(DUPLICATE, 0), (WRITTEN, 0)}
        assert await one(second, 2, "e") == (WRITTEN, 4)
        assert await stored(lake) == [*"abcde"]


@runs
async def test_an_epoch_whose_numbers_run_out_ends() -> None:
    async with gateways() as [(lake, appender, _)]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("penstock.log.produce.idempotent_appender.within_epoch", lambda batch: batch.last < 3)
            assert await one(appender, 0, "a", "b") == (WRITTEN, 0)
            assert await one(appender, 2, "c") == (OUT_OF_ORDER, None)
        assert await stored(lake) == ["a", "b"]


@runs
async def test_a_topic_that_was_made_again_is_opened_anew() -> None:
    async with gateways(2) as [(lake, appender, _), (other, _, _)]:
        assert await one(appender, 0, "a") == (WRITTEN, 0)
        topic = await lake.topic("orders", writable=True)
        await other.delete_topic("orders")
        await other.create_topic("orders", TopicSettings(message_type=MessageType.MIXED, queues=2))
        found = await appender.append(rows("b", "c"), [sent(1)])
        assert [answer.status for answer in (*found.batches, found.plain) if answer] == [BatchStatus.NOT_WRITTEN] * 2
        assert isinstance(found.batches[0].error, TopicDeleted)
        with pytest.raises(TopicDeleted):
            IdempotentAppender(topic)
        again = IdempotentAppender(await other.topic("orders", writable=True))
        assert await one(again, 1, "b") == (WRITTEN, 0)


@runs
async def test_rows_of_nobody_keep_the_order_of_the_calls() -> None:
    async with gateways() as [(lake, appender, store)]:
        store.is_full = True
        failed = await appender.append(rows("x"))
        assert failed.plain is not None
        assert failed.plain.status is BatchStatus.NOT_WRITTEN
        assert (failed.plain.offsets, failed.plain.error is None) == (None, False)
        store.is_full = False
        found = await asyncio.gather(*(appender.append(rows(str(n))) for n in range(8)))
        assert [one.plain.offsets.tolist() for one in found if one.plain and one.plain.offsets is not None] == [
            [n] for n in range(8)
        ]
        assert await stored(lake) == [str(n) for n in range(8)]


@runs
async def test_rows_of_nobody_that_wait_behind_others_as_the_topic_grows_are_routed_by_its_new_queues() -> None:
    groups = [f"g{n}" for n in range(16)]
    table = pa.table({"body": [group.encode() for group in groups], "message_group": groups})
    async with gateways(2, message_type="FIFO") as [(lake, appender, store), (other, _, _)]:
        store.opened = asyncio.Event()
        calls = [asyncio.ensure_future(appender.append(table)) for _ in range(3)]
        await until(lambda: store.holds)
        await grow_topic(await other.topic("orders", writable=True), 8)
        store.opened.set()
        assert [one.plain.status for one in await asyncio.gather(*calls) if one.plain] == [WRITTEN] * 3
        found = [(one.message_group, one.queue) async for one in (await lake.reader("orders")).messages()]
        assert sorted(found) == sorted([(group, queue_of(group, 8)) for group in groups] * 3)


@pytest.mark.parametrize(
    ("table", "batches", "error"),
    [
        (rows("a"), [sent(0, 2)], InvalidArgument),
        (rows("a", "b"), [sent(0, 1, 1), sent(1, 1, 0)], InvalidArgument),
        (rows("a", "b"), [sent(0, 2), sent(2, 1, 1)], InvalidArgument),
        (rows("a"), [sent(0, 0)], InvalidArgument),
        (rows("a"), [sent(0, 1, -1)], InvalidArgument),
        (rows("a"), [sent(-1)], InvalidArgument),
        (rows("a"), [sent(SEQUENCES)], InvalidArgument),
        (rows("a"), [sent(epoch=-1)], InvalidArgument),
        (rows("a"), [sent(epoch=2**15)], InvalidArgument),
        (rows("a"), [sent(producer="")], InvalidArgument),
        (rows("a"), [sent(producer="p" * 129)], InvalidArgument),
        (rows("a", "b", queue=[0, 1]), [sent(0, 2)], InvalidArgument),
        (rows("a", queue=2), [sent()], InvalidArgument),
        (rows(*["x" * 2**22] * 3), [sent(0, 3)], LimitExceeded),
        (rows(*["x" * 2**22] * 3), [], LimitExceeded),
    ],
)
@runs
async def test_what_is_no_batch_is_refused_before_anything_is_written(
    table: pa.Table, batches: list[IdempotentBatch], error: type[PenstockError]
) -> None:
    async with gateways() as [(lake, appender, _)]:
        with pytest.raises(error):
            await appender.append(table, batches)
        assert await one(appender, 0, "a") == (WRITTEN, 0)
        with pytest.raises(LimitExceeded):
            await appender.append(rows("a"), [sent()], timeout=121)
        assert await stored(lake) == ["a"]


@pytest.mark.parametrize(
    "settings", [{"message_type": "DELAY"}, {"message_type": "FIFO", "schema": first_schema(fields_of("a int"))}]
)
@runs
async def test_some_topics_take_no_idempotent_producers(settings: dict[str, Any]) -> None:
    with pytest.raises(NotSupported):
        async with gateways(**settings):
            pass


@runs
async def test_memory_of_places_is_bounded() -> None:
    async with gateways() as [(_, appender, _)]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("penstock.log.produce.idempotent_appender.IDEMPOTENT_ROWS_MAX", 2)
            for producer in "123":
                assert await one(appender, 0, "a", producer=producer) == (WRITTEN, int(producer) - 1)
        assert [await one(appender, 0, "a", producer=producer) for producer in "123"] == [
            (DUPLICATE, None),
            (DUPLICATE, 1),
            (DUPLICATE, 2),
        ]
        for number in range(1, 7):
            await one(appender, number, "b")
        assert (await one(appender, 1, "b"), await one(appender, 2, "b")) == ((DUPLICATE, None), (DUPLICATE, 4))


@runs
async def test_batches_under_way_go_on_when_the_topic_gets_more_queues() -> None:
    async with gateways(2) as [(lake, first, store), (other, second, _)]:
        assert await one(first, 0, "a") == (WRITTEN, 0)
        store.opened = asyncio.Event()
        both = [begun(first, "b", 1), begun(first, "c", 2)]
        await until(lambda: store.holds)
        await other.alter_topic("orders", queues=4)
        store.opened.set()
        answers = [(await task).batches[0] for task in both]
        assert [(answer.status, answer.base_offset) for answer in answers] == [(WRITTEN, 1), (WRITTEN, 2)]
        assert await one(first, 1, "b") == (DUPLICATE, 1)
        assert await one(second, 0, "x", queue=3) == (WRITTEN, 0)
        assert await one(second, 3, "d") == (WRITTEN, 3)
        assert await stored(lake) == [*"abcd"]


@runs
async def test_rows_of_nobody_are_routed_anew_when_the_topic_gets_more_queues() -> None:
    async with gateways(2) as [(lake, first, _), (other, _, _)]:
        groups = [f"user-{number}" for number in range(8)]
        await other.alter_topic("orders", queues=4)
        found = await first.append(pa.table({"body": [b"x"] * 8, "message_group": groups}))
        assert found.plain is not None
        assert (found.plain.status, found.plain.queues.tolist()) == (WRITTEN, [queue_of(group, 4) for group in groups])
        assert len(await stored(lake, 3)) == [queue_of(group, 4) for group in groups].count(3)

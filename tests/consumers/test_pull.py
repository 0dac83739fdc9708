"""PullConsumer: poll, seek, commit; by subscription and by assignment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import penstock
from penstock.consumers.dead_letters import group_filter
from penstock.consumers.feed.feed import Feed
from penstock.consumers.membership import Subscription
from penstock.consumers.pull import PullConsumer
from penstock.coordinator.cells.cells import Cells, StoredCell
from penstock.coordinator.cells.keys import group_key, queue_key
from penstock.coordinator.groups.record import GroupDeleted, GroupInUse, GroupMixed, GroupRecord
from penstock.coordinator.queues.cell import MessageState, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.commands import caught_up
from penstock.coordinator.queues.keeper import OwnershipLost
from penstock.coordinator.registry.groups import GroupRegistry
from penstock.coordinator.workers.worker import LeaseLost
from penstock.log import InvalidArgument, Message, TopicSettings
from penstock.log.errors import ClosedError, StoreUnavailable
from penstock.log.filter.filters import Filter, parse_filter
from penstock.log.stores import MemoryStore

SOON = timedelta(seconds=20)
NOW = timedelta(0)


def on_lake(work: Callable[[penstock.aio.Lake], Coroutine[Any, Any, None]], messages: int, queues: int = 2) -> None:
    """Work on a lake whose topic has so many messages, by turns in its queues."""

    async def main() -> None:
        async with penstock.aio.connect(store=MemoryStore()) as lake:
            await lake.create_topic("orders", TopicSettings(queues=queues))
            producer = await lake.producer("orders")
            for number in range(messages):
                producer.send(Message(b"%d" % number, tag="odd" if number // queues % 2 else "even"), queue=number % queues)
            await producer.close()
            await work(lake)

    asyncio.run(main())


async def opened(
    lake: penstock.aio.Lake, *, filter: str | None = None, queues: Mapping[str, Sequence[int]] | None = None
) -> PullConsumer:
    consumer = PullConsumer(
        lake, lake.coordination, group="audit", subscriptions={"orders": Subscription(filter)}, stated={}, queues=queues
    )
    await consumer.start()
    return consumer


async def polled(consumer: PullConsumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        more = await consumer.poll(timeout=SOON)
        assert more, f"only {found}"
        found += [int(message.body) for message in more]
    return found


def test_what_is_committed_does_not_come_again_and_what_is_not_does() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        assert sorted(await polled(consumer, 20)) == list(range(20))
        await consumer.close()

        consumer = await opened(lake)
        again = await polled(consumer, 20)
        assert [number for number in again if number % 2 == 0] == list(range(0, 20, 2))
        await consumer.commit()
        assert consumer.committed("orders", 0) == consumer.position("orders", 0) == 10
        await consumer.close()

        consumer = await opened(lake)
        while len(consumer.assignment) < 2:
            assert await consumer.poll(timeout=timedelta(milliseconds=20)) == []
        assert await consumer.poll(timeout=NOW) == []
        await consumer.close()

    on_lake(work, 20)


def test_polling_waits_for_messages_and_gives_no_more_than_asked_for() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        polling = asyncio.ensure_future(consumer.poll(3, timeout=SOON))
        producer = await lake.producer("orders")
        await asyncio.gather(*(producer.send(Message(b"%d" % number), queue=0) for number in range(5)))
        found = [int(message.body) for message in await polling]
        while len(found) < 5:
            found += [int(message.body) for message in await consumer.poll(3, timeout=SOON)]
        assert found == list(range(5))
        await consumer.close()

    on_lake(work, 0)


def test_seeking_and_committing_go_forward_and_back() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        await polled(consumer, 10)
        await consumer.commit()
        assert await consumer.seek("orders", 0, 4) == 4
        assert await polled(consumer, 6) == [4, 5, 6, 7, 8, 9]
        await consumer.seek("orders", 0, 7)
        await consumer.commit()
        assert consumer.committed("orders", 0) == 7
        await consumer.close()
        consumer = await opened(lake)
        assert await polled(consumer, 3) == [7, 8, 9]
        assert await consumer.seek("orders", 0, "earliest") == 0
        assert await consumer.seek("orders", 0, "latest") == 10
        await consumer.close()

    on_lake(work, 10, queues=1)


def test_filtered_messages_are_passed_over_and_committed() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake, filter="odd")
        assert await polled(consumer, 5) == [1, 3, 5, 7, 9]
        await consumer.commit()
        assert consumer.committed("orders", 0) == 10
        await consumer.close()

    on_lake(work, 10, queues=1)


def test_two_members_share_the_queues_and_assigned_ones_stay() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        async with penstock.aio.connect(store=lake.store) as other:
            one, two = await opened(lake), await opened(other)
            while not (len(one.assignment) == len(two.assignment) == 2):
                await one.poll(timeout=timedelta(milliseconds=20))
                await two.poll(timeout=timedelta(milliseconds=20))
            assert {*one.assignment, *two.assignment} == {("orders", queue) for queue in range(4)}
            await one.close()
            await two.close()
            picked = await opened(lake, queues={"orders": [1, 3]})
            await polled(picked, 4)
            assert picked.assignment == [("orders", 1), ("orders", 3)]
            with pytest.raises(InvalidArgument, match=r"not this consumer's.*orders queue 1, orders queue 3"):
                picked.position("orders", 0)
            await picked.close()

    on_lake(work, 8, queues=4)


def test_a_commit_does_not_undo_a_reset_forward_that_the_reader_has_not_heard_of() -> None:
    """Its cell is of the new generation already, and what it read is not a seek back in that."""

    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        await polled(consumer, 3)
        ((queue, owned),) = consumer._owned.items()
        await lake.reset_offsets("audit", "orders", 8)
        record = await lake.coordination.groups.get("audit")
        await owned.keeper.change(lambda cell: caught_up(cell, record, *queue))
        await consumer._commit(queue, replace(owned, position=3, generation=owned.keeper.cell.generation - 1))
        assert owned.keeper.cell.settled.floor == 8
        assert (await lake.coordination.groups.get("audit")).positions["orders"].offsets == (8,)
        await consumer.close()

    on_lake(work, 10, queues=1)


def test_a_commit_tells_once_of_queues_that_went_to_another_member_since_they_were_read() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        async with penstock.aio.connect(store=lake.store) as other:
            consumer = await opened(lake)
            await polled(consumer, 8)
            another = await opened(other)
            while len(another.assignment) < 2:
                assert await consumer.poll(timeout=timedelta(milliseconds=20)) == []
            with pytest.raises(OwnershipLost, match=r"went to another member before") as lost:
                await consumer.commit()
            assert lost.value.object == ", ".join(f"{topic} queue {queue}" for topic, queue in another.assignment)
            assert [consumer.committed(*queue) for queue in consumer.assignment] == [2, 2]
            await consumer.commit()
            assert len(await polled(another, 4)) == 4
            await another.commit()
            await another.close()
            while len(consumer.assignment) < 4:
                assert await consumer.poll(timeout=timedelta(milliseconds=20)) == []
            await consumer.commit()
            await consumer.close()

    on_lake(work, 8, queues=4)


def test_a_seek_back_that_is_committed_does_not_undo_a_reset_that_the_reader_has_not_heard_of() -> None:
    """What lies between the operator's place and the reader's would be passed over."""

    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        await polled(consumer, 10)
        await consumer.commit()
        await consumer.seek("orders", 0, 6)
        await lake.reset_offsets("audit", "orders", 1)
        await consumer.commit()
        assert (await lake.coordination.groups.get("audit")).positions["orders"].offsets == (1,)
        assert await polled(consumer, 9) == list(range(1, 10))
        await consumer.close()

    on_lake(work, 10, queues=1)


def test_a_seek_back_that_is_committed_moves_no_group_that_was_made_after_the_reader_s() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        await polled(consumer, 10)
        await consumer.commit()
        await consumer.seek("orders", 0, 6)
        await lake.delete_group("audit", force=True)
        await lake.create_group("audit")
        await lake.reset_offsets("audit", "orders", "earliest")
        with pytest.raises(GroupDeleted):
            await consumer.commit()
        assert (await lake.coordination.groups.get("audit")).positions["orders"].offsets == (0,)
        with pytest.raises(GroupDeleted):
            await consumer.close()

    on_lake(work, 10, queues=1)


def test_a_seek_back_is_committed_though_others_write_the_record_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        await polled(consumer, 10)
        await consumer.commit()
        await consumer.seek("orders", 0, 6)
        write, others = Cells.write, [True]

        async def overtaken(cells: Cells, key: str, data: bytes, **how: Any) -> StoredCell:
            if key == group_key("audit") and others:
                others.clear()
                await lake.alter_group("audit", max_attempts=3)
            return await write(cells, key, data, **how)

        monkeypatch.setattr(Cells, "write", overtaken)
        await consumer.commit()
        assert not others
        assert consumer.committed("orders", 0) == 6
        assert await polled(consumer, 4) == [6, 7, 8, 9]
        await consumer.commit()
        assert consumer.committed("orders", 0) == 10
        await consumer.close()

    on_lake(work, 10, queues=1)


def test_a_member_with_queues_of_its_own_is_a_member() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        async with penstock.aio.connect(store=lake.store) as other:
            picked = await opened(lake, queues={"orders": [1]})
            await polled(picked, 2)
            (member,) = (await other.describe_group("audit")).members
            assert member.startswith(lake.coordination.worker.id)
            with pytest.raises(GroupInUse, match=r"members of the consumer group live.*" + member):
                await other.delete_group("audit")
            shared = await opened(other)
            while len(shared.assignment) != 3:
                await shared.poll(timeout=timedelta(milliseconds=20))
            assert len((await other.describe_group("audit")).members) == 2
            await shared.close()
            await picked.close()
            assert (await other.describe_group("audit")).members == ()
            await other.delete_group("audit")

    on_lake(work, 8, queues=4)


def test_a_reset_by_an_operator_moves_a_reader() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        await polled(consumer, 10)
        await consumer.commit()
        await lake.reset_offsets("audit", "orders", 6)
        assert await polled(consumer, 4) == [6, 7, 8, 9]
        await consumer.close()

    on_lake(work, 10, queues=1)


def test_a_group_with_messages_tracked_by_themselves_cannot_be_pulled() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        await polled(consumer, 10)
        await consumer.close()
        key = queue_key("audit", "orders", 0)
        found = await lake.coordination.cells.read(key)
        assert found is not None
        cell = decode_cell(found.data, where=key).with_tries(2, Tries(MessageState.WAITING))
        await lake.coordination.cells.write(key, encode_cell(cell), on=found, deadline_s=float("inf"))
        consumer = await opened(lake)
        with pytest.raises(GroupMixed, match="wait, are in flight or parked"):
            await polled(consumer, 1)
        with pytest.raises(GroupMixed):
            await consumer.close()

    on_lake(work, 10, queues=1)


def test_what_was_fetched_before_an_error_is_handed_out_first_so_that_no_commit_passes_over_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        while len(consumer.assignment) < 2:
            await consumer.poll(1, timeout=NOW)
        for queue in (0, 1):
            await consumer.seek("orders", queue, 0)
        fetch, asked = Feed.fetch, list[int]()

        async def failing(feed: Feed, queue: int, start: int, **how: int) -> Any:
            asked.append(queue)
            if len(set(asked)) == 2 and queue == asked[-1] != asked[0]:
                raise StoreUnavailable("no answer", operation="fetch", object=str(queue))
            return await fetch(feed, queue, start, **how)

        monkeypatch.setattr(Feed, "fetch", failing)
        found = await consumer.poll(timeout=NOW)
        assert [message.offset for message in found] == [0, 1, 2, 3]
        with pytest.raises(StoreUnavailable):
            await consumer.poll(timeout=NOW)
        monkeypatch.undo()
        await consumer.commit()
        assert [consumer.committed("orders", queue) for queue in (asked[0], asked[1])] == [4, 0]
        assert len(await polled(consumer, 4)) == 4
        await consumer.close()

    on_lake(work, 8)


def test_a_poll_that_is_given_up_hands_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        while len(consumer.assignment) < 2:
            await consumer.poll(1, timeout=NOW)
        for queue in (0, 1):
            await consumer.seek("orders", queue, 0)
        fetch, second = Feed.fetch, asyncio.Event()
        asked: list[int] = []

        async def hanging(feed: Feed, queue: int, start: int, **how: int) -> Any:
            asked.append(queue)
            if len(asked) == 2:
                second.set()
                await asyncio.Event().wait()
            return await fetch(feed, queue, start, **how)

        monkeypatch.setattr(Feed, "fetch", hanging)
        polling = asyncio.ensure_future(consumer.poll(timeout=SOON))
        await second.wait()
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await consumer.commit()
        assert [consumer.committed("orders", queue) for queue in (0, 1)] == [0, 0]
        assert sorted(await polled(consumer, 8)) == list(range(8))
        await consumer.close()

    on_lake(work, 8)


def test_what_was_handed_out_before_a_reset_is_not_committed_after_it() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        await polled(consumer, 10)
        owned = consumer._owned["orders", 0]
        await lake.reset_offsets("audit", "orders", 6)
        record = await lake.coordination.groups.get("audit")
        carrying_out = asyncio.ensure_future(owned.keeper.change(lambda cell: caught_up(cell, record, "orders", 0)))
        await asyncio.gather(carrying_out, consumer.commit())
        assert owned.keeper.cell.settled.floor == 6
        await consumer.commit()
        assert owned.keeper.cell.settled.floor == 6
        assert await polled(consumer, 4) == [6, 7, 8, 9]
        await consumer.close()

    on_lake(work, 10, queues=1)


def test_a_condition_is_parsed_when_a_queue_is_taken_not_with_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str | None] = []

    def noted(text: str | None) -> Filter:
        parsed.append(text)
        return parse_filter(text)

    monkeypatch.setattr(group_filter, "parse_filter", noted)

    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake, filter="SQL92: TAGS = 'odd'")
        assert [int((await consumer.poll(1, timeout=SOON))[0].body) for _ in range(5)] == [1, 3, 5, 7, 9]
        assert parsed == ["SQL92: TAGS = 'odd'"]
        await lake.alter_group("audit", filters={"orders": "SQL92: TAGS = 'even'"})
        while parsed[-1] != "SQL92: TAGS = 'even'":
            assert await consumer.poll(timeout=timedelta(milliseconds=20)) == []
        await consumer.seek("orders", 0, "earliest")
        assert await polled(consumer, 5) == [0, 2, 4, 6, 8]
        await consumer.close()

    on_lake(work, 10, queues=1)


def test_queues_that_do_not_exist_are_not_waited_for() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        with pytest.raises(InvalidArgument, match=r"no such queue.*orders") as caught:
            await opened(lake, queues={"orders": [1, 2]})
        assert (caught.value.expected, caught.value.observed) == ("queues below 2", "2")

    on_lake(work, 1, queues=2)


def test_bad_calls_are_refused() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        for number in (0, -1, True, 1.5):
            with pytest.raises(InvalidArgument, match="positive whole number"):
                await consumer.poll(number)  # type: ignore[arg-type]
        await consumer.close()
        await consumer.close()
        with pytest.raises(ClosedError, match="closed"):
            await consumer.poll()

    on_lake(work, 1, queues=1)


def test_queues_that_come_again_after_a_lost_lease_can_be_given_to_another() -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        async with penstock.aio.connect(store=lake.store) as other:
            consumer = await opened(lake)
            assert sorted(await polled(consumer, 20)) == list(range(20))
            consumer._membership.member.end(LeaseLost("it stood still"))
            assert sorted(await polled(consumer, 20)) == list(range(20)), "nothing was committed"
            another = PullConsumer(other, lake.coordination, group="audit", subscriptions={"orders": Subscription()}, stated={})
            await another.start()
            while len(consumer.assignment) > 1:
                assert await consumer.poll(timeout=timedelta(milliseconds=20)) == []
            assert await consumer.poll(timeout=NOW) == []
            await another.close()
            await consumer.close()

    on_lake(work, 20)


def test_a_lease_that_is_lost_as_its_consumer_leaves_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        consumer = await opened(lake)
        await polled(consumer, 20)
        consumer._membership.leaving = True
        consumer._membership.member.end(LeaseLost("it stood still"))
        await consumer.close()

    on_lake(work, 20)
    assert "the lease was lost as it left, so others run what was not settled" in caplog.text


def test_a_consumer_closes_though_the_table_did_not_answer_when_it_began_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(lake: penstock.aio.Lake) -> None:
        async with penstock.aio.connect(store=lake.store) as other:
            consumer = await opened(lake)
            await polled(consumer, 4)
            another = await opened(other)
            await polled(another, 2)
            update, failures = GroupRegistry.update, [StoreUnavailable("no answer", operation="get", object="groups/audit")]

            async def fails_once(self: GroupRegistry, group: str, change: Callable[[GroupRecord], GroupRecord]) -> GroupRecord:
                if failures:
                    raise failures.pop()
                return await update(self, group, change)

            monkeypatch.setattr(GroupRegistry, "update", fails_once)
            await asyncio.wait_for(consumer.close(), 10)
            assert not failures
            await another.close()

    on_lake(work, 4)

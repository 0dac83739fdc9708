"""Topics and groups that are deleted and made again: nothing of one life is taken for another's, and what is lost is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

import penstock
from penstock import aio
from penstock.consumers.membership import Membership, Subscription
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import encode_cell
from penstock.coordinator.queues.invisibility import acknowledged
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from penstock.coordinator.queues.receipt_handle import ReceiptHandle, ReceiptOutdated
from penstock.log.errors import TopicDeleted
from penstock.log.stores import Fault, FaultKind, FaultStore, MemoryStore
from penstock.log.topic.settings import TopicSettings
from tests.consumers.heard import AT_ONCE, Heard, consuming, letters, send, until_settled
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until


def given_up(store: MemoryStore, *, queue: int = 0, offsets: Sequence[int] = (0,), before: str = "begun") -> None:
    """The group has begun on the topic, and left in its cell messages that were given up, of which no dead letter is written."""

    async def work() -> None:
        async with aio.connect(store=store, maintenance=False) as lake:
            if before == "begun":
                await lake.create_group("billing", retry=AT_ONCE)
                await lake.reset_offsets("billing", "orders", "earliest")
            record = await lake.coordination.groups.get("billing")
            cell = QueueCell(generation=record.positions["orders"].generations[queue], owner="gone/1", epoch=1)
            cell = cell.with_settled(OffsetSet.of([(0, 1)])).with_dead_letters(offsets)
            await lake.coordination.cells.write(
                queue_key("billing", "orders", queue), encode_cell(cell), on=None, deadline_s=float("inf")
            )

    asyncio.run(work())


def lost_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for record in caplog.records if "lost" in (text := record.getMessage())]


@pytest.mark.parametrize("messages", ["ab", ""], ids=["with other messages", "empty"])
def test_what_a_former_topic_s_message_died_of_is_no_dead_letter_of_another_message(
    caplog: pytest.LogCaptureFixture, messages: str
) -> None:
    store = MemoryStore()
    with penstock.connect(store=store, maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=1)
        send(lake, "x")
        given_up(store)
        lake.delete_topic("orders")
        lake.create_topic("orders", message_type="FIFO", queues=1)
        send(lake, messages)
        heard = Heard()
        with consuming(lake, heard):
            wait_until(lambda: lake.describe_group("billing").lost_letters == 1, "it is told")
            heard.until_done(len(messages))
            until_settled(lake)
            send(lake, "c")
            heard.until_done(len(messages) + 1)
        assert letters(lake) == []
        assert [one.lost_letters for one in lake.describe_group("billing").queues] == [1]
        (told,) = lost_lines(caplog)
        assert "orders queue 0: offset 0 was given up" in told
        assert "the topic or the group was deleted" in told


def test_dead_letters_of_queues_that_the_next_topic_has_not_are_told_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with penstock.connect(store=store, maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=4)
        given_up(store, queue=3, offsets=(2, 5))
        lake.delete_topic("orders")
        lake.create_topic("orders", message_type="FIFO", queues=1)
        assert lake.describe_group("billing").lost_letters == 2, "as it is once a member has begun there"
        send(lake, "a")
        for _ in range(2):
            with consuming(lake, Heard()):
                until_settled(lake)
        assert lake.describe_group("billing").lost_letters == 2
        (told,) = lost_lines(caplog)
        assert "orders queue 3" in told
        assert "offsets 2, 5" in told
        lake.delete_topic("orders")
        lake.create_topic("orders", message_type="FIFO", queues=4)
        send(lake, "abcdefgh")
        with consuming(lake, heard := Heard()):
            heard.until_done(8)
        assert lake.describe_group("billing").lost_letters == 2, "counted once"
        assert len(lost_lines(caplog)) == 1


def test_dead_letters_of_a_former_group_in_queues_that_the_topic_has_no_more_are_counted_as_lost() -> None:
    store = MemoryStore()
    with penstock.connect(store=store, maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=4)
        given_up(store, queue=3, offsets=(2, 5))
        lake.delete_group("billing", force=True)
        lake.delete_topic("orders")
        lake.create_topic("orders", message_type="FIFO", queues=1)
        send(lake, "a")
        with consuming(lake, Heard()):
            until_settled(lake)
        assert lake.describe_group("billing").lost_letters == 2


def test_a_group_is_not_deleted_while_dead_letters_are_to_be_written_unless_it_is_forced(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with penstock.connect(store=store, maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=1)
        send(lake, "x")
        given_up(store)
        with pytest.raises(penstock.GroupInUse, match=r"no dead letter yet.*billing.*1 of topic orders"):
            lake.delete_group("billing")
        lake.delete_group("billing", force=True)
        (told,) = lost_lines(caplog)
        assert "the group is deleted" in told
        with consuming(lake, heard := Heard()):
            heard.until_done(1)
            wait_until(lambda: lake.describe_group("billing").lost_letters == 1, "it is counted")
        assert letters(lake) == [], "the new group gave nothing up"


def test_a_group_of_a_topic_that_is_gone_is_deleted_and_what_is_lost_is_told(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with penstock.connect(store=store, maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=1)
        given_up(store)
        lake.delete_topic("orders")
        assert lake.describe_group("billing").queues[0].dead_letters == 1
        lake.delete_group("billing")
        assert len(lost_lines(caplog)) == 1


async def test_a_member_that_has_not_heard_of_the_topic_s_end_settles_nothing_of_the_next_one() -> None:
    """It stood still while all that happened: its own view of the log is the former topic's."""
    store = MemoryStore()
    async with aio.connect(store=store, maintenance=False) as late, aio.connect(store=store, maintenance=False) as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        member = Membership(
            late,
            late.coordination,
            group="billing",
            subscriptions={"orders": Subscription()},
            stated={},
            assigned={"orders": [0]},
        )
        await member.begin()
        await lake.delete_topic("orders")
        await lake.create_topic("orders", TopicSettings(queues=1))
        await lake.reset_offsets("billing", "orders", "earliest")
        with pytest.raises(TopicDeleted, match="created again"):
            await member.round()
        await member.end()


def test_a_handle_of_a_former_life_is_refused_also_before_the_cell_has_caught_up() -> None:
    handle = ReceiptHandle(group="billing", topic="orders", queue=0, offset=3, generation=1, attempt=1)
    cell = QueueCell(generation=1, settled=SettledOffsets(5))
    with pytest.raises(ReceiptOutdated):
        acknowledged(cell, handle, now_ms=0, known=2)


def test_a_consumer_ends_with_the_topic_and_tells_which_dead_letters_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    def no_letters(_: int, verb: str, key: str) -> Fault | None:
        return Fault(FaultKind.THROTTLED) if verb == "put" and key.startswith("topics/dlq.billing/log/") else None

    store = MemoryStore()
    with penstock.connect(store=FaultStore(store, no_letters), maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=1)
        send(lake, "x")
        given_up(store)
        consumer = lake.push_consumer("orders", group="billing", listener=Heard())
        wait_until(lambda: lake.describe_group("billing").queues[0].owner not in {"", "gone/1"}, "it owns the queue")
        lake.delete_topic("orders")
        with pytest.raises(TopicDeleted):
            consumer.wait(timedelta(seconds=TIMEOUT_S))
        with pytest.raises(TopicDeleted):
            consumer.close()
        assert "offsets 0" in lost_lines(caplog)[-1]

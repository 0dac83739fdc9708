"""The life of one message by the public API: `penstock.Lake.trace`, and the same on an event loop."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

import penstock
from penstock import InvalidArgument, Message, RetryPolicy, TopicNotFound
from penstock.consumers import DeliveryState, GroupTrace, Trace
from penstock.consumers.dead_letters.redrive_cell import RedriveCell
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.spills import WaitingRows, with_spilled
from penstock.coordinator.registry.spill_objects import SpillObjects
from penstock.coordinator.timers.tracing import DelayState
from penstock.log.paths import TopicPaths
from penstock.log.stores import MemoryStore
from penstock.log.stores.protocol import Put
from penstock.log.table.publisher import Publisher
from penstock.log.topic.records import read_record
from tests.consumers.heard import FAILURE, SUCCESS, Heard, consuming, failing, fill, send, until_settled
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

SOON = timedelta(seconds=TIMEOUT_S)
HOUR = RetryPolicy(interval=timedelta(hours=1))


def ids(lake: penstock.Lake) -> dict[str, str]:
    """Message ids by body."""
    return {one.body.decode(): one.message_id for one in lake.reader("orders").messages()}


def in_group(found: Trace, group: str = "billing", place: int = 0) -> GroupTrace:
    (one,) = (one for one in found.places[place].groups if one.group == group)
    return one


def fate(lake: penstock.Lake, message_id: str) -> DeliveryState:
    return in_group(lake.trace(message_id)).fate


def test_where_a_message_lies_and_that_nobody_reads_it(lake: penstock.Lake) -> None:
    fill(lake, "aab")
    lake.create_topic("others")
    told: list[tuple[int, int]] = []
    found = lake.trace(ids(lake)["a1"], progress=lambda done, topics: told.append((done, topics)))
    (place,) = found.places
    assert (place.message.topic, place.message.queue, place.message.offset, place.message.body) == ("orders", 0, 1, b"a1")
    assert place.entry is not None
    assert place.published is None
    assert (place.groups, place.members, place.dead_letter, place.redriven_from) == ((), (), None, None)
    assert found.topics == ("orders", "others")
    assert found.unread == ()
    assert told == [(1, 2), (2, 2)]
    assert lake.trace(ids(lake)["a1"], topic="orders").topics == ("orders",)


def test_a_message_in_the_table(lake: penstock.Lake) -> None:
    fill(lake, "aab")

    async def publish() -> None:
        paths = TopicPaths.of("orders")
        record = await read_record(lake._core.store, paths)
        assert record is not None
        await Publisher(lake._core.store, paths, record[0], lake._core.runtime).publish_once()

    lake._portal.run(publish)
    (place,) = lake.trace(ids(lake)["b0"]).places
    assert place.published is not None
    assert place.published.path.startswith("queue=0/")


def test_what_nobody_sent_and_what_can_be_no_id(lake: penstock.Lake) -> None:
    fill(lake, "a")
    assert lake.trace("0" * 32) == Trace(message_id="0" * 32, places=(), topics=("orders",))
    with pytest.raises(TopicNotFound):
        lake.trace("0" * 32, topic="nowhere")
    for other in ("", None, 5, "\ud800"):
        with pytest.raises(InvalidArgument, match="a message id is a text"):
            lake.trace(other)  # type: ignore[arg-type]


def test_in_flight_then_settled(lake: penstock.Lake) -> None:
    fill(lake, "ab")
    known, go = ids(lake), threading.Event()
    heard = Heard(lambda message: SUCCESS if go.wait(TIMEOUT_S) else FAILURE)
    with consuming(lake, heard):
        heard.until(lambda heard: len(heard.begun) == 2, "both handlers run")
        found = in_group(lake.trace(known["a0"]))
        assert (found.fate, found.attempts, found.failed_attempts, found.epoch) == (DeliveryState.IN_FLIGHT, 1, 0, 1)
        assert found.owner
        go.set()
        until_settled(lake)
        found = in_group(lake.trace(known["a0"]))
        assert (found.fate, found.attempts, found.failed_attempts) == (DeliveryState.SETTLED, None, None), (
            "how often it was delivered is not kept"
        )


def test_a_failed_message_waits_and_those_behind_it_are_held_up(lake: penstock.Lake) -> None:
    fill(lake, "aab")
    known, before = ids(lake), datetime.now(UTC)
    with consuming(lake, Heard(failing(b"a0", lambda: FAILURE)), retry=HOUR):
        wait_until(lambda: fate(lake, known["a0"]) is DeliveryState.WAITING, "a0 waits")
        found = in_group(lake.trace(known["a0"]))
        assert (found.attempts, found.failed_attempts) == (1, 1)
        assert found.due is not None
        assert timedelta(minutes=59) < found.due - before < timedelta(minutes=61)
        behind = in_group(lake.trace(known["a1"]))
        assert (behind.fate, behind.behind) == (DeliveryState.BEHIND, 0)
        wait_until(lambda: fate(lake, known["b0"]) is DeliveryState.SETTLED, "b0 is settled")


def test_parked(lake: penstock.Lake) -> None:
    fill(lake, "a")
    known = ids(lake)
    with consuming(lake, Heard(lambda _: FAILURE), max_attempts=2, dead_letter_policy="park"):
        wait_until(lambda: fate(lake, known["a0"]) is DeliveryState.PARKED, "a0 is parked")
    found = in_group(lake.trace(known["a0"]))
    assert (found.attempts, found.failed_attempts) == (2, 2)


def test_received_by_a_simple_consumer(lake: penstock.Lake) -> None:
    fill(lake, "a")
    known = ids(lake)
    with lake.simple_consumer("orders", group="billing", delivery_order="CONCURRENT") as simple:
        (message,) = simple.receive(1, timedelta(minutes=5), SOON)
        found = in_group(lake.trace(known["a0"]))
        assert (found.fate, found.attempts) == (DeliveryState.RECEIVED, 1)
        assert found.due is not None
        assert found.due > datetime.now(UTC) + timedelta(minutes=4)
        simple.ack(message)
        assert fate(lake, known["a0"]) is DeliveryState.SETTLED


def test_left_out_fresh_and_passed_over(lake: penstock.Lake) -> None:
    fill(lake, "abc", tags="xyx")
    known = ids(lake)
    lake.create_group("billing", filters={"orders": "SQL92: TAGS = 'x'"})
    lake.reset_offsets("billing", "orders", 1)
    assert fate(lake, known["a0"]) is DeliveryState.PASSED_OVER
    assert fate(lake, known["b0"]) is DeliveryState.LEFT_OUT
    assert in_group(lake.trace(known["c0"])) == GroupTrace(
        group="billing", fate=DeliveryState.FRESH, owner="", epoch=0, committed_offset=1, attempts=0, failed_attempts=0
    )


def test_a_dead_letter_and_its_way_back(lake: penstock.Lake) -> None:
    fill(lake, "aab")
    known = ids(lake)
    with consuming(lake, Heard(lambda message: FAILURE if message.body == b"a1" else SUCCESS), max_attempts=2):
        until_settled(lake)
    found = lake.trace(known["a1"])
    assert [one.message.topic for one in found.places] == ["orders", "%DLQ%billing"]
    assert (in_group(found).fate, in_group(found).dead_letter) == (DeliveryState.DEAD_LETTER, 0)
    letter = found.places[1].dead_letter
    assert letter is not None
    assert (letter.group, letter.redrive) == ("billing", "no")
    assert letter.origin == ("orders", 0, 1, 1, "the listener answered FAILURE")
    assert found.places[0].redriven_from is None
    assert lake.trace(known["a1"], topic="orders").places == found.places, "the dead letters of its groups are looked through, too"
    lake.redrive("billing")
    found = lake.trace(known["a1"])
    assert [one.message.topic for one in found.places] == ["orders", "%DLQ%billing", "orders"]
    letter = found.places[1].dead_letter
    assert letter is not None
    assert letter.redrive == "sent"
    assert (found.places[2].redriven_from, in_group(found, place=2).fate) == (0, DeliveryState.FRESH)
    assert in_group(found).fate is DeliveryState.DEAD_LETTER


@pytest.mark.parametrize("is_passed_over", [False, True])
def test_a_dead_letter_is_on_its_way_back_until_that_is_durable_also_where_a_redrive_passed_it_over(
    lake: penstock.Lake, is_passed_over: bool
) -> None:
    fill(lake, "a")
    known = ids(lake)
    with consuming(lake, Heard(lambda _: FAILURE), max_attempts=1):
        until_settled(lake)

    async def begin() -> None:
        """A redrive gives it a sequence. Perhaps it cannot write it then, and writes another one."""
        begun = RedriveCell(lake._core, "billing", (await lake._core.topic("%DLQ%billing")).life)
        await begun.read()
        await begun.give([0, 1], earliest=0)
        if is_passed_over:
            await begun.bury({(1, 1)})
        assert begun.cell.dead_letters.kept == (((0, 0),) if is_passed_over else ())
        await begun.close()

    lake._portal.run(begin)
    letter = lake.trace(known["a0"]).places[1].dead_letter
    assert letter is not None
    assert letter.redrive == "on its way"


def test_a_property_of_the_name_does_not_make_a_message_one_that_was_sent_back(lake: penstock.Lake) -> None:
    lake.create_topic("orders")
    with lake.producer("orders") as producer:
        message_id = producer.send(Message(b"x", properties={"REDRIVE_OFFSET": "3"})).result(TIMEOUT_S).message_id
    assert lake.trace(message_id).places[0].redriven_from is None
    with lake.producer("orders", name="redrive/x") as producer:
        properties = {"REDRIVE_OFFSET": "9" * 5000}
        message_id = producer.send(Message(b"x", properties=properties), sequence=1).result(TIMEOUT_S).message_id
    assert lake.trace(message_id).places[0].redriven_from is None


def test_members_of_a_broadcasting_group(lake: penstock.Lake) -> None:
    fill(lake, "aa")
    heard = Heard()
    with lake.broadcast_consumer("orders", group="screens", member="one", listener=heard):
        heard.until_done(2)
    send(lake, "b")
    known = ids(lake)
    (member,) = lake.trace(known["a1"]).places[0].members
    assert (member.group, member.member, member.next_offset, member.delivered) == ("screens", "one", 2, True)
    assert not lake.trace(known["b0"]).places[0].members[0].delivered


def test_several_groups_and_an_orderly_one_whose_queue_was_taken_over(lake: penstock.Lake) -> None:
    fill(lake, "a")
    known = ids(lake)
    for _ in range(2):
        with consuming(lake, Heard()):
            until_settled(lake)
    with consuming(lake, Heard(), group="audit", delivery_order="CONCURRENT"):
        until_settled(lake, "audit")
    groups = lake.trace(known["a0"]).places[0].groups
    assert [(one.group, one.fate) for one in groups] == [("audit", DeliveryState.SETTLED), ("billing", DeliveryState.SETTLED)]
    assert in_group(lake.trace(known["a0"])).epoch == 2


def test_a_delayed_message_waits_is_called_back_or_is_delivered(lake: penstock.Lake) -> None:
    lake.create_topic("orders", message_type="DELAY", queues=1)
    with lake.producer("orders") as producer:
        later, back, soon = (
            producer.send(Message(body, delay=timedelta(seconds=delay_s))).result(TIMEOUT_S)
            for body, delay_s in ((b"later", 3600), (b"back", 3600), (b"soon", 0.1))
        )
    assert back.recall_handle is not None
    lake.recall(back.recall_handle)

    def delay(message_id: str) -> DelayState:
        traced = lake.trace(message_id, topic="orders").places[0].delay
        assert traced is not None
        assert traced.topic == "orders"
        return traced.delay

    (place,) = lake.trace(later.message_id).places
    assert (place.message.topic, place.groups) == ("%TIMER%orders", ())
    assert place.delay is not None
    assert timedelta(minutes=59) < place.delay.due - datetime.now(UTC) < timedelta(minutes=61)
    assert (delay(later.message_id), delay(back.message_id)) == (DelayState.WAITING, DelayState.RECALLED)
    wait_until(lambda: len(lake.trace(soon.message_id).places) == 2, "it is delivered", timeout_s=TIMEOUT_S)
    wait_until(lambda: delay(soon.message_id) is DelayState.DELIVERED, "that is noted", timeout_s=TIMEOUT_S)
    assert [one.message.topic for one in lake.trace(soon.message_id).places] == ["%TIMER%orders", "orders"]


def test_a_message_of_a_transaction_is_half_then_visible_or_gone(lake: penstock.Lake) -> None:
    lake.create_topic("orders", message_type="TRANSACTION", queues=1)
    lake.create_topic("others", queues=1)
    lake.check_transactions("cashiers", lambda _: penstock.TransactionResolution.UNKNOWN)

    def begun() -> penstock.Transaction:
        return lake.transaction(producer_group="cashiers")

    with begun() as transaction:
        first, message_id = transaction.send("orders", Message(b"x"), Message(b"y"))
        found = lake.trace(message_id)
        assert found.places == ()
        half = found.transaction
        assert half is not None
        assert (half.id, half.decision, half.producer_group, half.by, half.checks, half.finished) == (
            transaction.id,
            "open",
            "cashiers",
            None,
            0,
            None,
        )
        assert half.half is not None
        assert (half.half.topic, half.half.body, half.half.offset) == ("orders", b"y", -1)
        assert half.begun is not None
        assert half.next_check is not None
        assert half.next_check - half.begun == timedelta(seconds=60)
        assert lake.trace(first[:16] + "f" * 16).transaction is None, "no such message is of it"
        transaction.commit()
    found = lake.trace(message_id)
    assert found.transaction is None
    (place,) = found.places
    assert place.transaction is not None
    assert (place.transaction.id, place.transaction.decision) == (transaction.id, "committed")
    with begun() as transaction:
        (message_id,) = transaction.send("orders", Message(b"x"))
        transaction.rollback()
    assert lake.trace(message_id).places == ()


def test_what_waits_outside_of_a_cell(lake: penstock.Lake) -> None:
    fill(lake, "ab")
    known = ids(lake)
    with consuming(lake, Heard(lambda _: FAILURE), retry=HOUR, delivery_order="CONCURRENT"):
        wait_until(lambda: {fate(lake, one) for one in known.values()} == {DeliveryState.WAITING}, "both wait")
    before = in_group(lake.trace(known["b0"]))

    async def spill() -> None:
        cells = lake._core.coordination.cells
        key = queue_key("billing", "orders", 0)
        stored = await cells.read(key)
        assert stored is not None
        cell = decode_cell(stored.data, where=key)
        rows = WaitingRows.of(cell.tries)
        name = await SpillObjects(lake._core.store, lake._core.runtime, "billing", "orders", 0).write(rows)
        spilled = with_spilled(cell, rows.spill(name), cell.tries, cell.generation)
        await cells.write(key, encode_cell(spilled), on=stored, deadline_s=lake._core.runtime.clock.monotonic_s() + TIMEOUT_S)

    lake._portal.run(spill)
    assert in_group(lake.trace(known["b0"])) == before


async def test_what_cannot_be_read_is_named_and_the_rest_is_told() -> None:
    store = MemoryStore()
    async with penstock.aio.connect(store=store) as lake:
        for name in ("orders", "other", "third"):
            await lake.create_topic(name, penstock.log.TopicSettings(queues=1))
        producer = await lake.producer("orders")
        sent = await producer.send(Message(b"x"))
        (checkpointed,) = [info.key for info in await store.list("topics/other/log/0")][:1]
        await store.put(checkpointed, b"damaged", mode=Put.REPLACE)
        await store.put("topics/third/topic.json", b"damaged", mode=Put.REPLACE)
    async with penstock.aio.connect(store=store, read_only=True) as lake:
        found = await lake.trace(sent.message_id)
        assert [one.message.topic for one in found.places] == ["orders"]
        assert found.topics == ("orders", "other", "third")
        assert len(found.unread) == 2
        assert "topics/third/topic.json" in found.unread[0]
        assert checkpointed in found.unread[1]

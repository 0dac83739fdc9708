"""SimpleConsumer: what a receive gives and when, what becomes of what it gave, and what holds it up."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from datetime import timedelta

import pytest

from penstock.consumers.dead_letters.writer import REASON, RECONSUME_TIMES
from penstock.consumers.queues.processor import QueueProcessor
from penstock.consumers.simple import SimpleOptions
from penstock.coordinator.queues.keeper import CellRequest
from penstock.coordinator.queues.receipt_handle import AlreadySettled, ForeignReceipt, ReceiptExpired, ReceiptHandle
from penstock.log import Message, MessageView
from penstock.log.errors import InvalidArgument, PenstockError
from tests.consumers.receiving import AT_ONCE, NOW, TEN, Member, Scene, attempts, bodies
from tests.playing import played_on

ORDERS = ["ORDERLY", "CONCURRENT"]


# --- Waiting --------------------------------------------------------------------------------------------------------------------------


@played_on(Scene, queues=4)
async def test_a_receive_ends_with_the_first_message_and_not_before_its_time_without_one(scene: Scene) -> None:
    one, other = scene.member(), scene.member("producer")
    await one.consume()
    began_s = scene.now_s
    assert await one.receive(wait=timedelta(seconds=5)) == []
    assert scene.now_s - began_s == pytest.approx(5, abs=0.01)
    began_s = scene.now_s
    assert await one.receive(wait=NOW) == []
    assert scene.now_s == began_s
    waiting = asyncio.ensure_future(one.receive(wait=timedelta(seconds=20)))
    await scene.let_pass(10)
    await other.send("a1")
    sent_s = scene.now_s
    assert bodies(await waiting) == ["a1"]
    assert scene.now_s - sent_s < 1.1, "at most the tail's pause in silence, and a write"
    waiting = asyncio.ensure_future(one.receive(wait=timedelta(seconds=20)))
    await one.send("b1")
    sent_s = scene.now_s
    assert bodies(await waiting) == ["b1"]
    assert scene.now_s - sent_s < 0.2, "what this process sends it knows at once"


@played_on(Scene, queues=2, message_type="NORMAL")
async def test_several_receives_wait_at_once_and_none_is_given_what_another_was(scene: Scene) -> None:
    one = scene.member()
    await one.consume(delivery_order="CONCURRENT")
    waiting = [asyncio.ensure_future(one.receive(1, invisible=timedelta(hours=1), wait=timedelta(seconds=20))) for _ in range(5)]
    await scene.let_pass(5)
    await one.send(*(f"-{n}" for n in range(4)))
    await asyncio.wait(waiting)
    assert sorted(bodies([message for one in waiting for message in one.result()])) == ["-0", "-1", "-2", "-3"]
    assert sorted(len(one.result()) for one in waiting) == [0, 1, 1, 1, 1]


@played_on(Scene, queues=8, message_type="NORMAL")
async def test_a_receive_takes_from_all_queues_and_begins_with_another_each_time(scene: Scene) -> None:
    one = scene.member()
    for queue in range(8):
        await one.send(*(f"-{queue}.{n}" for n in range(10)), queue=queue)
    await one.consume(delivery_order="CONCURRENT")
    await scene.let_pass(5)
    first = await one.receive(25)
    assert len(first) == 25
    assert len({message.queue for message in first}) == 3
    seen = Counter(message.queue for message in first)
    for _ in range(7):
        seen.update(message.queue for message in await one.receive(5))
    assert len(seen) == 8, "no queue waits until the others are empty"


@played_on(Scene)
async def test_a_receive_that_is_given_up_gives_back_what_was_on_its_way(scene: Scene) -> None:
    one = scene.member()
    await one.send("a1", "a2")
    consumer = await one.consume()
    await scene.let_pass(2)
    for pause_s in (0.0005, 0.002, 0.004, 0.008):  # before the write, amid it, behind it
        receiving = one.process.spawn(consumer.receive(2, timedelta(hours=1)))
        await scene.let_pass(pause_s)
        receiving.cancel()
        await asyncio.wait([receiving])
    found = await one.receive()
    assert bodies(found) == ["a1", "a2"]
    assert (await scene.cell()).markers != {}
    await one.ack(*found)


@pytest.mark.parametrize("stopped", ["drained", "alone"])
@played_on(Scene)
async def test_a_receive_that_was_asked_before_the_queue_stops_is_given_nothing(scene: Scene, stopped: str) -> None:
    """The queue is to be released, or a message of another consumer of the process is to run alone."""
    one = scene.member()
    await one.send("a1")
    consumer = await one.consume()
    await scene.let_pass(2)
    processor, worker = consumer._owner.queues["orders", 0], one.coordination.worker

    async def asked_and_stopped() -> list[MessageView]:
        given = processor.ask(1, 60_000)
        if stopped == "drained":
            processor.drain()
            return await given
        async with worker.alone(consumer._membership.member) as alone:
            assert alone
            return await given

    assert await one.run(asked_and_stopped()) == []
    assert (await scene.cell()).markers == {}


# --- Order ----------------------------------------------------------------------------------------------------------------------------


@played_on(Scene)
async def test_only_the_message_group_of_what_is_out_waits(scene: Scene) -> None:
    one = scene.member()
    await one.send("a1", "a2", "b1", "a3", "c1")
    await one.consume()
    (a1,) = await one.receive(1)
    assert bodies(await one.receive()) == ["b1", "c1"], "RocketMQ would hand out nothing of the queue"
    began_s = scene.now_s
    waiting = asyncio.ensure_future(one.receive(wait=timedelta(seconds=8)))
    await scene.let_pass(1)
    await one.ack(a1)
    assert bodies(await waiting) == ["a2", "a3"]
    assert scene.now_s - began_s < 1.2
    assert (await scene.cell()).settled.floor == 5, "nothing that is out holds the floor"


@played_on(Scene)
async def test_of_a_concurrent_group_nothing_waits(scene: Scene) -> None:
    one = scene.member()
    await one.send("a1", "a2", "a3")
    await one.consume(delivery_order="CONCURRENT")
    assert [bodies(await one.receive(1)) for _ in range(3)] == [["a1"], ["a2"], ["a3"]]


@played_on(Scene)
async def test_what_is_acknowledged_never_comes_back_whatever_expires_beside_it(scene: Scene) -> None:
    """RocketMQ hands A2 out again with A1, though acknowledged, and takes it to the dead-letter queue at last."""
    one = scene.member()
    await one.send("a1", "b1", "a2")
    await one.consume(max_attempts=3)
    await scene.let_pass(2)  # all are there: the first receive is given all
    seen: Counter[str] = Counter()
    for _ in range(3):
        found = await one.receive(wait=timedelta(seconds=15))
        seen.update(bodies(found))
        await one.ack(*(message for message in found if message.body == b"b1"))
    await scene.let_pass(12)
    last = await one.receive()
    assert (bodies(last), attempts(last)) == (["a2"], {"a2": 4})
    await one.ack(*last)
    assert seen == {"a1": 3, "a2": 3, "b1": 1}
    assert bodies(await scene.letters()) == ["a1"]


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene, message_type="NORMAL")
async def test_messages_without_a_message_group_are_one_line_in_an_orderly_group_only(scene: Scene, order: str) -> None:
    one = scene.member()
    await one.send("-1", "-2")
    await one.consume(delivery_order=order)
    assert bodies(await one.receive(1)) == ["-1"]
    assert bodies(await one.receive(1, wait=NOW)) == ([] if order == "ORDERLY" else ["-2"])


# --- Ends of a delivery ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_an_expiry_is_a_failed_attempt_and_the_last_one_makes_a_dead_letter(order: str, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    async def script() -> None:
        one = scene.member()
        await one.send("a1", "a2")
        await one.consume(delivery_order=order, max_attempts=3)
        await scene.let_pass(1)
        times: list[float] = []
        for attempt in (1, 2, 3):
            found = await one.receive(1, wait=timedelta(seconds=20))
            times.append(scene.now_s)
            assert attempts(found) == {"a1": attempt}
            if order == "CONCURRENT" and attempt == 1:
                await one.ack(*await one.receive(1))
        assert [later - earlier for earlier, later in itertools.pairwise(times)] == pytest.approx([10, 10], abs=0.1)
        await scene.let_pass(12)
        (letter,) = await scene.letters()
        assert letter.body == b"a1"
        assert letter.properties[RECONSUME_TIMES] == "2"
        assert letter.properties[REASON] == "it was received, and not acknowledged in time"
        rest = await one.receive(wait=timedelta(seconds=12))
        assert bodies(rest) == (["a2"] if order == "ORDERLY" else [])

    with caplog.at_level(logging.WARNING, "penstock.consumers"):
        scene.play(script)
    lines = [record.getMessage() for record in caplog.records]
    late = "group audit, orders queue 0: offset 0 was not acknowledged at attempt {}, and may be received again now"
    assert [line for line in lines if "was not acknowledged" in line] == [late.format(1), late.format(2)]
    assert len([line for line in lines if "offset 0 was given up after 3 attempts" in line]) == 1


@played_on(Scene)
async def test_a_parked_message_group_waits_for_an_operator(scene: Scene) -> None:
    one = scene.member()
    await one.send("a1", "a2", "b1")
    await one.consume(max_attempts=1, dead_letter_policy="park")
    await scene.let_pass(2)
    await one.receive(1)
    await scene.let_pass(12)
    (b1,) = await one.receive()
    await one.ack(b1)
    assert b1.body == b"b1"
    assert await one.receive() == []
    await one.run(one.operators.release("audit"))
    found = await one.receive(wait=timedelta(seconds=20))
    assert attempts(found) == {"a1": 2}
    await one.ack(*found)
    assert bodies(await one.receive()) == ["a2"]


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_an_extension_is_no_retry_and_an_end_at_once_is(scene: Scene, order: str) -> None:
    one = scene.member()
    await one.send("a1")
    consumer = await one.consume(delivery_order=order)
    (first,) = await one.receive()
    for _ in range(3):
        await scene.let_pass(8)
        assert await one.run(consumer.change_invisible_duration(first, TEN)) == first
    assert await one.receive(wait=timedelta(seconds=5)) == []
    assert await one.run(consumer.change_invisible_duration(first.receipt_handle, NOW)) == first.receipt_handle
    (again,) = await one.receive(wait=timedelta(seconds=1))
    assert again.delivery_attempt == 2
    with pytest.raises(ReceiptExpired):
        await one.ack(first)
    await one.ack(again)
    with pytest.raises(AlreadySettled):
        await one.run(consumer.change_invisible_duration(again, NOW))


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_too_late_is_refused_and_the_message_comes_again(scene: Scene, order: str) -> None:
    one = scene.member()
    await one.send("a1")
    await one.consume(delivery_order=order)
    (first,) = await one.receive()
    await scene.let_pass(11)
    with pytest.raises(ReceiptExpired):
        await one.ack(first)
    assert attempts(await one.receive()) == {"a1": 2}


@played_on(Scene, message_type="NORMAL")
async def test_a_hundred_acknowledgements_at_once_are_few_writes(scene: Scene) -> None:
    one = scene.member()
    producer = await one.run(one.lake.producer("orders", options=AT_ONCE))
    for n in range(100):
        one.process.call(lambda n=n: producer.send(Message(b"%d" % n)))
    await one.run(producer.close())
    await one.consume(delivery_order="CONCURRENT", options=SimpleOptions(receive_max=100))
    found = await one.receive(100)
    while len(found) < 100:
        found += await one.receive(100)
    before = scene.writes()
    await asyncio.gather(*(one.ack(message) for message in found))
    assert scene.writes() - before <= 5
    assert (await scene.cell()).tries == {}


# --- Filters, resets ------------------------------------------------------------------------------------------------------------------


@played_on(Scene)
async def test_filtered_messages_advance_the_floor_and_are_not_given_when_a_message_group_is_read_again(scene: Scene) -> None:
    one = scene.member()
    await one.send("a1", tag="paid")
    await one.send("a2", tag="lost")
    await one.send("a3", tag="paid")
    await one.send("b1", "b2", tag="lost")
    await one.consume(filter="paid")
    await scene.let_pass(2)
    assert bodies(await one.receive()) == ["a1", "a3"]
    await scene.let_pass(1)
    assert (await scene.cell()).settled.floor == 5
    await scene.let_pass(10)  # they expire, and are read again from the log
    found = await one.receive()
    assert attempts(found) == {"a1": 2, "a3": 2}
    await one.ack(*found)
    assert await one.receive(wait=timedelta(seconds=3)) == []


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_a_reset_fences_what_is_out(scene: Scene, order: str) -> None:
    one = scene.member()
    await one.send("a1", "a2", "b1")
    await one.consume(delivery_order=order)
    await scene.let_pass(2)  # all are there: the first receive is given all
    out = await one.receive()
    await one.ack(out[0])
    await one.run(one.operators.reset("audit", "orders", 0, None))
    await scene.let_pass(10)  # it was noticed, and all are there again
    again = await one.receive(wait=timedelta(seconds=20))
    assert attempts(again) == {"a1": 1, "a2": 1, "b1": 1}
    with pytest.raises(PenstockError) as refused:
        await one.ack(out[1])
    assert refused.value.kind == "receipt_outdated"
    await one.ack(*again)


# --- Work that is done together ---------------------------------------------------------------------------------------------------------


async def handles_by_group(member: Member) -> dict[str | None, str]:
    """The handles of a message of each of three groups."""
    handles: dict[str | None, str] = {}
    while len(handles) < 3:  # a receive gives what is there
        handles |= {message.message_group: message.receipt_handle for message in await member.receive()}
    return handles


@played_on(Scene, queues=2)
async def test_each_of_several_acknowledgements_has_an_end_of_its_own(scene: Scene) -> None:
    one = scene.member()
    await one.consume()
    await one.send("a1", "b1", "c1")
    handles = await handles_by_group(one)
    await one.ack(handles["b"])
    stranger = ReceiptHandle(group="another", topic="orders", queue=0, offset=0, generation=0, attempt=1).encode("ab" * 16)
    asked = [handles["a"], "no handle", stranger, handles["b"], handles["c"], handles["c"]]
    ends = await one.run(one.consumer.ack_each(*asked))
    kinds = [None, InvalidArgument, ForeignReceipt, AlreadySettled, None, AlreadySettled]
    assert [None if end is None else type(end) for end in ends] == kinds
    await scene.let_pass(20)
    assert await one.receive(wait=NOW) == [], "those between bad ones are settled"
    assert await one.run(one.consumer.ack_each()) == []


@played_on(Scene, queues=2)
async def test_an_acknowledgement_alone_ends_as_among_others(scene: Scene) -> None:
    one = scene.member()
    await one.consume()
    await one.send("a1", "b1", "c1")
    handles = await handles_by_group(one)
    first, stranger = handles["a"], ReceiptHandle(group="another", topic="orders", queue=0, offset=0, generation=0, attempt=1)
    assert one.consumer.known_handle(first) == ReceiptHandle.decode(first)
    ends = [await one.run(one.consumer.ack_each(text)) for text in (first, first, "no handle", stranger.encode("ab" * 16))]
    kinds = [None, AlreadySettled, InvalidArgument, ForeignReceipt]
    assert [None if end is None else type(end) for (end,) in ends] == kinds
    assert one.consumer.known_handle(first) is None, "it is not in flight"
    assert await one.run(one.consumer.ack_each(handles["b"])) == [None]
    await scene.let_pass(11)
    (end,) = await one.run(one.consumer.ack_each(handles["c"]))
    assert isinstance(end, ReceiptExpired)
    assert bodies(await one.receive(wait=NOW)) == ["c1"]


def test_messages_taken_one_by_one_are_not_fetched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(message_type="NORMAL")
    fetched: list[int] = []
    load = QueueProcessor._load

    def counted(self: QueueProcessor, *arguments: object) -> None:  # type: ignore[type-arg]
        fetched.append(1)
        load(self, *arguments)  # type: ignore[arg-type]

    async def script() -> None:
        one = scene.member()
        producer = await one.run(one.lake.producer("orders"))
        await asyncio.gather(*(producer.send(Message(b"%d" % number)) for number in range(200)))  # one entry of the log
        await one.consume(delivery_order="CONCURRENT", options=SimpleOptions(cache_messages=64))
        await one.receive(1)
        monkeypatch.setattr(QueueProcessor, "_load", counted)
        for _ in range(100):
            await one.ack(*await one.receive(1))
        assert len(fetched) <= 30, len(fetched)

    scene.play(script)


@pytest.mark.parametrize("order", ["CONCURRENT", "ORDERLY"])
@played_on(Scene)
async def test_a_queue_that_hands_out_and_settles_looks_only_now_and_then_at_all_that_may_concern_it(
    scene: Scene, order: str
) -> None:
    one = scene.member()
    await one.send(*(f"{group}{number}" for number in range(4) for group in "abcde"))
    await one.consume(delivery_order=order)
    await scene.let_pass(1)
    processor, rounds = one.consumer._owner.queues["orders", 0], 0
    look = processor._look

    async def counted(now_ms: int) -> None:
        nonlocal rounds
        rounds += 1
        await look(now_ms)

    processor._look = counted  # type: ignore[method-assign]
    start_s = scene.now_s
    for _ in range(20):
        (message,) = await one.receive(1)
        await one.ack(message)
    assert await scene.is_settled(20)
    assert rounds <= 1 + scene.now_s - start_s


@played_on(Scene)
async def test_what_is_due_again_when_its_write_ends_is_not_handed_out(scene: Scene) -> None:
    """As in a process that stood still meanwhile: another owner may have given it to others."""
    one = scene.member()
    await one.send("a1")
    await one.consume()
    await scene.let_pass(1)
    keeper = one.consumer._owner.queues["orders", 0].keeper
    carry_out, late = keeper.carry_out, list[asyncio.Task[None]]()

    async def carry_out_late(*requests: CellRequest) -> None:
        for request in requests:
            await keeper.change(request.change)
        await scene.let_pass(11)
        for request in requests:
            request.settle(keeper.cell)

    def first(*requests: CellRequest) -> None:
        keeper.carry_out = carry_out  # type: ignore[method-assign]
        late.append(asyncio.ensure_future(carry_out_late(*requests)))

    keeper.carry_out = first  # type: ignore[method-assign]
    messages = await one.receive(wait=timedelta(seconds=30))
    assert [message.delivery_attempt for message in messages] == [2]
    await one.ack(*messages)
    assert one.coordination.worker.in_flight == 0

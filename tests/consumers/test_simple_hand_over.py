"""SimpleConsumers of several processes: handles outlive owners, anybody acknowledges, and push consumers respect what is out."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from penstock.consumers.handlers.results import ConsumeResult, RetryAfter
from penstock.consumers.push_options import PushOptions
from penstock.coordinator.queues.cell import MessageState
from penstock.coordinator.queues.receipt_handle import AlreadySettled, ReceiptExpired
from penstock.log import MessageView
from tests.consumers.receiving import NOW, TEN, Member, Scene, attempts, bodies, push
from tests.playing import played_on
from tests.simulation.faults import Call, Fault

ORDERS = ["ORDERLY", "CONCURRENT"]
HOUR = timedelta(hours=1)
SOON = timedelta(seconds=20)


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_who_does_not_own_the_queue_acknowledges_and_the_owner_goes_on(scene: Scene, order: str) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1", "a2", "a3")
    await one.consume(delivery_order=order)
    (a1,) = await one.receive(1, invisible=HOUR)
    await other.consume()
    await scene.let_pass(5)
    epoch = (await scene.cell()).epoch
    began_s = scene.now_s
    waiting = asyncio.ensure_future(one.receive(2, invisible=HOUR, wait=SOON))
    await scene.let_pass(1)
    await other.ack(a1.receipt_handle)
    with pytest.raises(AlreadySettled):
        await one.ack(a1)
    assert bodies(await waiting) == ["a2", "a3"]
    assert scene.now_s - began_s < 7
    assert (await scene.cell()).epoch == epoch


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_handles_outlive_a_planned_hand_over(scene: Scene, order: str) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1", "a2", "b1", "a3")
    consumer = await one.consume(delivery_order=order)
    await scene.let_pass(2)
    a1, a2, b1 = await one.receive(3, invisible=timedelta(seconds=60))
    await other.consume()
    await one.run(consumer.close())
    rest = await other.receive(invisible=HOUR, wait=SOON)
    assert bodies(rest) == ([] if order == "ORDERLY" else ["a3"]), "what is out stays out, whoever owns the queue"
    await other.ack(a1, b1.receipt_handle)
    assert await other.run(other.consumer.change_invisible_duration(a2, timedelta(seconds=40))) == a2
    await other.ack(a2)
    if order == "ORDERLY":
        rest = await other.receive(invisible=HOUR)
        assert attempts(rest) == {"a3": 1}
    await other.ack(*rest)
    cell = await scene.cell()
    assert (cell.settled.floor, dict(cell.markers), dict(cell.tries)) == (4, {}, {})


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_handles_outlive_the_death_of_the_process_that_received(scene: Scene, order: str) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1", "b1")
    await one.consume(delivery_order=order)
    await scene.let_pass(2)
    a1, b1 = await one.receive(2, invisible=timedelta(seconds=30))
    received_s = scene.now_s
    one.process.crash()
    await other.consume()
    await other.ack(a1.receipt_handle)
    found = await other.receive(wait=timedelta(seconds=60))
    assert attempts(found) == {"b1": 2}
    assert scene.now_s - received_s == pytest.approx(30, abs=2.5), "its time is kept"
    with pytest.raises(ReceiptExpired):
        await other.ack(b1)
    await other.ack(*found)


@played_on(Scene)
async def test_what_a_new_owner_reads_again_is_filtered_as_before(scene: Scene) -> None:
    one, other = scene.member("one"), scene.member("other")
    for body, tag in (("a1", "paid"), ("a2", "lost"), ("a3", "paid")):
        await one.send(body, tag=tag)
    consumer = await one.consume(filter="paid")
    await scene.let_pass(2)
    assert bodies(await one.receive()) == ["a1", "a3"]
    await one.run(consumer.close())
    await other.consume(filter="paid")
    found = await other.receive(wait=SOON)
    assert attempts(found) == {"a1": 2, "a3": 2}
    await other.ack(*found)
    assert await other.receive(wait=SOON) == []


def test_what_waits_outside_of_the_cell_is_received_when_it_is_due() -> None:
    """It failed in a push consumer, which left; the others of its kind have room for two in the cell."""
    scene = Scene()

    async def later(message: MessageView) -> RetryAfter:
        return RetryAfter(timedelta(seconds=30 + int(message.body)))

    async def script() -> None:
        one, other = scene.member("one"), scene.member("other")
        numbers = [str(n) for n in range(20)]
        consumer, heard = await push(one, delivery_order="CONCURRENT", options=PushOptions(waiting=2), answer=later)
        await one.send(*numbers)
        await scene.let_pass(5)
        assert (len(heard), (await scene.cell()).count_spilled >= 17) == (20, True)
        await one.run(consumer.close())
        await other.consume()
        found: list[MessageView] = []
        while len(found) < len(numbers):
            found += (more := await other.receive(wait=SOON))
            await other.ack(*more)
        assert attempts(found) == dict.fromkeys(numbers, 2)
        assert scene.now_s > 45
        cell = await scene.cell()
        assert (cell.settled.floor, dict(cell.tries), cell.spills) == (20, {}, ())

    scene.play(script)


@played_on(Scene, queues=8)
async def test_queues_are_shared_and_nothing_is_given_twice(scene: Scene) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.consume()
    await other.consume()
    await scene.let_pass(10)
    expected = {f"{group}{n}" for group in "abcdefghijklmnop" for n in range(5)}
    await one.send(*sorted(expected))
    seen: dict[str, list[str]] = {"one": [], "other": []}

    async def work(member: Member) -> None:
        while found := await member.receive(5, wait=timedelta(seconds=3)):
            seen[member.process.name] += bodies(found)
            await member.ack(*found)

    await asyncio.gather(work(one), work(other))
    assert sorted(seen["one"] + seen["other"]) == sorted(expected)
    assert seen["one"]
    assert seen["other"]


class LostAnswer:
    """The next write of a queue's cell by a process is carried out, and not answered."""

    def __init__(self) -> None:
        self.process = ""

    def decide(self, call: Call) -> Fault | None:
        if call.process != self.process or call.verb != "put" or "queues/" not in call.key:
            return None
        self.process = ""
        return Fault.LOST_ANSWER


@pytest.mark.parametrize("acker", ["one", "other"])
def test_an_acknowledgement_whose_answer_was_lost_is_carried_out_once(acker: str) -> None:
    """By the owner, and by who is not."""
    plan = LostAnswer()
    scene = Scene(plan=plan)

    async def script() -> None:
        members = {name: scene.member(name) for name in ("one", "other")}
        one = members["one"]
        await one.send("a1", "b1")
        await one.consume()
        await scene.let_pass(2)
        a1, b1 = await one.receive(2, invisible=HOUR)
        await members["other"].consume()
        await scene.let_pass(5)
        plan.process = acker
        await members[acker].ack(a1)
        assert not plan.process, "the fault was met"
        with pytest.raises(AlreadySettled):
            await members[acker].ack(a1)
        await members[acker].ack(b1)

    scene.play(script)


@pytest.mark.parametrize("operation", ["ack", "change_invisible_duration"])
@played_on(Scene)
async def test_the_owner_reads_the_cell_before_it_refuses(scene: Scene, operation: str) -> None:
    """What came first was acknowledged elsewhere just now."""
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1", "a2")
    await one.consume()
    await scene.let_pass(2)
    a1, a2 = await one.receive(2, invisible=HOUR)
    await other.consume()
    await scene.let_pass(5)
    await other.ack(a1)
    (marker,) = one.consumer._owner.queues["orders", 0].keeper.cell.markers.values()
    assert marker.head == a1.offset, "the owner does not know it yet"
    if operation == "ack":
        await one.ack(a2)
        assert (await scene.cell()).markers == {}
    else:
        await one.run(one.consumer.change_invisible_duration(a2, timedelta(0)))
        assert bodies(await one.receive()) == ["a2"]


# --- Beside push consumers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_a_push_consumer_leaves_what_is_out_until_its_time_is_over(scene: Scene, order: str) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1", "a2", "b1")
    consumer = await one.consume(delivery_order=order)
    (a1,) = await one.receive(1, invisible=timedelta(seconds=30))
    due_s = scene.now_s + 30
    await one.run(consumer.close())
    _, heard = await push(other, delivery_order=order)
    await scene.let_pass(10)
    assert sorted(bodies([message for _, message in heard])) == (["b1"] if order == "ORDERLY" else ["a2", "b1"])
    await scene.let_pass(due_s - scene.now_s + 5)
    late = {message.body.decode(): (at_s, message.delivery_attempt) for at_s, message in heard}
    assert late["a1"][0] == pytest.approx(due_s, abs=2.5)
    assert late["a1"][1] == 2
    assert set(late) == {"a1", "a2", "b1"}
    assert a1.delivery_attempt == 1


@played_on(Scene)
async def test_a_push_consumer_goes_on_behind_what_is_acknowledged_elsewhere(scene: Scene) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1", "a2")
    consumer = await one.consume()
    (a1,) = await one.receive(1, invisible=HOUR)
    await one.run(consumer.close())
    _, heard = await push(other)
    third = scene.member("third")
    await third.consume()
    await scene.let_pass(10)
    assert heard == []
    began_s = scene.now_s
    await third.ack(a1)
    await scene.let_pass(5)
    assert [message.body for _, message in heard] == [b"a2"]
    assert heard[0][0] - began_s < 2.5
    assert heard[0][1].delivery_attempt == 1


@played_on(Scene)
async def test_a_simple_consumer_goes_on_where_a_push_consumer_died(scene: Scene) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1", "a2", "b1")
    hold = asyncio.Event()

    async def hang(message: MessageView) -> ConsumeResult:
        await hold.wait()
        return ConsumeResult.SUCCESS

    await push(one, answer=hang)
    await scene.let_pass(3)
    assert len((await scene.cell()).granted) == 3
    one.process.crash()
    await other.consume()
    found = await other.receive(wait=SOON)
    assert attempts(found) == {"a1": 2, "a2": 2, "b1": 2}
    assert {marker.tries.strikes for marker in (await scene.cell()).markers.values()} == {0}, "it was not alone"
    await other.ack(*found)
    assert (await scene.cell()).settled.floor == 3


@played_on(Scene)
async def test_parked_by_expiry_under_a_push_consumer(scene: Scene) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1", "b1")
    consumer = await one.consume(max_attempts=1, dead_letter_policy="park")
    await one.receive(1, invisible=TEN)
    await one.run(consumer.close())
    _, heard = await push(other)
    await scene.let_pass(20)
    assert [message.body for _, message in heard] == [b"b1"]
    (marker,) = (await scene.cell()).markers.values()
    assert (marker.tries.state, marker.tries.strikes) == (MessageState.PARKED, 1)
    await other.run(other.operators.skip("audit"))
    await scene.let_pass(20)
    assert bodies(await scene.letters()) == ["a1"]
    assert (await scene.cell()).markers == {}


@played_on(Scene)
async def test_zero_by_who_does_not_own_the_queue_ends_the_delivery_at_once(scene: Scene) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1", "a2")
    await one.consume()
    (a1,) = await one.receive(1, invisible=HOUR)
    await other.consume()
    await scene.let_pass(5)
    waiting = asyncio.ensure_future(one.receive(wait=SOON))
    await scene.let_pass(1)
    await other.run(other.consumer.change_invisible_duration(a1, NOW))
    assert attempts(await waiting) == {"a1": 2}


@played_on(Scene)
async def test_an_owner_that_pushes_goes_on_although_it_meets_the_acknowledgement_in_a_write_of_its_own(scene: Scene) -> None:
    one, other, third = scene.member("one"), scene.member("other"), scene.member("third")
    await one.send("a1", "a2")
    consumer = await one.consume(delivery_order="ORDERLY")
    (a1,) = await one.receive(1, invisible=HOUR)
    begun, acknowledged = asyncio.Event(), asyncio.Event()

    async def answer(message: MessageView) -> ConsumeResult:
        if message.body == b"b1":
            begun.set()
            await acknowledged.wait()
        return ConsumeResult.SUCCESS

    _, heard = await push(other, answer=answer)
    await one.run(consumer.close())
    await scene.let_pass(10)  # the one that pushes has the queue
    await third.consume()
    await third.send("b1")
    await begun.wait()
    await third.ack(a1.receipt_handle)
    acknowledged.set()
    await scene.let_pass(10)
    assert [message.body for _, message in heard] == [b"b1", b"a2"]

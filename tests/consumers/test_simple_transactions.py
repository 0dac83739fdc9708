"""SimpleConsumer: messages settled by a transaction, through the queue's owner and beside it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

import pytest

from penstock.coordinator.queues.cell import MessageState, QueueCell
from penstock.coordinator.queues.receipt_handle import ReceiptExpired, ReceiptHandle
from penstock.coordinator.transactions.members.acks import SettledElsewhere, Verdict, acks_of, settled_by, verdict
from penstock.log import MessageView
from penstock.log.errors import ClosedError
from tests.consumers.receiving import Member, Scene, bodies
from tests.playing import played_on
from tests.simulation.faults import Fault, ScriptedFaults, Where

TX = "a" * 32
both = pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])


async def settle(member: Member, messages: list[MessageView], transaction: str = TX) -> None:
    consumer = member.consumer
    handles = consumer.handles_of(messages, "ack")
    change = partial(settled_by, transaction=transaction, handles=handles, now_ms=member.process.runtime.clock.wall_ms())
    await member.run(consumer.settle_by(handles[0].topic, handles[0].queue, handles, change))


@both
@pytest.mark.parametrize("owned", [True, False])
@played_on(Scene)
async def test_all_of_them_are_settled_with_the_transactions_id_in_one_write(scene: Scene, order: str, owned: bool) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a0", "b1", "a2", "c3")
    await one.consume(delivery_order=order)
    await scene.let_pass(1)
    messages = await one.receive()
    await other.consume(delivery_order=order)
    writes, who = scene.writes(), one if owned else other
    await settle(who, messages[:3])
    assert scene.writes() == writes + 1
    cell = await scene.cell()
    assert cell.transactions == {TX}
    assert verdict(cell, TX, acks_of([ReceiptHandle.decode(one.receipt_handle) for one in messages[:3]])) is Verdict.COMMITTED
    await settle(who, messages[:3])  # as after an answer that was lost
    await one.ack(messages[3])
    assert await one.receive(wait=timedelta(seconds=30)) == []
    assert one.coordination.worker.in_flight == 0
    await one.run(one.consumer.close())
    assert (await scene.cell()).transactions == {TX}
    with pytest.raises(ClosedError):
        await settle(one, messages)


@both
@pytest.mark.parametrize("owned", [True, False])
@played_on(Scene)
async def test_of_messages_of_which_one_was_settled_none_is(scene: Scene, order: str, owned: bool) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a0", "b1", "c2")
    await one.consume(delivery_order=order)
    await scene.let_pass(1)
    messages = await one.receive()
    await other.consume(delivery_order=order)
    await one.ack(messages[1])
    with pytest.raises(SettledElsewhere):
        await settle(one if owned else other, messages)
    assert (await scene.cell()).transactions == frozenset()
    assert sorted(bodies(await one.receive(wait=timedelta(seconds=20)))) == ["a0", "c2"]
    with pytest.raises(ReceiptExpired):
        await settle(one if owned else other, [messages[0]])


@both
@played_on(Scene)
async def test_messages_behind_those_of_a_transaction_come_when_it_settled_them(scene: Scene, order: str) -> None:
    one = scene.member()
    await one.send("a0", "a1", "a2")
    await one.consume(delivery_order=order)
    await scene.let_pass(1)
    messages = await one.receive(2)
    waiting = asyncio.ensure_future(one.receive(wait=timedelta(seconds=5)))
    await settle(one, messages)
    assert bodies(await waiting) == ["a2"]
    assert not (await scene.cell()).markers or order == "ORDERLY"


@pytest.mark.parametrize("owned", [True, False])
def test_an_id_that_was_noted_leaves_the_cell_beside_other_changes(owned: bool) -> None:
    scene = Scene()

    async def script() -> None:
        one, other = scene.member("one"), scene.member("other")
        await one.send("a0", "b1")
        await one.consume()
        await scene.let_pass(1)
        messages = await one.receive()
        await other.consume()
        await settle(one, messages[:1])
        who = one if owned else other
        await who.run(asyncio.wait_for(both_at_once(who, messages[1]), 5))
        cell = await scene.cell()
        assert (cell.transactions, cell.settled.floor) == (frozenset(), 2)
        assert not any(marker.tries.state is MessageState.OUT for marker in cell.markers.values())

    async def both_at_once(who: Member, message: MessageView) -> None:
        forgets = partial(QueueCell.without_transactions, noted=(TX,))
        await asyncio.gather(who.consumer.settle_by("orders", 0, (), forgets), who.consumer.ack(message))

    scene.play(script)


FAULTS = [Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.DUPLICATE, Fault.UNAVAILABLE, Fault.UNDECIDED, Fault.OWN_CONFLICT]


@both
@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_becomes_of_the_write_and_its_answer_it_counts_once(order: str, owned: bool, fault: Fault) -> None:
    process = "one" if owned else "other"
    # The owner takes the queue, and hands the messages out, before.
    where = Where(process=process, verb="put", key=lambda key: "queues/" in key, occurrence=3 if owned else 1)
    faults = ScriptedFaults([(where, fault)])
    scene = Scene(plan=faults)

    async def script() -> None:
        one, other = scene.member("one"), scene.member("other")
        await one.send("a0", "b1", "a2")
        await one.consume(delivery_order=order)
        await scene.let_pass(1)
        messages = await one.receive(invisible=timedelta(seconds=20))
        await other.consume(delivery_order=order)
        await settle(one if owned else other, messages)
        assert [(call.key.partition("/")[0], done) for call, done in faults.done] == [("queues", fault)]
        cell = await scene.cell()
        assert cell.transactions == {TX}
        assert verdict(cell, TX, acks_of([ReceiptHandle.decode(one.receipt_handle) for one in messages])) is Verdict.COMMITTED
        assert await one.receive(wait=timedelta(seconds=25)) == []

    scene.play(script)

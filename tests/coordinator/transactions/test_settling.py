"""Messages settled and sent by one transaction: all of it, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from penstock.coordinator.queues.keeper import Change
from penstock.coordinator.queues.receipt_handle import ForeignReceipt, ReceiptExpired, ReceiptHandle
from penstock.coordinator.transactions.errors import AcksDecide, TransactionCommitted, TransactionRolledBack
from penstock.coordinator.transactions.finisher import END_AFTER_MS, LOOK_S
from penstock.coordinator.transactions.members.acks import SettledElsewhere
from penstock.coordinator.transactions.members.state import Decider, Decision
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.log import Message, MessageView
from penstock.log.errors import InvalidArgument, UnknownOutcome
from penstock.log.paths import TopicPaths
from tests.coordinator.transactions.settling import BODIES, TEN, begun, bodies, cell_of, consuming, ordered, received
from tests.coordinator.transactions.stage import GROUP, Member, Stage
from tests.playing import played_on


async def within(transaction: Transaction, messages: Sequence[MessageView], *, fails: bool = False) -> None:
    async with transaction:
        await transaction.send("paid", Message(b"x"))
        transaction.ack(*messages)
        if fails:
            raise ZeroDivisionError
        await transaction.commit()


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
@played_on(Stage)
async def test_what_is_settled_and_what_is_sent_come_together_and_leave_nothing_behind(stage: Stage, order: str) -> None:
    await ordered(stage)
    one = stage.member("one")

    async def work() -> None:
        consumer = await consuming(one, order=order)
        messages = await received(consumer)
        async with begun(one, consumer) as transaction:
            await transaction.send("paid", *(Message(message.body.upper()) for message in messages[:3]))
            transaction.ack(*messages[:2])
            transaction.ack(messages[2].receipt_handle)
            assert await stage.bodies() == []
            receipt = await transaction.commit()
        assert receipt.topics["paid"].messages == 3
        assert (await transaction.commit()) == receipt
        with pytest.raises(TransactionCommitted):
            transaction.ack(messages[3])
        assert bodies(await consumer.receive(4, TEN, timedelta(seconds=30))) == [b"c3"]
        assert one.coordination.worker.in_flight == 1

    await one.run(work())
    assert await stage.bodies() == [b"A0", b"B1", b"A2"]
    cell = await cell_of(stage)
    assert cell.transactions == frozenset()
    assert await one.run(one.transactions.rows(GROUP)) == []


@played_on(Stage)
async def test_what_fails_or_is_left_settles_nothing_and_sends_nothing(stage: Stage) -> None:
    await ordered(stage)
    one = stage.member("one")

    async def work() -> None:
        consumer = await consuming(one)
        messages = await received(consumer)
        transaction = begun(one, consumer)
        with pytest.raises(ZeroDivisionError):
            await within(transaction, messages, fails=True)
        with pytest.raises(TransactionRolledBack):
            await transaction.commit()
        async with begun(one, consumer) as transaction:
            await transaction.send("paid", Message(b"x"))
            transaction.ack(*messages)
        with pytest.raises(TransactionRolledBack):
            await transaction.commit()
        assert sorted(bodies(await received(consumer))) == sorted(BODIES)

    await one.run(work())
    assert await stage.bodies() == []
    assert await stage.store.memory.list(TopicPaths.of("paid").jobs) == []


@played_on(Stage)
async def test_a_message_that_another_settled_or_that_came_back_refuses_all_of_it(stage: Stage) -> None:
    await ordered(stage)
    one = stage.member("one")

    async def work() -> None:
        consumer = await consuming(one)
        messages = await received(consumer)
        await consumer.ack(messages[1])
        transaction = begun(one, consumer)
        with pytest.raises(SettledElsewhere):
            await within(transaction, messages)
        with pytest.raises(TransactionRolledBack):
            await transaction.commit()
        again = await received(consumer, 3)
        assert sorted(bodies(again)) == [b"a0", b"a2", b"c3"]
        await asyncio.sleep(11)
        late = begun(one, consumer)
        await late.send("paid", Message(b"x"))
        late.ack(*again)
        with pytest.raises(ReceiptExpired):
            await late.commit()
        await late.rollback()
        with pytest.raises(TransactionRolledBack):
            await late.commit()

    await one.run(work())
    assert await stage.bodies() == []
    assert await stage.store.memory.list(TopicPaths.of("paid").jobs) == []


@played_on(Stage)
async def test_acknowledgements_without_messages_to_send_are_acknowledgements(stage: Stage) -> None:
    await ordered(stage)
    one = stage.member("one")

    async def work() -> None:
        consumer = await consuming(one)
        messages = await received(consumer)
        async with begun(one, consumer) as transaction:
            transaction.ack(*messages)
            receipt = await transaction.commit()
        assert (receipt.transaction_id, receipt.topics) == (None, {})
        assert await consumer.receive(4, TEN, timedelta(seconds=30)) == []

    await one.run(work())
    assert (await cell_of(stage)).transactions == frozenset()


@played_on(Stage)
async def test_what_cannot_be_settled_by_it_is_refused_at_once(stage: Stage) -> None:
    await ordered(stage)
    one = stage.member("one")

    async def work() -> None:
        consumer, foreign = await consuming(one), await consuming(one, group="audit")
        messages, others = await received(consumer), await received(foreign)
        transaction = begun(one, consumer)
        with pytest.raises(ForeignReceipt):
            transaction.ack(others[0])
        with pytest.raises(InvalidArgument, match="nothing to acknowledge"):
            transaction.ack()
        with pytest.raises(InvalidArgument, match="receipt handle"):
            transaction.ack("nonsense")
        with pytest.raises(InvalidArgument, match="begun without a consumer"):
            one.begin().ack(messages[0])

    await one.run(work())


async def decided_by_its_cell(stage: Stage, one: Member, *, settles: bool) -> str:
    """A transaction of a process that dies in the middle of its commit: before the write that settles the messages, or behind it."""

    async def work() -> Transaction:
        consumer = await consuming(one)
        messages = await received(consumer)
        transaction = begun(one, consumer)
        await transaction.send("paid", *(Message(body) for body in BODIES))
        transaction.ack(*messages)
        settlement, settle_by = transaction._settlement, consumer.settle_by
        assert settlement is not None

        async def dying(topic: str, queue: int, handles: Sequence[ReceiptHandle], change: Change) -> None:
            if settles:
                await settle_by(topic, queue, handles, change)
            raise UnknownOutcome("the process dies here")

        consumer.settle_by = dying  # type: ignore[method-assign]
        with pytest.raises(UnknownOutcome):
            await transaction.commit()
        return transaction

    transaction = await one.run(work())
    one.process.crash()
    assert transaction.id is not None
    return transaction.id


@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize("owned", [True, False])
@played_on(Stage)
async def test_of_a_dead_process_the_queues_cell_tells_what_became_of_its_transaction(
    stage: Stage, settles: bool, owned: bool
) -> None:
    """With another consumer of the group, which ends the deliveries of the dead one; or without."""
    await ordered(stage)
    one, other = stage.member("one"), stage.member("other")
    transaction = await decided_by_its_cell(stage, one, settles=settles)
    for decision in (Decision.COMMITTED, Decision.ROLLED_BACK):
        with pytest.raises(AcksDecide):
            await other.run(other.transactions.decide(transaction, decision, Decider.CHECKER))
    consumer = await other.run(consuming(other)) if owned else None
    stop = other.process.call(asyncio.Event)
    playing = other.process.spawn(other.finisher().play(GROUP, stop))
    if settles:
        await stage.let_pass(2 * LOOK_S + 10)
        assert await stage.bodies() == BODIES
        assert (await cell_of(stage)).transactions == frozenset()
    else:
        await stage.let_pass(3 * LOOK_S + (60 if owned else END_AFTER_MS / 1000))
        assert await stage.bodies() == []
    _, row = await other.run(other.transactions.find(transaction))
    assert (row.decision, row.by, row.is_finished) == (
        Decision.COMMITTED if settles else Decision.ROLLED_BACK,
        Decider.ACKS,
        True,
    )
    if consumer is None:
        consumer = await other.run(consuming(other))
    if settles:
        assert await other.run(consumer.receive(4, TEN, timedelta(seconds=30))) == []
    else:
        assert sorted(bodies(await other.run(received(consumer)))) == sorted(BODIES)
    other.process.call(stop.set)
    await playing
    assert other.errors == []


@pytest.mark.parametrize("settles", [True, False])
@played_on(Stage)
async def test_an_operators_rollback_ends_the_deliveries_and_comes_too_late_when_they_are_settled(
    stage: Stage, settles: bool
) -> None:
    await ordered(stage)
    one, other = stage.member("one"), stage.member("other")
    transaction = await decided_by_its_cell(stage, one, settles=settles)
    for refused in (other.transactions.decide, other.transactions.check):
        with pytest.raises(AcksDecide):
            await other.run(refused(transaction, Decision.COMMITTED, Decider.OPERATOR))
    if settles:
        with pytest.raises(TransactionCommitted):
            await other.run(other.transactions.check(transaction, Decision.ROLLED_BACK, Decider.OPERATOR))
        assert (await other.run(other.transactions.find(transaction)))[1].is_open
        with pytest.raises(TransactionCommitted):
            await other.run(other.transactions.decide(transaction, Decision.ROLLED_BACK, Decider.OPERATOR))
    else:
        assert (await other.run(other.transactions.check(transaction, Decision.ROLLED_BACK, Decider.OPERATOR))).is_open
        await other.run(other.transactions.decide(transaction, Decision.ROLLED_BACK, Decider.OPERATOR))
    await other.run(other.transactions.finish(transaction))
    assert await stage.bodies() == (BODIES if settles else [])


@pytest.mark.parametrize("settled", [False, True])
@played_on(Stage)
async def test_a_finisher_amid_a_commit_decides_nothing_else(stage: Stage, settled: bool) -> None:
    """Before the messages are settled there is nothing to be decided yet; behind that it notes the commit, and the cell forgets it. Then the
    write that settles them comes once more, as after an answer that was lost.
    """
    await ordered(stage)
    one, other = stage.member("one"), stage.member("other")

    async def work() -> None:
        consumer = await consuming(one)
        messages = await received(consumer)
        transaction = begun(one, consumer)
        await transaction.send("paid", Message(b"x"))
        transaction.ack(*messages)
        settle_by = consumer.settle_by

        async def slow(topic: str, queue: int, handles: Sequence[ReceiptHandle], change: Change) -> None:
            if settled and handles:
                await settle_by(topic, queue, handles, change)
            await other.run(other.finisher().once(GROUP))
            await settle_by(topic, queue, handles, change)

        consumer.settle_by = slow  # type: ignore[method-assign]
        receipt = await transaction.commit()
        assert receipt.topics["paid"].messages == 1
        assert await consumer.receive(4, TEN, timedelta(seconds=30)) == []

    await one.run(work())
    assert await stage.bodies() == [b"x"]
    assert (await cell_of(stage)).transactions == frozenset()
    assert all(row.is_finished for row in await other.run(other.transactions.rows(GROUP)))
    assert other.errors == []

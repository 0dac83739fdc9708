"""Messages settled and sent by one transaction: from topic to topic exactly once, whatever happens at any of its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from penstock.consumers.membership import Subscription
from penstock.consumers.simple import SimpleConsumer
from penstock.coordinator.cell import QueueCell
from penstock.coordinator.cell_codec import decode_cell
from penstock.coordinator.handles import ForeignReceipt, ReceiptExpired
from penstock.coordinator.keys import queue_key
from penstock.coordinator.transactions.acks import SettledElsewhere
from penstock.coordinator.transactions.errors import AcksDecide, TransactionCommitted, TransactionRolledBack
from penstock.coordinator.transactions.finisher import END_AFTER_MS, LOOK_S
from penstock.coordinator.transactions.state import By, Decision
from penstock.coordinator.transactions.transaction import Transaction
from penstock.log import Message, MessageType, MessageView, ProducerOptions, TopicSettings
from penstock.log.errors import InvalidArgument, PenstockError, UnknownOutcome
from penstock.log.paths import TopicPaths
from tests.coordinator.transactions.stage import GROUP, Member, Stage
from tests.simulation.faults import Fault, FaultPlan, ScriptedFaults, Where

TEN = timedelta(seconds=10)
BODIES = [b"a0", b"b1", b"a2", b"c3"]


async def consuming(member: Member, *, group: str = "pricing", order: str = "ORDERLY") -> SimpleConsumer:
    consumer = SimpleConsumer(
        member.lake, member.coordination, group=group, subscriptions={"orders": Subscription()}, stated={"delivery_order": order}
    )
    await consumer.start()
    return consumer


def begun(member: Member, consumer: SimpleConsumer) -> Transaction:
    return Transaction(member.transactions, GROUP, first_check=None, settler=consumer)


async def ordered(stage: Stage, bodies: Sequence[bytes] = BODIES) -> None:
    """Orders to be processed."""
    shop = stage.member("shop")

    async def send() -> None:
        await shop.lake.create_topic("orders", TopicSettings(queues=1, message_type=MessageType.FIFO))
        producer = await shop.lake.producer("orders", options=ProducerOptions(linger=timedelta(0)))
        for body in bodies:
            await producer.send(Message(body, message_group=body[:1].decode()))
        await producer.close()

    await shop.run(send())


async def cell_of(stage: Stage, group: str = "pricing") -> QueueCell:
    key = queue_key(group, "orders", 0)
    stored = await stage.table.memory.get(key)
    assert stored is not None
    return decode_cell(stored.data[16:], where=key)


async def received(consumer: SimpleConsumer, count: int = len(BODIES), *, invisible: timedelta = TEN) -> list[MessageView]:
    found: list[MessageView] = []
    while len(found) < count:
        found += await consumer.receive(count - len(found), invisible, timedelta(seconds=60))
    return found


def bodies(messages: Sequence[MessageView]) -> list[bytes]:
    return [message.body for message in messages]


async def within(transaction: Transaction, messages: Sequence[MessageView], *, fails: bool = False) -> None:
    async with transaction:
        await transaction.send("paid", Message(b"x"))
        transaction.ack(*messages)
        if fails:
            raise ZeroDivisionError
        await transaction.commit()


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
def test_what_is_settled_and_what_is_sent_come_together_and_leave_nothing_behind(order: str) -> None:
    stage = Stage()

    async def script() -> None:
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

    stage.play(script)


def test_what_fails_or_is_left_settles_nothing_and_sends_nothing() -> None:
    stage = Stage()

    async def script() -> None:
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

    stage.play(script)


def test_a_message_that_another_settled_or_that_came_back_refuses_all_of_it() -> None:
    stage = Stage()

    async def script() -> None:
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

    stage.play(script)


def test_acknowledgements_without_messages_to_send_are_acknowledgements() -> None:
    stage = Stage()

    async def script() -> None:
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

    stage.play(script)


def test_what_cannot_be_settled_by_it_is_refused_at_once() -> None:
    stage = Stage()

    async def script() -> None:
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

    stage.play(script)


async def decided_by_its_cell(stage: Stage, one: Member, *, settles: bool) -> str:
    """A transaction of a process that dies in the middle of its commit: before the write that settles the messages, or behind it."""

    async def work() -> Transaction:
        consumer = await consuming(one)
        messages = await received(consumer)
        transaction = begun(one, consumer)
        await transaction.send("paid", *(Message(body) for body in BODIES))
        transaction.ack(*messages)
        settlement, settle_for = transaction._settlement, consumer.settle_for
        assert settlement is not None

        async def dying(id: str, handles: object) -> None:
            if settles:
                await settle_for(id, handles)  # type: ignore[arg-type]
            raise UnknownOutcome("the process dies here")

        consumer.settle_for = dying  # type: ignore[method-assign]
        with pytest.raises(UnknownOutcome):
            await transaction.commit()
        return transaction

    transaction = await one.run(work())
    one.process.crash()
    assert transaction.id is not None
    return transaction.id


@pytest.mark.parametrize("settles", [True, False])
@pytest.mark.parametrize("owned", [True, False])
def test_of_a_dead_process_the_queues_cell_tells_what_became_of_its_transaction(settles: bool, owned: bool) -> None:
    """With another consumer of the group, which ends the deliveries of the dead one; or without."""
    stage = Stage()

    async def script() -> None:
        await ordered(stage)
        one, other = stage.member("one"), stage.member("other")
        transaction = await decided_by_its_cell(stage, one, settles=settles)
        for decision in (Decision.COMMITTED, Decision.ROLLED_BACK):
            with pytest.raises(AcksDecide):
                await other.run(other.transactions.decide(transaction, decision, By.CHECKER))
        if owned:
            consumer = await other.run(consuming(other))
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
            By.ACKS,
            True,
        )
        if not owned:
            consumer = await other.run(consuming(other))
        if settles:
            assert await other.run(consumer.receive(4, TEN, timedelta(seconds=30))) == []
        else:
            assert sorted(bodies(await other.run(received(consumer)))) == sorted(BODIES)
        other.process.call(stop.set)
        await playing
        assert other.errors == []

    stage.play(script)


@pytest.mark.parametrize("settles", [True, False])
def test_an_operators_rollback_ends_the_deliveries_and_comes_too_late_when_they_are_settled(settles: bool) -> None:
    stage = Stage()

    async def script() -> None:
        await ordered(stage)
        one, other = stage.member("one"), stage.member("other")
        transaction = await decided_by_its_cell(stage, one, settles=settles)
        with pytest.raises(AcksDecide):
            await other.run(other.transactions.decide(transaction, Decision.COMMITTED, By.OPERATOR))
        if settles:
            with pytest.raises(TransactionCommitted):
                await other.run(other.transactions.decide(transaction, Decision.ROLLED_BACK, By.OPERATOR))
        else:
            await other.run(other.transactions.decide(transaction, Decision.ROLLED_BACK, By.OPERATOR))
        await other.run(other.transactions.finish(transaction))
        assert await stage.bodies() == (BODIES if settles else [])

    stage.play(script)


# --- Whatever happens at any request ------------------------------------------------------------------------------------------------


async def process_all(member: Member, stop: asyncio.Event) -> None:
    """What an application does, until it is told to end: message by message, and whatever fails is left to come again."""
    consumer = await consuming(member)
    while not stop.is_set():
        for message in await consumer.receive(2, TEN, timedelta(seconds=5)):
            try:
                async with begun(member, consumer) as transaction:
                    await transaction.send("paid", Message(message.body))
                    transaction.ack(message)
                    await transaction.commit()
            except PenstockError:
                continue
    await consumer.close()


def exactly_once(table: FaultPlan | None, store: FaultPlan | None = None) -> Stage:
    """Two processes, the first of which meets faults; in the end each order is paid once."""
    stage = Stage(plan=table)

    async def script() -> None:
        await ordered(stage)
        stage.store.plan = store
        one = stage.member("one")
        stop_one = one.process.call(asyncio.Event)
        first = one.process.spawn(process_all(one, stop_one))
        await stage.let_pass(8)
        two = stage.member("two")
        stop_two = two.process.call(asyncio.Event)
        others = [two.process.spawn(process_all(two, stop_two)), two.process.spawn(two.finisher().play(GROUP, stop_two))]
        for _ in range(40):
            await stage.let_pass(10)
            paid = sorted(await stage.bodies())
            cell = await cell_of(stage)
            if len(paid) >= len(BODIES) and not cell.transactions and not cell.tries:
                break
        await stage.let_pass(2 * LOOK_S + 5)
        assert sorted(await stage.bodies()) == sorted(BODIES)
        cell = await cell_of(stage)
        assert (cell.transactions, cell.settled.floor) == (frozenset(), len(BODIES))
        assert not any(marker.head < marker.limit for marker in cell.markers.values())
        rows = await two.run(two.transactions.rows(GROUP))
        # One of a process that died before its commit settles nothing yet, and is rolled back when it is old.
        assert all(row.is_finished or (row.is_open and row.acks is None) for row in rows), rows
        two.process.call(stop_two.set)
        if not one.process.crashed:
            one.process.call(stop_one.set)
            await first
        await asyncio.gather(*others)
        assert two.errors == []

    stage.play(script, topics=("paid",))
    return stage


def test_without_a_fault_it_is_once() -> None:
    exactly_once(None)


CASES = [
    *(
        (part, number, fault)
        for part in ("transactions/", "queues/")
        for number in range(1, 6)
        for fault in (Fault.CRASH_AFTER, Fault.LOST_ANSWER)
    ),
    *(("queues/", number, Fault.LATE_APPLY) for number in (3, 4)),
]
"""Before a request is behind the one before it."""


@pytest.mark.parametrize(("part", "occurrence", "fault"), CASES)
def test_every_write_of_a_cell_may_be_the_last_or_unanswered(part: str, occurrence: int, fault: Fault) -> None:
    faults = ScriptedFaults([(Where(process="one", verb="put", key=lambda key: part in key, occurrence=occurrence), fault)])
    exactly_once(faults)
    assert faults.done


@pytest.mark.parametrize("occurrence", range(1, 5))
def test_every_upload_and_link_may_be_the_last(occurrence: int) -> None:
    where = Where(process="one", verb="put", key=lambda key: "/paid/" in key, occurrence=occurrence)
    faults = ScriptedFaults([(where, Fault.CRASH_AFTER)])
    exactly_once(None, faults)
    assert faults.done

"""Check-backs and consume, process, produce, as programs have them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

import penstock
import penstock.aio
from penstock.consumers import SimpleConsumer
from penstock.log import Runtime
from penstock.log.stores import MemoryStore
from penstock.testing import HandClock
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

Message = penstock.Message
LATER = timedelta(minutes=10)
"""Its sender has closed its lake by then, which would be asked itself."""


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(clock: HandClock) -> MemoryStore:
    return MemoryStore(clock=clock)


def connect(store: MemoryStore, clock: HandClock) -> penstock.Lake:
    return penstock.connect(store=store, runtime=Runtime(clock=clock), maintenance=False)


@pytest.fixture
def lake(store: MemoryStore, clock: HandClock) -> Iterator[penstock.Lake]:
    with connect(store, clock) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2)
        lake.create_topic("paid", message_type="TRANSACTION", queues=2)
        yield lake


def bodies(lake: penstock.Lake, topic: str = "paid") -> list[bytes]:
    return sorted(message.body for message in lake.reader(topic).messages())


def order(lake: penstock.Lake, *users: str) -> None:
    with lake.producer("orders") as producer:
        for number, user in enumerate(users):
            producer.send(Message(b"%s%d" % (user.encode(), number), message_group=user))


# --- Check-backs --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", list(penstock.TransactionResolution))
def test_another_process_answers_for_a_sender_that_left(
    lake: penstock.Lake, store: MemoryStore, clock: HandClock, answer: penstock.TransactionResolution
) -> None:
    asked: list[penstock.CheckedTransaction] = []
    heard = threading.Event()

    def check(transaction: penstock.CheckedTransaction) -> penstock.TransactionResolution:
        asked.append(transaction)
        heard.set()
        return answer

    with connect(store, clock) as sender:
        transaction = sender.transaction(
            producer_group="shop", checker=lambda _: penstock.TransactionResolution.UNKNOWN, first_check=timedelta(hours=1)
        )
        transaction.send("paid", Message(b"1", tag="card"))
        other = sender.transaction(producer_group="shop", first_check=LATER)
        other.send("paid", Message(b"2"))
    clock.advance(LATER)
    with lake.check_transactions("shop", check):
        assert heard.wait(TIMEOUT_S)
        if answer is penstock.TransactionResolution.COMMIT:
            wait_until(lambda: bodies(lake) == [b"2"], "it is visible")
    (given,) = asked
    assert (given.id, given.producer_group, given.checks) == (other.id, "shop", 1)
    assert [(one.body, one.topic, one.offset) for one in given.messages] == [(b"2", "paid", -1)]
    assert bodies(lake) == ([b"2"] if answer is penstock.TransactionResolution.COMMIT else [])


@pytest.mark.usefixtures("lake")
def test_a_lake_closes_while_its_checker_hangs(store: MemoryStore, clock: HandClock) -> None:
    heard, end = threading.Event(), threading.Event()

    def check(_: object) -> penstock.TransactionResolution:
        heard.set()
        end.wait(TIMEOUT_S)
        return penstock.TransactionResolution.UNKNOWN

    with connect(store, clock) as sender:
        transaction = sender.transaction(
            producer_group="shop", checker=lambda _: penstock.TransactionResolution.UNKNOWN, first_check=LATER
        )
        transaction.send("paid", Message(b"1"))
    clock.advance(LATER)
    answering = connect(store, clock)
    try:
        answering.check_transactions("shop", check)
        assert heard.wait(TIMEOUT_S)
        closing = threading.Thread(target=answering.close)
        closing.start()
        closing.join(TIMEOUT_S / 2)
        assert not closing.is_alive(), "it waits for the checker"
    finally:
        end.set()
        answering.close()


# --- Consume, process, produce ------------------------------------------------------------------------------------------------------


def test_from_topic_to_topic_each_message_counts_once(lake: penstock.Lake) -> None:
    order(lake, "ann", "bob", "ann", "cid")
    with lake.simple_consumer("orders", group="cashier") as consumer:
        left, fails = 4, True
        while left:
            for message in consumer.receive():
                with suppress(ZeroDivisionError), lake.transaction(consumer=consumer) as transaction:
                    assert transaction.producer_group == "cashier"
                    transaction.send("paid", Message(message.body.upper()))
                    transaction.ack(message)
                    if fails:
                        fails = False
                        consumer.change_invisible_duration(message, timedelta(0))
                        raise ZeroDivisionError
                    assert transaction.commit().topics["paid"].messages == 1
                    left -= 1
        assert consumer.receive(await_duration=timedelta(0)) == []
    assert bodies(lake) == [b"ANN0", b"ANN2", b"BOB1", b"CID3"]


def test_it_works_on_an_event_loop_too(store: MemoryStore, lake: penstock.Lake) -> None:
    order(lake, "ann")

    async def run() -> None:
        async with (
            penstock.aio.connect(store=store, maintenance=False) as opened,
            opened.simple_consumer("orders", group="cashier") as consumer,
        ):
            (message,) = await consumer.receive()
            async with opened.transaction(consumer=consumer, producer_group="till") as transaction:
                await transaction.send("paid", Message(b"x"))
                transaction.ack(message.receipt_handle)
                await transaction.commit()
            assert await consumer.receive(await_duration=timedelta(0)) == []

    asyncio.run(run())
    assert bodies(lake) == [b"x"]


def test_what_makes_no_sense_is_refused_and_says_why(lake: penstock.Lake, store: MemoryStore) -> None:
    order(lake, "ann", "bob")
    with (
        penstock.connect(store=store, maintenance=False) as other,
        other.simple_consumer("orders", group="audit") as foreign,
        lake.simple_consumer("orders", group="cashier") as consumer,
    ):
        with pytest.raises(penstock.InvalidArgument, match=r"of a SimpleConsumer of the same lake.*observed: one of another lake"):
            lake.transaction(consumer=foreign)
        with pytest.raises(penstock.InvalidArgument, match=r"of a SimpleConsumer of the same lake.*observed: str"):
            lake.transaction(consumer="cashier")  # type: ignore[arg-type]
        with pytest.raises(penstock.InvalidArgument, match="has no checker: whether they are settled decides it"):
            lake.transaction(consumer=consumer, checker=lambda _: penstock.TransactionResolution.UNKNOWN)
        with pytest.raises(penstock.InvalidArgument, match="producer_group=… or consumer=…"):
            lake.transaction()
        (message, *_) = foreign.receive()
        with lake.transaction(consumer=consumer) as transaction:
            with pytest.raises(penstock.ForeignReceipt):
                transaction.ack(message)
            with pytest.raises(penstock.InvalidArgument, match="no receipt handle"):
                transaction.ack(next(iter(lake.reader("orders").messages())))
            with pytest.raises(penstock.InvalidArgument, match="nothing to acknowledge"):
                transaction.ack()
            with pytest.raises(penstock.InvalidArgument, match=r"ack\(\*messages\)"):
                transaction.ack([message])  # type: ignore[arg-type]
        with (
            lake.check_transactions("shop", lambda _: penstock.TransactionResolution.UNKNOWN),
            lake.transaction(producer_group="shop") as transaction,
            pytest.raises(penstock.InvalidArgument, match=r"begun without a consumer.*lake.transaction\(consumer=…\)"),
        ):
            transaction.ack(message)


def test_a_message_that_was_settled_meanwhile_refuses_the_commit(lake: penstock.Lake) -> None:
    order(lake, "ann")
    with lake.simple_consumer("orders", group="cashier") as consumer:
        (message,) = consumer.receive()
        transaction = lake.transaction(consumer=consumer)
        transaction.send("paid", Message(b"x"))
        transaction.ack(message)
        consumer.ack(message)
        with pytest.raises(penstock.SettledElsewhere, match="a message that the transaction was to settle was settled before"):
            transaction.commit()
        with pytest.raises(penstock.TransactionEnded, match="the transaction's commit has begun"):
            transaction.send("paid", Message(b"y"))
        with pytest.raises(penstock.TransactionEnded, match="the transaction's commit has begun"):
            transaction.ack(message)
        transaction.rollback()
        with pytest.raises(penstock.TransactionRolledBack):
            transaction.commit()
    assert bodies(lake) == []


def test_a_consumer_that_is_closed_settles_nothing(lake: penstock.Lake) -> None:
    order(lake, "ann")
    with lake.simple_consumer("orders", group="cashier") as consumer:
        (message,) = consumer.receive()
        transaction = lake.transaction(consumer=consumer)
        transaction.send("paid", Message(b"x"))
        transaction.ack(message)
    with pytest.raises(penstock.ClosedError):
        lake.transaction(consumer=consumer).ack(message)
    assert isinstance(consumer.on_loop(), SimpleConsumer)
    assert transaction.commit().topics["paid"].messages == 1  # by whoever owns the queue, or nobody
    assert bodies(lake) == [b"x"]

"""What follows a failure of a producer, by the public API: nothing overtakes, and somebody is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta

import pytest

import penstock
from penstock.log import ProducerOptions
from penstock.log.lake import LogLake as AsyncLake
from penstock.log.stores import Fault, FaultKind, FaultStore, MemoryStore
from penstock.log.topic.settings import TopicSettings
from tests.lakes import TIMEOUT_S, Gate, bodies, is_entry
from tests.log.producers import connect
from tests.waiting import wait_until

Message = penstock.Message
LONG = timedelta(hours=1)


def failing(kind: FaultKind) -> tuple[FaultStore, list[int], penstock.Lake]:
    """A lake that refuses to append while the list has something in it."""
    broken: list[int] = []

    def plan(_number: int, verb: str, key: str) -> Fault | None:
        return Fault(kind) if broken and verb == "put" and "/log/0" in key else None

    store = FaultStore(MemoryStore(), plan)
    lake = penstock.connect(store=store, refusal_timeout=0)
    lake.create_topic("orders", message_type="FIFO", queues=4)
    return store, broken, lake


@pytest.mark.parametrize(
    ("kind", "error"), [(FaultKind.PERMISSION, penstock.PermissionDenied), (FaultKind.STORAGE_FULL, penstock.PenstockError)]
)
def test_nothing_overtakes_a_failed_send(kind: FaultKind, error: type[penstock.PenstockError]) -> None:
    _, broken, lake = failing(kind)
    with lake:
        producer = lake.producer("orders", linger=LONG)
        producer.send(Message(b"stored", message_group="g"))
        producer.flush()
        broken.append(1)
        failed = producer.send(Message(b"failed", message_group="g"))
        batch = producer.send_batch([Message(b"behind", message_group="g")])
        with pytest.raises(error):
            failed.result(timeout=TIMEOUT_S)
        with pytest.raises(penstock.ProducerFailedError, match=r"earlier send of this producer failed.*reopen") as raised:
            batch.result(timeout=TIMEOUT_S)
        assert isinstance(raised.value.__cause__, error)
        broken.clear()
        with pytest.raises(penstock.ProducerFailedError):
            producer.send(Message(b"later", message_group="g"))
        with pytest.raises(error):
            producer.flush()
        assert producer.statistics().failed
        producer.close()
        with lake.producer("orders") as reopened:
            reopened.send(Message(b"again", message_group="g"))
        assert bodies(lake) == [b"stored", b"again"]


def test_leaving_the_block_says_what_was_not_written_even_when_nobody_asked() -> None:
    _, broken, lake = failing(FaultKind.PERMISSION)
    with lake:
        broken.append(1)
        producer = lake.producer("orders", linger=timedelta(0))

        def block() -> None:
            with producer:
                receipt = producer.send(Message(b"x", message_group="g"))
                wait_until(receipt.done, "the send fails before the block ends")

        with pytest.raises(penstock.PermissionDenied):
            block()


def test_an_error_in_the_block_is_not_replaced_by_that_of_closing() -> None:
    _, broken, lake = failing(FaultKind.PERMISSION)
    with lake:
        broken.append(1)

        def block() -> None:
            with lake.producer("orders", linger=LONG) as producer:
                producer.send(Message(b"x", message_group="g"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            block()


def test_one_failed_producer_does_not_keep_the_lake_from_closing_the_others() -> None:
    store, broken, lake = failing(FaultKind.PERMISSION)
    lake.create_topic("other")
    bad, good = lake.producer("orders", linger=LONG), lake.producer("other", linger=LONG)
    bad.send(Message(b"x", message_group="g"))
    receipt = good.send(Message(b"y"))
    broken.append(1)

    def plan(_number: int, verb: str, key: str) -> Fault | None:
        return Fault(FaultKind.PERMISSION) if verb == "put" and key.startswith("topics/orders/log/0") else None

    store._plan = plan
    with pytest.raises(penstock.PermissionDenied):
        lake.close()
    assert receipt.result(timeout=0).offset == 0
    lake.close()


TELLERS: dict[str, Callable[[penstock.Producer, penstock.Receipt], object]] = {
    "receipt": lambda _, receipt: receipt.result(timeout=TIMEOUT_S),
    "its error": lambda _, receipt: receipt.exception(timeout=TIMEOUT_S),
    "send": lambda producer, receipt: wait_until(receipt.done, "it failed") and producer.send(Message(b"y", message_group="g")),
    "flush": lambda producer, _: producer.flush(),
}


def test_closing_repeats_nothing_that_was_told() -> None:
    _, broken, lake = failing(FaultKind.PERMISSION)
    with lake:
        for tell in TELLERS.values():
            producer = lake.producer("orders", linger=timedelta(0))
            broken.append(1)
            with contextlib.suppress(penstock.PenstockError):
                tell(producer, producer.send(Message(b"x", message_group="g")))
            broken.clear()
            producer.close()


def test_a_store_that_stays_away_ends_a_send_as_not_written_or_unknown() -> None:
    _, broken, lake = failing(FaultKind.FAIL_BEFORE)
    with lake:
        producer = lake.producer("orders", linger=timedelta(0), delivery_timeout=timedelta(milliseconds=200))
        broken.append(1)
        receipt = producer.send(Message(b"x", message_group="g"))
        with pytest.raises(penstock.UnknownOutcome, match="may still get into the log"):
            receipt.result(timeout=TIMEOUT_S)
        with pytest.raises(penstock.ProducerFailedError, match="may still get into the log"):
            producer.send(Message(b"y", message_group="g"))
        producer.close()


def test_topic_changes_reach_open_producers() -> None:
    """Altering leaves them alone; deleting ends them, also when both are done by the same lake."""
    with connect() as lake:
        producer = lake.producer("orders")
        lake.alter_topic("orders", retention=timedelta(days=1))
        producer.send(Message(b"1", message_group="g")).result(timeout=TIMEOUT_S)
        assert lake.describe_topic("orders").settings.retention == timedelta(days=1)
        lake.delete_topic("orders")
        with pytest.raises(penstock.TopicDeleted, match="the topic was deleted"):
            producer.send(Message(b"2", message_group="g")).result(timeout=TIMEOUT_S)
        lake.create_topic("orders", queues=1)
        with lake.producer("orders") as fresh:
            assert fresh.send(Message(b"3")).result(timeout=TIMEOUT_S).offset == 0


async def test_a_flush_that_is_given_up_leaves_others_to_theirs() -> None:
    gate = Gate(MemoryStore(), is_entry)
    lake = AsyncLake(gate)
    await lake.create_topic("orders", TopicSettings(queues=1))
    producer = await lake.producer("orders", options=ProducerOptions(linger=LONG))
    gate.closed = True
    producer.send(Message(b"1"))
    first = asyncio.ensure_future(producer.flush())
    assert await asyncio.to_thread(gate.held.wait, TIMEOUT_S)
    receipt = producer.send(Message(b"2"))
    second = asyncio.ensure_future(producer.flush())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait((first,))
    gate.open()
    async with asyncio.timeout(TIMEOUT_S):
        await second
    assert receipt.done()
    await lake.close()

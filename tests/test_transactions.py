"""Transactions as their senders have them: nothing is seen before the commit, all of it after, nothing of it after a rollback."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import penstock
from penstock.coordinator import LakeMaintenance
from penstock.log import Runtime
from penstock.log.limits import MIB
from penstock.log.stores import MemoryStore
from penstock.testing import HandClock
from tests.lakes import TIMEOUT_S, Gate

Message = penstock.Message
UNKNOWN = penstock.TransactionResolution.UNKNOWN
SETTINGS: dict[str, Any] = {"message_type": "TRANSACTION", "queues": 2}


@pytest.fixture
def lake() -> Iterator[penstock.Lake]:
    with penstock.connect("memory://", maintenance=False) as lake:
        for topic in ("paid", "booked"):
            lake.create_topic(topic, **SETTINGS)
        with lake.check_transactions("shop", lambda _: UNKNOWN):
            yield lake


def begun(lake: penstock.Lake) -> penstock.Transaction:
    return lake.transaction(producer_group="shop")


def bodies(lake: penstock.Lake, topic: str = "paid") -> list[bytes]:
    return sorted(message.body for message in lake.reader(topic).messages())


def test_all_topics_see_it_at_the_commit_and_not_before(lake: penstock.Lake) -> None:
    with begun(lake) as transaction:
        ids = transaction.send("paid", Message(b"1", tag="t", keys=["k"], properties={"p": "v"}), Message(b"2"), queue=1)
        ids += transaction.send("booked", Message(b"3"))
        assert bodies(lake, "paid") == bodies(lake, "booked") == []
        receipt = transaction.commit()
        assert transaction.commit() is receipt
    first, second = lake.reader("paid").messages()
    (third,) = lake.reader("booked").messages()
    assert [one.message_id for one in (first, second, third)] == ids
    assert (first.queue, first.offset, second.offset) == (1, 0, 1)
    assert (first.tag, first.keys, first.properties, first.message_group) == ("t", ("k",), {"p": "v"}, None)
    assert {one.producer for one in (first, second, third)} == {transaction.id} == {receipt.transaction_id}
    assert first.born_timestamp <= first.store_timestamp
    assert datetime.now(UTC) - first.born_timestamp < timedelta(minutes=5)
    assert receipt.topics["paid"].offsets == {1: (0, 2)}
    assert receipt.topics["paid"].messages == 2
    assert receipt.topics["booked"].entry is not None
    assert [one.body for one in lake.reader("paid").lookup(message_id=ids[1])] == [b"2"]


def test_no_consumer_gets_half_messages(lake: penstock.Lake) -> None:
    got: list[bytes] = []
    came = threading.Event()

    def listen(message: penstock.MessageView) -> penstock.ConsumeResult:
        got.append(message.body)
        came.set()
        return penstock.ConsumeResult.SUCCESS

    with lake.push_consumer("paid", group="billing", listener=listen), begun(lake) as half, begun(lake) as whole:
        half.send("paid", Message(b"half"))
        whole.send("paid", Message(b"whole"))
        whole.commit()
        assert came.wait(TIMEOUT_S)
        assert got == [b"whole"]
        half.rollback()
    assert got == [b"whole"]


def test_the_table_has_what_was_committed() -> None:
    async def work() -> list[bytes]:
        async with penstock.aio.Lake(MemoryStore()) as lake:
            await lake.create_topic("paid", penstock.aio.TopicSettings(**SETTINGS))
            upkeep = LakeMaintenance(lake, lake.coordination.cells, lake.coordination.groups)
            lake.check_transactions("shop", lambda _: UNKNOWN)
            open_one = lake.transaction(producer_group="shop")
            await open_one.send("paid", Message(b"open"))
            async with lake.transaction(producer_group="shop") as transaction:
                await transaction.send("paid", Message(b"committed"))
                await transaction.commit()
            await upkeep.once("paid")
            reader = await lake.reader("paid")
            table = await reader.to_arrow(columns=["body"])
            files = [info.key for info in await lake.store.list("topics/paid/table/queue=")]
            assert len(files) == 1
            await open_one.rollback()
            return [body.as_py() for body in table["body"]]

    assert asyncio.run(work()) == [b"committed"]


def test_sends_to_one_queue_keep_their_order(lake: penstock.Lake) -> None:
    with begun(lake) as transaction:
        for number in range(20):
            transaction.send("paid", Message(b"%02d" % number), queue=0)
        transaction.commit()
    assert [one.body for one in lake.reader("paid").messages(queue=0)] == [b"%02d" % number for number in range(20)]


def test_messages_without_a_queue_take_them_in_turn(lake: penstock.Lake) -> None:
    with begun(lake) as transaction:
        transaction.send("paid", *(Message(b"x") for _ in range(10)))
        receipt = transaction.commit()
    assert receipt.topics["paid"].offsets == {0: (0, 5), 1: (0, 5)}


def test_messages_too_many_for_one_object(lake: penstock.Lake) -> None:
    with begun(lake) as transaction:
        transaction.send("paid", *(Message(bytes([number]) * (3 * MIB)) for number in range(12)), queue=0)
        transaction.commit()
    assert [one.body[0] for one in lake.reader("paid").messages()] == list(range(12))


def test_an_error_rolls_back_and_goes_on(lake: penstock.Lake) -> None:
    transaction = begun(lake)

    def work() -> None:
        with transaction:
            transaction.send("paid", Message(b"x"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert bodies(lake) == []
    with pytest.raises(penstock.TransactionRolledBack):
        transaction.commit()


def test_what_is_left_undecided_is_left_to_the_checker(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[penstock.CheckedTransaction] = []

    def answer(transaction: penstock.CheckedTransaction) -> penstock.TransactionResolution:
        asked.append(transaction)
        return penstock.TransactionResolution.COMMIT

    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("paid", **SETTINGS)
        soon = timedelta(milliseconds=1)
        with lake.transaction(producer_group="shop", checker=answer, first_check=soon) as transaction:
            transaction.send("paid", Message(b"x"))
        assert "was left without commit or rollback; its checker will be asked" in caplog.text
        for message in lake.reader("paid").messages(follow=True):
            assert message.body == b"x"
            break
        assert transaction.commit().topics["paid"].messages == 1, "as the checker said"
    assert [(one.id, one.producer_group, [message.body for message in one.messages]) for one in asked] == [
        (transaction.id, "shop", [b"x"])
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_ends_the_program_or_the_task_leaves_it_to_the_checker_too(
    lake: penstock.Lake, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    transaction = begun(lake)

    def work() -> None:
        with transaction:
            transaction.send("paid", Message(b"x"))
            raise error

    with pytest.raises(error), caplog.at_level(logging.WARNING, "penstock.transactions"):
        work()
    left = f"transaction {transaction.id} was left by {error.__name__}, without commit or rollback; its checker will be asked"
    assert left in caplog.text
    transaction.commit()
    assert bodies(lake) == [b"x"]


def test_nothing_sent_is_nothing_written(lake: penstock.Lake) -> None:
    with begun(lake) as transaction:
        receipt = transaction.commit()
    assert receipt == penstock.TransactionReceipt(None, {})
    with begun(lake) as transaction:
        transaction.rollback()


def test_many_at_once_from_many_threads(lake: penstock.Lake) -> None:
    def run(number: int) -> None:
        with begun(lake) as transaction:
            transaction.send("paid", Message(b"%d" % number))
            transaction.send("booked", Message(b"%d" % number))
            if number % 3:
                transaction.commit()
            else:
                transaction.rollback()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert bodies(lake, "paid") == bodies(lake, "booked") == sorted(b"%d" % number for number in range(60) if number % 3)


def test_another_topic_of_a_committed_transaction_may_be_gone(lake: penstock.Lake, caplog: pytest.LogCaptureFixture) -> None:
    with begun(lake) as transaction:
        transaction.send("paid", Message(b"x"))
        transaction.send("booked", Message(b"x"))
        lake.delete_topic("booked")
        lake.create_topic("booked", **SETTINGS)
        with caplog.at_level(logging.WARNING, "penstock.transactions"):
            receipt = transaction.commit()
    assert (receipt.topics["booked"].gone, receipt.topics["paid"].gone) == (True, False)
    assert bodies(lake, "paid") == [b"x"]
    assert bodies(lake, "booked") == []
    assert "topic booked was deleted, so its messages there are not visible" in caplog.text


def test_a_topic_that_is_made_again_takes_no_more_of_a_transaction(lake: penstock.Lake) -> None:
    with begun(lake) as transaction:
        transaction.send("paid", Message(b"x"))
        lake.delete_topic("paid")
        lake.create_topic("paid", **SETTINGS)
        with pytest.raises(penstock.TopicDeleted, match="deleted and created again since the transaction's first message"):
            transaction.send("paid", Message(b"y"))
        transaction.rollback()


def test_an_open_one_outlives_its_lake() -> None:
    clock, later = HandClock(), timedelta(minutes=10)  # when the first lake is closed, which would be asked itself
    store, runtime = MemoryStore(clock=clock), Runtime(clock=clock)
    with penstock.connect(store=store, runtime=runtime, maintenance=False) as lake:
        lake.create_topic("paid", **SETTINGS)
        transaction = lake.transaction(producer_group="shop", checker=lambda _: UNKNOWN, first_check=later)
        transaction.send("paid", Message(b"x"))
    clock.advance(later)
    with penstock.connect(store=store, runtime=runtime, maintenance=False) as lake:
        assert bodies(lake) == []
        with lake.check_transactions("shop", lambda _: penstock.TransactionResolution.COMMIT):
            for message in lake.reader("paid").messages(follow=True):
                assert message.producer == transaction.id
                break


def test_a_child_of_fork_is_told(lake: penstock.Lake) -> None:
    transaction = begun(lake)
    transaction.send("paid", Message(b"x"))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - measured in the parent only
        said = "nothing"
        try:
            with transaction:
                transaction.commit()
        except BaseException as error:  # noqa: BLE001 - all of them are told
            said = type(error).__name__
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "ForkedError"
    os.waitpid(child, 0)
    transaction.commit()
    assert bodies(lake) == [b"x"]


def test_dead_letters_of_a_topic_of_transactions_and_their_way_back(lake: penstock.Lake) -> None:
    with begun(lake) as transaction:
        transaction.send("paid", Message(b"x"))
        transaction.commit()
    with lake.push_consumer("paid", group="shipping", listener=lambda _: penstock.ConsumeResult.DEAD_LETTER):
        for dead in _followed(lake, "%DLQ%shipping"):
            assert dead.body == b"x"
            break
    report = lake.redrive("shipping")
    assert report.sent == 1
    assert bodies(lake) == [b"x", b"x"]


def _followed(lake: penstock.Lake, topic: str) -> Iterator[penstock.MessageView]:
    waited = threading.Event()
    for _ in range(int(TIMEOUT_S / 0.05)):
        try:
            reader = lake.reader(topic)
        except penstock.TopicNotFound:  # which may be listed by then: it is being made
            waited.wait(0.05)
        else:
            yield from reader.messages(follow=True)
            return
    raise AssertionError(f"no {topic}")


def test_asynchronous_callers_send_side_by_side_and_commit_when_all_is_sent() -> None:
    async def work() -> list[bytes]:
        gate = Gate(MemoryStore(), lambda call: "/staged/jobs/" in call.key and call.verb == "put")
        async with penstock.aio.connect(store=gate, maintenance=False) as lake:
            await lake.create_topic("paid", penstock.aio.TopicSettings(**SETTINGS))
            lake.check_transactions("shop", lambda _: UNKNOWN)
            async with lake.transaction(producer_group="shop") as transaction:
                await asyncio.gather(*(transaction.send("paid", Message(b"%02d" % one)) for one in range(10)))
                gate.closed = True
                sending = asyncio.ensure_future(transaction.send("paid", Message(b"late")))
                assert await asyncio.get_running_loop().run_in_executor(None, gate.held.wait, TIMEOUT_S)
                with pytest.raises(penstock.InvalidArgument, match=r"sends of the transaction are under way.*await them first"):
                    await transaction.commit()
                gate.open()
                await sending
                await transaction.commit()
            reader = await lake.reader("paid")
            return sorted([message.body async for message in reader.messages()])

    assert asyncio.run(work()) == sorted([*(b"%02d" % one for one in range(10)), b"late"])

"""What is wrong with a transaction, each with the error a user sees: its type and what it says."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.aio import transactions
from penstock.coordinator.transactions import limits
from penstock.coordinator.transactions.sending import half_message_sender
from penstock.log import TopicSettings
from penstock.log.stores import MemoryStore
from penstock.testing import HandClock, memory_lake

Message = penstock.Message
UNKNOWN = penstock.TransactionResolution.UNKNOWN
TOPICS: dict[str, penstock.MessageTypeLike] = {"paid": "TRANSACTION", "plain": "NORMAL", "ordered": "FIFO", "later": "DELAY"}


@contextmanager
def opened(**how: Any) -> Iterator[penstock.Lake]:
    with penstock.connect("memory://", maintenance=False, **how) as lake:
        for topic, kind in TOPICS.items():
            lake.create_topic(topic, message_type=kind, queues=2)
        with lake.check_transactions("shop", lambda _: UNKNOWN):
            yield lake


def refused(call: Callable[[], object], error: type[penstock.PenstockError], said: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert re.search(said, str(caught.value)), str(caught.value)


SENDS: list[tuple[str, Any, dict[str, Any], type[penstock.PenstockError], str]] = [
    ("paid", Message(b"x", message_group="g"), {}, penstock.MessageTypeMismatch, "cannot have a message group.*name its queue"),
    ("paid", Message(b"x", delay=timedelta(seconds=1)), {}, penstock.MessageTypeMismatch, "cannot have a delivery time.*DELAY"),
    ("paid", Message(b"x", delivery_timestamp=datetime.now(UTC)), {}, penstock.MessageTypeMismatch, "cannot have a delivery time"),
    ("plain", Message(b"x"), {}, penstock.MessageTypeMismatch, "takes NORMAL messages, and this is a TRANSACTION.*with a producer"),
    (
        "ordered",
        Message(b"x"),
        {},
        penstock.MessageTypeMismatch,
        "the topic takes FIFO messages, and this is a TRANSACTION message",
    ),
    ("later", Message(b"x"), {}, penstock.MessageTypeMismatch, "the topic takes DELAY messages, and this is a TRANSACTION message"),
    ("nowhere", Message(b"x"), {}, penstock.TopicNotFound, "there is no such topic"),
    ("paid", b"x", {}, penstock.InvalidArgument, "send takes a penstock.Message.*observed: bytes"),
    ("paid", Message(7), {}, penstock.InvalidArgument, "the body must be bytes"),  # type: ignore[arg-type]
    ("paid", Message(b"x", tag="a|b"), {}, penstock.InvalidArgument, "a tag must not contain"),
    ("paid", Message(b"x" * (4 * 1024 * 1024 + 1)), {}, penstock.LimitExceeded, "the body is over the limit"),
    ("paid", Message(b"x"), {"queue": 2}, penstock.InvalidArgument, "the topic has no such queue.*expected: 0 to 1; observed: 2"),
    ("paid", Message(b"x"), {"queue": "1"}, penstock.InvalidArgument, "expected: 0 to 1; observed: '1'"),
    ("paid", Message(b"x"), {"queue": True}, penstock.InvalidArgument, "the topic has no such queue"),
]


@pytest.mark.parametrize(("topic", "message", "how", "error", "said"), SENDS)
def test_what_no_transaction_can_send(
    topic: str, message: Any, how: dict[str, Any], error: type[penstock.PenstockError], said: str
) -> None:
    with opened() as lake, lake.transaction(producer_group="shop") as transaction:
        refused(lambda: transaction.send(topic, message, **how), error, said)
        assert transaction.id is None, "nothing was begun"
        transaction.send("paid", Message(b"good"))
        assert transaction.commit().topics["paid"].messages == 1


BEGINNINGS: list[tuple[dict[str, Any], type[penstock.PenstockError], str]] = [
    ({}, penstock.InvalidArgument, "needs a producer group, or a consumer.*expected: producer_group=… or consumer=…"),
    ({"producer_group": "other"}, penstock.InvalidArgument, r"needs a checker.*object: other.*pass checker=…, or call"),
    ({"producer_group": "a b"}, penstock.InvalidArgument, "bad producer group name.*letters, digits.*a b"),
    ({"producer_group": "%DLQ%x"}, penstock.InvalidArgument, "bad producer group name"),
    ({"producer_group": 7}, penstock.InvalidArgument, "a producer group's name must be a string.*int"),
    ({"producer_group": "x" * 121}, penstock.LimitExceeded, "name is too long.*at most 120 characters; observed: 121"),
    ({"producer_group": "shop", "first_check": timedelta(0)}, penstock.InvalidArgument, "first_check is too short.*above 0"),
    ({"producer_group": "shop", "first_check": "60"}, penstock.InvalidArgument, "first_check is no duration"),
    (
        {"producer_group": "shop", "first_check": timedelta(hours=2)},
        penstock.LimitExceeded,
        "first_check is too long.*at most 60 min; observed: 2 h",
    ),
    ({"producer_group": "other", "checker": "ask"}, penstock.InvalidArgument, "the checker must be callable.*str"),
]


@pytest.mark.parametrize(("how", "error", "said"), BEGINNINGS)
def test_what_no_transaction_can_be(how: dict[str, Any], error: type[penstock.PenstockError], said: str) -> None:
    with opened() as lake:
        refused(lambda: lake.transaction(**how), error, said)


def test_a_producer_sends_nothing_to_a_topic_of_transactions() -> None:
    with opened() as lake, lake.producer("paid") as producer:
        said = "the topic takes TRANSACTION messages, and this is a NORMAL message.*send it in a transaction"
        refused(lambda: producer.send(Message(b"x")), penstock.MessageTypeMismatch, said)
        refused(lambda: producer.send_batch([Message(b"x")]), penstock.MessageTypeMismatch, said)
        said = "takes TRANSACTION messages, and these are in no transaction.*send them in a transaction"
        for rows in ([b"x"], []):
            table = pa.table({"body": pa.array(rows, pa.binary())})
            refused(partial(producer.send_batch, table), penstock.MessageTypeMismatch, said)


def test_spark_writes_nothing_to_a_topic_of_transactions() -> None:
    pytest.importorskip("pyspark")
    from penstock.spark.produce.columns import MessageColumns, check_topic

    settings = TopicSettings(message_type=penstock.MessageType.TRANSACTION)
    said = "the topic takes TRANSACTION messages, which are sent in transactions.*a topic of another type"
    refused(lambda: check_topic(MessageColumns(body="body"), settings), penstock.MessageTypeMismatch, said)


def test_a_group_has_one_checker_in_a_lake() -> None:
    with opened() as lake:
        said = "has a checker for the producer group.*object: shop.*close the one"
        refused(lambda: lake.check_transactions("shop", lambda _: UNKNOWN), penstock.InvalidArgument, said)
        with lake.check_transactions("other", lambda _: UNKNOWN):
            lake.transaction(producer_group="other")
            lake.transaction(producer_group="other", checker=lambda _: UNKNOWN)
            refused(lambda: lake.transaction(producer_group="other", checker=7), penstock.InvalidArgument, "must be callable.*int")  # type: ignore[arg-type]
        refused(lambda: lake.transaction(producer_group="other"), penstock.InvalidArgument, "needs a checker")


def test_checks_that_end_by_a_bug_say_so_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("cannot schedule new futures after shutdown")

    async def begin_and_forget() -> None:
        lake = penstock.aio.connect("memory://", maintenance=False)
        checking = lake.check_transactions("shop", lambda _: UNKNOWN)
        await asyncio.wait((checking._task,))

    monkeypatch.setattr(transactions, "run_roles", broken)
    asyncio.run(begin_and_forget())
    gc.collect()  # a task whose error nobody asked for complains when it goes
    said = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert said == [
        "this process answers for producer group shop no more: RuntimeError('cannot schedule new futures after shutdown')"
    ]


def test_nothing_to_send() -> None:
    with opened() as lake, lake.transaction(producer_group="shop") as transaction:
        refused(lambda: transaction.send("paid"), penstock.InvalidArgument, "nothing to send.*object: paid")


@pytest.mark.parametrize(
    ("limit", "most", "said"),
    [
        ("MESSAGES_MAX", 2, "too many messages.*expected: at most 2; observed: 3.*in another one"),
        ("BYTES_MAX", 500, r"too many bytes.*at most 500 bytes; observed: [56]\d\d bytes"),
        ("TOPICS_MAX", 0, "too many topics.*at most 0; observed: 1"),
        ("PARTS_MAX", 2, "too many sends to one topic.*at most 2; observed: 3"),
    ],
)
def test_a_transaction_bigger_than_the_limits(limit: str, most: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert getattr(limits, limit) > most
    monkeypatch.setattr(half_message_sender, limit, most)
    with opened() as lake, lake.transaction(producer_group="shop") as transaction:
        sends = 0 if limit == "TOPICS_MAX" else 2
        for _ in range(sends):
            transaction.send("paid", Message(b"x" * 50))
        refused(lambda: transaction.send("paid", Message(b"x" * 50)), penstock.LimitExceeded, said)
        assert sum(one.messages for one in transaction.commit().topics.values()) == sends, "what it took"


def test_what_is_ended_takes_nothing_more() -> None:
    with opened() as lake:
        ends = {
            "commit": (penstock.TransactionCommitted, "the transaction is committed"),
            "rollback": (penstock.TransactionRolledBack, "the transaction was rolled back"),
        }
        for end, (error, said) in ends.items():
            transaction = lake.transaction(producer_group="shop")
            transaction.send("paid", Message(b"x"))
            getattr(transaction, end)()
            for call in (partial(transaction.send, "paid", Message(b"x")), partial(transaction.ack, "x")):
                refused(call, error, f"{said}.*begin another one")


def test_a_commit_after_a_rollback_and_a_rollback_after_a_commit() -> None:
    with opened() as lake:
        one, other = lake.transaction(producer_group="shop"), lake.transaction(producer_group="shop")
        one.send("paid", Message(b"x"))
        one.rollback()
        one.rollback()
        for _ in range(2):
            refused(one.commit, penstock.TransactionRolledBack, "the transaction was rolled back.*observed: by its sender")
        other.send("paid", Message(b"x"))
        other.commit()
        refused(other.rollback, penstock.TransactionCommitted, "the transaction is committed.*observed: by its sender")


def test_a_commit_of_an_expired_one(penstock_clock: HandClock) -> None:
    with memory_lake(clock=penstock_clock) as lake:
        lake.create_topic("paid", message_type="TRANSACTION")
        with lake.transaction(producer_group="shop", checker=lambda _: UNKNOWN) as transaction:
            transaction.send("paid", Message(b"x"))
            penstock_clock.advance(timedelta(hours=4))
            said = "the transaction has expired, and was rolled back.*observed: open for more than 4 hours.*undo the local work"
            for _ in range(2):
                refused(transaction.commit, penstock.TransactionExpired, said)
            transaction.rollback()
        assert list(lake.reader("paid").messages()) == []


def test_a_lake_that_is_only_read_has_no_transactions() -> None:
    store = MemoryStore()
    with penstock.connect(store=store, maintenance=False) as lake:
        lake.create_topic("paid", message_type="TRANSACTION")
    with penstock.connect(store=store, read_only=True) as lake:
        refused(lambda: lake.transaction(producer_group="shop"), penstock.ReadOnlyError, "read_only=True.*operation: transaction")
        checks = lambda: lake.check_transactions("shop", lambda _: UNKNOWN)  # noqa: E731
        refused(checks, penstock.ReadOnlyError, "read_only=True.*operation: check_transactions")


def test_a_lake_that_is_closed_has_none_either() -> None:
    with opened() as lake:
        transaction = lake.transaction(producer_group="shop")
        transaction.send("paid", Message(b"x"))
    refused(lambda: lake.transaction(producer_group="shop"), penstock.ClosedError, "the lake is closed")
    refused(transaction.commit, penstock.ClosedError, "the lake is closed")
    with transaction:
        pass  # left for the checker

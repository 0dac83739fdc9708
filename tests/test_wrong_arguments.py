"""Every argument of every public call, of the wrong type or out of all bounds: refused with an error of ours, and never as our bug."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import penstock
from penstock.log.stores import MemoryStore

NONE = timedelta(0)


WRONG: dict[str, Any] = {
    "none": None,
    "zero": 0,
    "negative": -1,
    "huge": 2**70,
    "true": True,
    "float": 0.05,
    "nan": math.nan,
    "empty": "",
    "surrogate": "a\ud800b",
    "nul": "a\0b",
    "bidi": "\u202eabc",
    "long": "x" * 100_000,
    "path": "../../etc",
    "bytes": b"x",
    "list": [],
    "list of objects": [object()],
    "list of lists": [[1]],
    "dict": {},
    "dict of objects": {object(): object()},
    "set": {1},
    "object": object(),
    "type": int,
    "no function of one argument": lambda a, b, c: None,
    "naive time": datetime(2026, 1, 1),  # noqa: DTZ001 - that it has no zone is what is wrong
    "last time": datetime.max.replace(tzinfo=UTC),
    "first time": datetime.min.replace(tzinfo=UTC),
    "negative duration": timedelta(-1),
    "longest duration": timedelta.max,
    "store": MemoryStore(),
}


def listen(message: penstock.MessageView) -> penstock.ConsumeResult:
    return penstock.ConsumeResult.SUCCESS


def unknown(transaction: penstock.CheckedTransaction) -> penstock.TransactionResolution:
    return penstock.TransactionResolution.UNKNOWN


@pytest.fixture(scope="module")
def lake() -> Iterator[penstock.Lake]:
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2)
        lake.create_topic("later", message_type="DELAY", queues=1)
        lake.create_topic("halves", message_type="TRANSACTION", queues=1)
        lake.create_topic("typed", schema="id int", queues=1)
        lake.create_group("billing")
        with lake.producer("orders") as producer:
            producer.send(penstock.Message(b"paid", message_group="a"))
        yield lake


TO_LAKE: dict[str, dict[str, Any]] = {
    "create_topic": {"name": "orders", "message_type": "FIFO", "queues": 2},
    "describe_topic": {"name": "orders"},
    "alter_topic": {"name": "orders", "retention": timedelta(days=3), "retention_bytes": 2**40, "limits": penstock.TopicLimits()},
    "evolve_topic": {"name": "typed", "schema": "id int", "rename": {}, "retire": []},
    "topic_schema": {"name": "typed"},
    "schema_history": {"name": "typed"},
    "delete_topic": {"name": "gone"},
    "topics": {},
    "producer": {"topic": "orders"},
    "reader": {"topic": "orders"},
    "push_consumer": {"topic": "orders", "group": "billing", "listener": listen},
    "simple_consumer": {"topic": "orders", "group": "billing"},
    "pull_consumer": {"topic": "orders", "group": "billing"},
    "broadcast_consumer": {"topic": "orders", "group": "all", "member": "one", "listener": listen},
    "create_group": {"name": "billing"},
    "alter_group": {
        "name": "billing",
        "retry": penstock.RetryPolicy(),
        "max_attempts": 17,
        "dead_letter_policy": "continue",
        "filters": {},
    },
    "delete_group": {"name": "gone"},
    "describe_group": {"name": "billing"},
    "groups": {},
    "parked": {"group": "billing"},
    "release": {"group": "billing"},
    "skip": {"group": "billing"},
    "redrive": {"group": "billing"},
    "reset_offsets": {"topic": "orders", "group": "billing", "to": "earliest"},
    "recall": {"recall_handle": "x"},
    "waiting": {"topic": "later"},
    "workers": {"watch": NONE},
    "trace": {"message_id": "0" * 24},
    "transaction": {"producer_group": "cashiers", "checker": unknown},
    "check_transactions": {"producer_group": "cashiers", "checker": unknown},
    "producer_statistics": {},
    "timer_statistics": {},
    "transaction_statistics": {},
}
TO_PRODUCER: dict[str, dict[str, Any]] = {
    "send": {"message": penstock.Message(b"x", message_group="a")},
    "send_batch": {"data": []},
}
TO_TYPED_PRODUCER: dict[str, dict[str, Any]] = {"send_row": {"row": {"id": 1}}, "send_batch": {"data": [{"id": 1}]}}
TO_RECEIPT: dict[str, dict[str, Any]] = {"result": {"timeout": 9}, "exception": {"timeout": 9}, "done": {}}
TO_READER: dict[str, dict[str, Any]] = {
    "messages": {},
    "read": {},
    "to_arrow": {"queue": 0, "start": 0, "end": 1, "tags": "a", "where": "a = 1", "columns": ["body"], "damaged": "raise"},
    "lookup": {"message_id": "0" * 24},
    "lookup_arrow": {"message_id": "0" * 24},
    "resolve": {"position": "earliest"},
    "offsets": {},
}
TO_SIMPLE: dict[str, dict[str, Any]] = {
    "receive": {"max_messages": 1, "await_duration": NONE},
    "ack": {"receipts": ("x",)},
    "ack_each": {"receipts": ("x",)},
    "change_invisible_duration": {"receipt": "x", "duration": timedelta(seconds=1)},
    "dead_letter": {"receipt": "x"},
    "deliveries": {"holders": ("x",)},
    "statistics": {},
}
TO_PULL: dict[str, dict[str, Any]] = {
    "poll": {"max_messages": 1, "timeout": NONE},
    "poll_arrow": {"max_messages": 1, "timeout": NONE},
    "seek": {"topic": "orders", "queue": 0, "to": "earliest"},
    "position": {"topic": "orders", "queue": 0},
    "committed": {"topic": "orders", "queue": 0},
    "commit": {},
}
TO_PUSH: dict[str, dict[str, Any]] = {"wait": {"timeout": NONE}, "statistics": {}, "drain": {}}
TO_TRANSACTION: dict[str, dict[str, Any]] = {
    "send": {"topic": "halves", "messages": (penstock.Message(b"x"),)},
    "ack": {"receipts": ("x",)},
}
VALUES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Message.json": (penstock.Message.json, {"value": 1}),
    "RetryPolicy": (penstock.RetryPolicy, {}),
    "TopicLimits": (penstock.TopicLimits, {}),
    "GroupSettings": (penstock.GroupSettings, {}),
    "RetryAfter": (penstock.RetryAfter, {"delay": NONE}),
    "BatchResult": (penstock.BatchResult, {"succeeded": 0}),
    "delay_level": (penstock.delay_level, {"level": 1}),
    "connect": (penstock.connect, {"url": "memory://"}),
}
LEFT_OUT = {"runtime", "progress"}
"""Of the tests and of the command line."""
FOR_EVER = {("follow", "true"), ("timeout", "none")}
"""What is right, and does not end."""


def calls_of(parameters: Mapping[str, inspect.Parameter], right: dict[str, Any]) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """With one argument wrong at a time: what it is, and the arguments."""
    names = {name for name in {*parameters, *right} if name not in LEFT_OUT}
    variable = {name for name, one in parameters.items() if one.kind is one.VAR_POSITIONAL}
    names -= {name for name, one in parameters.items() if one.kind is one.VAR_KEYWORD}
    for name in sorted(names):
        for what, value in WRONG.items():
            if (name, what) in FOR_EVER:
                continue
            given = {**right, name: (value,) if name in variable else value}
            front = [given.pop(one) for one in list(parameters) if one in given] if variable & given.keys() else []
            positional = [part for one in front for part in (one if isinstance(one, tuple) else (one,))]
            yield f"{name}={what}", positional, given


def complaints(call: Callable[..., Any], right: dict[str, Any]) -> list[str]:
    found = []
    for what, positional, given in calls_of(inspect.signature(call).parameters, right):
        try:
            result = call(*positional, **given)
            if isinstance(result, Iterator):
                list(result)
            with suppress(penstock.InvalidArgument, AttributeError):  # a transaction is rolled back instead
                (result.close if hasattr(result, "close") else result.rollback)()
        except (penstock.InternalError, penstock.DataDamaged) as error:  # nothing may be stored that cannot be read
            found.append(f"{what}: {error}")
        except penstock.PenstockError:
            pass
        except Exception as error:  # noqa: BLE001 - this is what it looks for
            found.append(f"{what}: {type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize("name", TO_LAKE)
def test_calls_of_a_lake(lake: penstock.Lake, name: str) -> None:
    assert complaints(getattr(lake, name), TO_LAKE[name]) == []


@pytest.mark.parametrize("name", VALUES)
def test_values_and_connect(name: str) -> None:
    assert complaints(*VALUES[name]) == []


@pytest.mark.parametrize(
    ("opened", "calls"),
    [
        (lambda lake: lake.producer("orders"), TO_PRODUCER),
        (lambda lake: lake.producer("typed"), TO_TYPED_PRODUCER),
        (lambda lake: lake.reader("orders"), TO_READER),
        (lambda lake: lake.simple_consumer("orders", group="simple"), TO_SIMPLE),
        (lambda lake: lake.pull_consumer("orders", group="pull"), TO_PULL),
        (lambda lake: lake.push_consumer("orders", group="push", listener=listen), TO_PUSH),
        (lambda lake: lake.broadcast_consumer("orders", group="all", member="one", listener=listen), {"wait": {"timeout": NONE}}),
        (lambda lake: lake.transaction(producer_group="cashiers", checker=unknown), TO_TRANSACTION),
    ],
    ids=["producer", "typed producer", "reader", "simple", "pull", "push", "broadcast", "transaction"],
)
def test_calls_of_what_a_lake_opens(lake: penstock.Lake, opened: Callable[[penstock.Lake], Any], calls: dict[str, Any]) -> None:
    with opened(lake) as end:
        found = {name: said for name, right in calls.items() if (said := complaints(getattr(end, name), right))}
    assert found == {}


def test_calls_of_a_receipt(lake: penstock.Lake) -> None:
    with lake.producer("orders") as producer:
        receipt, batch = producer.send(penstock.Message(b"x", message_group="a")), producer.send_batch([])
    for name, right in TO_RECEIPT.items():
        assert complaints(getattr(receipt, name), right) == complaints(getattr(batch, name), right) == []


def test_every_public_call_is_here() -> None:
    kinds: dict[type, set[str]] = {
        penstock.Lake: {*TO_LAKE},
        penstock.Producer: {*TO_PRODUCER, *TO_TYPED_PRODUCER, "flush", "statistics"},
        penstock.Reader: {*TO_READER, "to_pandas", "to_polars"},
        penstock.SimpleConsumer: {*TO_SIMPLE, "wait", "on_loop"},
        penstock.PullConsumer: {*TO_PULL, "wait"},
        penstock.PushConsumer: {*TO_PUSH},
        penstock.BroadcastConsumer: {"wait"},
        penstock.Receipt: {*TO_RECEIPT},
        penstock.Transaction: {*TO_TRANSACTION, "commit", "rollback"},
    }
    for kind, covered in kinds.items():
        public = {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}
        assert public - covered - {"close"} == set(), kind


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("push_consumer", {"threads": 4_097}),
        ("push_consumer", {"batch_messages": 10_001}),
        ("push_consumer", {"cache_messages": 1_000_001}),
        ("push_consumer", {"cache_bytes": 2**50 + 1}),
        ("push_consumer", {"consume_timeout": timedelta(days=8)}),
        ("simple_consumer", {"receive_max": 10_001}),
        ("producer", {"linger": timedelta(hours=2)}),
        ("producer", {"delivery_timeout": timedelta(days=31)}),
        ("producer", {"memory_bytes": 2**50 + 1}),
        ("workers", {"watch": timedelta(days=31)}),
        ("alter_topic", {"retention_bytes": 2**60 + 1}),
        ("alter_group", {"max_attempts": 1_000_001}),
    ],
)
def test_what_is_too_much_says_so(lake: penstock.Lake, call: str, given: dict[str, Any]) -> None:
    with pytest.raises(penstock.LimitExceeded, match=r"is too (much|long) \(.*expected: at most"):
        getattr(lake, call)(**{**TO_LAKE[call], **given})


def test_a_text_is_no_flag(lake: penstock.Lake) -> None:
    lake.create_group("kept")
    with pytest.raises(penstock.InvalidArgument, match=r"force must be True or False.*'false'"):
        lake.delete_group("kept", force="false")  # type: ignore[arg-type]
    assert "kept" in lake.groups()

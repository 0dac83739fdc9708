"""docs/semantics.md names a test for every row, and the tests are there; and what of RocketMQ's defaults is shown nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TypeVar

import pytest

import penstock
from penstock import Message
from penstock.consumers import PushOptions, SimpleOptions
from penstock.consumers.simple import AWAIT_DEFAULT, INVISIBLE_MAX, INVISIBLE_MIN
from penstock.coordinator import RetryPolicy
from penstock.log import StoreUnavailable, TopicLimits, TopicSettings
from penstock.log.lake import LogLake
from penstock.log.message.routing import queue_of
from penstock.log.stores import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.testing import HandClock
from tests.coordinator.timers.test_delivery import Played
from tests.lakes import TIMEOUT_S
from tests.tree import ROOT
from tests.waiting import wait_until

T = TypeVar("T")

PAGE = ROOT / "docs" / "semantics.md"
SECTIONS = [f"2.{number}" for number in range(1, 22)]


def rows() -> Iterator[tuple[str, list[str]]]:
    """Section and cells of every row."""
    section = ""
    for line in PAGE.read_text().splitlines():
        if found := re.match(r"## (2\.\d+) ", line):
            section = found[1]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and cells[0] not in ("RocketMQ", "---"):
            yield section, cells


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_section_is_there() -> None:
    assert list(dict.fromkeys(section for section, _ in rows())) == SECTIONS


def test_every_row_says_what_happens_here_and_names_tests_that_there_are() -> None:
    wrong = []
    for section, cells in rows():
        assert len(cells) == 3, f"{section}: {cells[0]}"
        _, here, shown = cells
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", shown)
        if not re.match(r"\*\*(same|differs|not there)\*\*", here) or not named or re.sub(r"`[^`]+`", "", shown).strip(", "):
            wrong.append(f"{section}: {cells[0]}")
        for path, name in named:
            if not (ROOT / "tests" / path).exists() or name not in functions(path):
                wrong.append(f"{section}: {path}::{name}")
    assert wrong == []


# --- What nothing else shows -----------------------------------------------------------------------------------------------------


def test_limits_are_rocketmq_s() -> None:
    limits = TopicLimits()
    assert (limits.max_body_bytes, limits.max_properties_bytes, limits.max_properties) == (4 * 2**20, 16 * 2**10, 128)
    assert limits.max_message_group_bytes == 63
    assert limits.max_delay == timedelta(days=40)
    settings = TopicSettings()
    assert (settings.message_type, settings.queues, settings.retention) == ("NORMAL", 16, timedelta(days=3))


def test_defaults_of_consumers() -> None:
    push, simple = PushOptions(), SimpleOptions()
    assert (push.threads, push.cache_messages, push.cache_bytes, push.batch_messages) == (20, 1_024, 64 * 2**20, 32)
    assert push.consume_timeout == timedelta(minutes=15)
    assert simple.receive_max == 32
    assert (timedelta(seconds=10), timedelta(hours=12), timedelta(seconds=20)) == (INVISIBLE_MIN, INVISIBLE_MAX, AWAIT_DEFAULT)


def test_the_retry_table_is_the_documented_one() -> None:
    policy = RetryPolicy(schedule="rocketmq")
    waits = [policy.delay(strike, 0.5) for strike in range(1, 17)]
    minutes = [timedelta(minutes=number) for number in (*range(1, 11), 20, 30, 60, 120)]
    assert waits == [timedelta(seconds=10), timedelta(seconds=30), *minutes]
    assert sum(waits, timedelta()) == timedelta(hours=4, minutes=45, seconds=40)
    assert policy.delay(17, 0.5) == policy.delay(100, 0.5) == timedelta(hours=2)


def test_an_empty_body_is_a_body() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        with lake.producer("orders") as producer:
            producer.send(Message(b""))
        assert [one.body for one in lake.reader("orders").messages()] == [b""]


@pytest.mark.parametrize("late", [timedelta(seconds=20), timedelta(days=400)])
def test_a_time_in_the_past_is_delivered_at_once(late: timedelta) -> None:
    """In virtual time: within a second, though nothing else happens."""

    async def script(played: Played, lake: LogLake) -> None:
        due = datetime.fromtimestamp(lake.runtime.clock.wall_ms() / 1000, UTC) - late
        producer = await lake.producer("orders")
        producer.send(Message(b"x", delivery_timestamp=due))
        await producer.close()
        await played.play_for(lake, 5)
        (found,) = await played.read(lake)
        assert (found.body, found.delivery_timestamp) == (b"x", due)
        assert timedelta(0) <= found.store_timestamp - found.born_timestamp <= timedelta(seconds=1)

    Played(f"past-{late}").run(script)


def test_a_delayed_message_enters_its_group_s_order_when_it_is_due(
    penstock_memory_lake: penstock.Lake, penstock_clock: HandClock
) -> None:
    lake = penstock_memory_lake
    lake.create_topic("orders", message_type="DELAY", queues=4)
    with lake.producer("orders") as producer:
        for body, minutes in ((b"third", 60), (b"first", 10), (b"second", 10)):
            producer.send(Message(body, message_group="ann", delay=timedelta(minutes=minutes)))
    reader = lake.reader("orders")
    assert list(reader.messages()) == []
    penstock_clock.advance(timedelta(minutes=30))
    wait_until(lambda: len(list(reader.messages())) == 2, "two are delivered", timeout_s=TIMEOUT_S)
    penstock_clock.advance(timedelta(minutes=31))
    wait_until(lambda: len(list(reader.messages())) == 3, "all are delivered", timeout_s=TIMEOUT_S)
    found = list(reader.messages(queue=queue_of("ann", 4)))
    assert [(one.message_group, one.body) for one in found] == [("ann", b"first"), ("ann", b"second"), ("ann", b"third")]


class Unanswered(StoreWrapper):
    """Carries out the first upload of half messages, and does not say so."""

    uploads = 0

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        done = await run()
        if call.verb == "put" and "/staged/jobs/" in call.key:
            self.uploads += 1
            if self.uploads == 1:
                raise StoreUnavailable("no answer", operation=call.verb, object=call.key)
        return done


def test_a_send_of_a_transaction_is_tried_again_and_stored_once() -> None:
    store = Unanswered(MemoryStore())
    with penstock.connect(store=store, maintenance=False) as lake:
        lake.create_topic("paid", message_type="TRANSACTION")
        with lake.transaction(producer_group="shop", checker=lambda _: penstock.TransactionResolution.UNKNOWN) as transaction:
            transaction.send("paid", Message(b"x"))
            assert store.uploads == 2
            transaction.commit()
        assert [one.body for one in lake.reader("paid").messages()] == [b"x"]

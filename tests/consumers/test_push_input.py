"""What cannot be a consumer is refused before anything starts, with a message that says what is wrong and what would be right."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import penstock
from penstock import ConsumeResult, MessageView, RetryPolicy, aio
from penstock.log.stores import MemoryStore
from tests.consumers.heard import SUCCESS, Heard, consuming, fill, until_settled

NOTHING = timedelta(0)


def listen(message: MessageView) -> ConsumeResult:
    return SUCCESS


def refused(lake: penstock.Lake, error: type[Exception], said: str, **how: Any) -> None:
    """Neither a group nor a thread is made."""
    topic = how.pop("topic", "orders")
    with pytest.raises(error, match=said):
        lake.push_consumer(topic, **{"group": "billing", "listener": listen, **how})
    assert lake.groups() == {}
    assert lake.workers() == []


@pytest.mark.parametrize(
    ("listener", "said"),
    [
        (None, "the listener cannot be called.*expected: a function of a message; observed: None"),
        ("listen", "the listener cannot be called.*observed: 'listen'"),
        (lambda: SUCCESS, "the listener does not take one argument.*expected: a message; observed: .*too many positional"),
        (lambda message, context: SUCCESS, "does not take one argument.*missing a required argument: 'context'"),
        (functools.partial(lambda message: SUCCESS, None), "does not take one argument"),
    ],
)
def test_a_listener_that_cannot_be_called_with_a_message(lake: penstock.Lake, listener: object, said: str) -> None:
    fill(lake, "a")
    refused(lake, penstock.InvalidArgument, said, listener=listener)


def test_a_batch_listener_takes_a_list(lake: penstock.Lake) -> None:
    fill(lake, "a")
    refused(lake, penstock.InvalidArgument, "expected: a list of messages", listener=lambda: SUCCESS, batch="group")


@pytest.mark.parametrize(
    "listener", [print, functools.partial(lambda extra, message: SUCCESS, 1), Heard(), lambda message, extra=1: SUCCESS]
)
def test_whatever_takes_one_argument_is_a_listener(lake: penstock.Lake, listener: Callable[[Any], object]) -> None:
    fill(lake, "")
    with consuming(lake, listener):
        until_settled(lake)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"filter": "paid ||"}, r"bad tag filter.*tags separated by '\|\|'.*paid \|\|"),
        ({"filter": "a | b"}, "bad tag filter"),
        ({"filter": 7}, "a tag filter is a text"),
        ({"topic": {"orders": "a||"}}, "bad tag filter"),
        ({"topic": {"orders": None}, "filter": "paid"}, "several topics have a filter each.*filter='paid'.*write {topic: filter}"),
        ({"topic": {}}, "subscribes to a topic, or to several"),
        ({"topic": ["orders"]}, r"subscribes to a topic, or to several.*observed: \['orders'\]"),
        ({"topic": "no topic!"}, "topic name"),
        ({"topic": 5}, "subscribes to a topic"),
        ({"start": "soon"}, "start is an offset, a datetime, 'earliest' or 'latest'.*'soon'"),
        ({"start": -1}, "start is an offset"),
        ({"start": True}, "start is an offset"),
        ({"start": 1.5}, "start is an offset"),
        ({"start": datetime(2026, 1, 1)}, "a time must have a zone.*2026-01-01"),  # noqa: DTZ001 - that is the point
        ({"threads": 0}, "threads must be a positive whole number.*observed: 0"),
        ({"threads": 2.5}, "threads must be a positive whole number"),
        ({"cache_messages": -1}, "cache_messages must be a positive whole number"),
        ({"cache_bytes": None}, "cache_bytes must be a positive whole number"),
        ({"batch_messages": 0}, "batch_messages must be a positive whole number"),
        ({"batch": "topic"}, "batch is not known.*'group', 'queue' or None.*topic"),
        ({"consume_timeout": NOTHING}, "consume_timeout is too short.*above 0"),
        ({"consume_timeout": "900"}, "consume_timeout is no duration.*'900'"),
        ({"max_attempts": 0}, "max_attempts must be a positive whole number, or None"),
        ({"delivery_order": "SIDEWAYS"}, "no such delivery_order.*ORDERLY, CONCURRENT.*SIDEWAYS"),
        ({"dead_letter_policy": "forget"}, "no such dead_letter_policy.*continue, park"),
        ({"retry": 5}, "retry must be a RetryPolicy"),
        ({"delivery_order": "CONCURRENT", "dead_letter_policy": "park"}, "only an ORDERLY group can park"),
        ({"group": "no\ngroup"}, "bad consumer group name"),
        ({"group": ""}, "bad consumer group name"),
        ({"group": None}, "a consumer group's name must be a string"),
    ],
)
def test_arguments_that_make_no_sense(lake: penstock.Lake, how: dict[str, Any], said: str) -> None:
    fill(lake, "a")
    refused(lake, penstock.InvalidArgument, said, **how)


def test_a_topic_that_is_not_there(lake: penstock.Lake) -> None:
    refused(lake, penstock.TopicNotFound, "no such topic.*orders")
    fill(lake, "a")
    refused(lake, penstock.TopicNotFound, "no such topic.*payments", topic={"orders": None, "payments": None})


def test_a_start_beyond_what_is_there(lake: penstock.Lake) -> None:
    fill(lake, "aaa")
    with pytest.raises(penstock.OffsetOutOfRange, match="the next one to be written is 3"):
        lake.push_consumer("orders", group="billing", listener=listen, start=4)
    assert lake.workers() == []


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"delivery_order": "CONCURRENT"}, "another delivery order.*'ORDERLY'.*'CONCURRENT'.*penstock group alter"),
        ({"max_attempts": 4}, "another max attempts.*'3'.*'4'"),
        ({"max_attempts": None}, "another max attempts.*'3'.*'any number'"),
        ({"dead_letter_policy": "continue"}, "another dead letter policy.*'park'.*'continue'"),
        ({"retry": RetryPolicy(interval=timedelta(seconds=9))}, "another retry.*'every 5 s'.*'every 9 s'"),
        ({"filter": "refunded"}, "another filter of orders.*'paid'.*'refunded'"),
    ],
)
def test_a_member_that_contradicts_its_group_is_shown_both(lake: penstock.Lake, stated: dict[str, Any], said: str) -> None:
    fill(lake, "a", tags="x")
    lake.create_group(
        "billing",
        retry=RetryPolicy(interval=timedelta(seconds=5)),
        max_attempts=3,
        dead_letter_policy="park",
        filters={"orders": "paid"},
    )
    with pytest.raises(penstock.InvalidArgument, match=said):
        lake.push_consumer("orders", group="billing", listener=listen, **stated)
    assert lake.workers() == []


def test_what_a_member_does_not_state_is_as_the_group_has_it(lake: penstock.Lake) -> None:
    fill(lake, "ab", tags="xy")
    made = lake.create_group("billing", delivery_order="CONCURRENT", max_attempts=None, filters={"orders": "x"})
    heard = Heard()
    with lake.push_consumer("orders", group="billing", listener=heard):
        until_settled(lake)
    assert heard.bodies() == ["a0"]
    assert lake.groups() == {"billing": made}


def test_a_member_makes_its_group_with_what_it_states(lake: penstock.Lake) -> None:
    fill(lake, "a", tags="x")
    retry = RetryPolicy(interval=timedelta(seconds=5))
    how: dict[str, Any] = {"retry": retry, "max_attempts": None, "dead_letter_policy": "park", "filter": "x"}
    with lake.push_consumer("orders", group="billing", listener=listen, **how):
        made = lake.groups()["billing"]
    assert (made.delivery_order, made.retry, made.max_attempts, made.dead_letter_policy) == ("ORDERLY", retry, None, "park")
    assert made.filters == {"orders": "x"}


def test_where_a_new_group_begins(lake: penstock.Lake) -> None:
    fill(lake, "aaa")
    stored = [one.store_timestamp for one in lake.reader("orders").messages()]
    for number, (start, offsets) in enumerate(
        [("earliest", [0, 1, 2]), ("latest", []), (2, [2]), (stored[0], [0, 1, 2]), (datetime.now(UTC) + timedelta(days=1), [])]
    ):
        heard = Heard()
        with consuming(lake, heard, group=f"g{number}", start=start):
            until_settled(lake, f"g{number}")
        assert heard.offsets() == offsets, start


def test_a_lake_that_is_read_only(lake: penstock.Lake) -> None:
    store = MemoryStore()
    with penstock.connect(store=store) as writable:
        fill(writable, "a")
    with penstock.connect(store=store, read_only=True) as opened:
        refused(opened, penstock.ReadOnlyError, "opened with read_only=True, and a consumer writes")


def test_a_lake_that_is_closed(lake: penstock.Lake) -> None:
    fill(lake, "a")
    lake.close()
    with pytest.raises(penstock.ClosedError, match="the lake is closed"):
        lake.push_consumer("orders", group="billing", listener=listen)


def test_asynchronously_the_call_s_own_mistakes_are_told_at_once_and_the_others_when_it_is_awaited() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as lake:
            with pytest.raises(penstock.InvalidArgument, match="threads must be"):
                lake.push_consumer("orders", group="billing", listener=listen, threads=0)
            consumer = lake.push_consumer("orders", group="billing", listener=listen)
            with pytest.raises(penstock.TopicNotFound):
                await consumer

    asyncio.run(main(), debug=True)


def test_in_a_child_process_a_consumer_says_that_it_was_forked(lake: penstock.Lake) -> None:
    fill(lake, "a")
    heard = Heard()
    with consuming(lake, heard) as consumer:
        heard.until_done(1)
        read_end, write_end = os.pipe()
        if (child := os.fork()) == 0:
            said = []
            for call in (consumer.wait, consumer.close, lambda: lake.push_consumer("orders", group="g", listener=listen)):
                try:
                    call()
                except penstock.ForkedError as error:
                    said.append(error.kind)
            os.write(write_end, ",".join(said).encode())
            os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            assert pipe.read() == "forked,forked,forked"
        assert os.waitpid(child, 0)[1] == 0
        assert not consumer.wait(NOTHING), "the parent's runs on"

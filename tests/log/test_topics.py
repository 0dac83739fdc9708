"""Topics by the public API: created, described, altered, listed, deleted and created again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

import penstock
from penstock import aio
from penstock.log import Runtime, TopicSettings
from penstock.log.stores import MemoryStore
from penstock.log.stores.protocol import Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.topic.topics import alter_topic, create_topic
from tests.lakes import TIMEOUT_S, bodies, keys, put, send_all
from tests.log.stores.virtual_time import now_s, run_virtual

T = TypeVar("T")
Message = penstock.Message


def test_creating_is_idempotent_and_settings_last() -> None:
    store = MemoryStore()
    settings: dict[str, Any] = {
        "message_type": "FIFO",
        "queues": 3,
        "retention": timedelta(hours=5, microseconds=7),
        "retention_bytes": 10**12,
        "limits": penstock.TopicLimits(max_body_bytes=10, max_properties_bytes=20, max_properties=2, max_message_group_bytes=5),
    }
    with penstock.connect(store=store) as lake:
        record = lake.create_topic("orders", **settings)
        before = keys(store)
        assert lake.create_topic("orders", **settings) == record
        assert keys(store) == before
    with penstock.connect(store=store) as lake:
        found = lake.topics()["orders"].settings
        assert {name: getattr(found, name) for name in settings} == settings
        assert lake.describe_topic("orders").settings == found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"queues": 5}, r"expected: \{'queues': '5'\}; observed: \{'queues': '4'\}"),
        ({"message_type": "FIFO"}, r"'message_type': 'FIFO'.*'message_type': 'NORMAL'"),
        ({"retention": None}, r"'retention': 'None'.*'retention': '3 days, 0:00:00'"),
        ({"limits": penstock.TopicLimits(max_properties=7)}, r"properties=7.*properties=128"),
    ],
)
def test_other_settings_are_told_apart(change: dict[str, Any], said: str) -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", queues=4)
        with pytest.raises(penstock.TopicExists, match=f"exists with other settings.*orders.*{said}"):
            lake.create_topic("orders", **{"queues": 4, **change})
        assert lake.describe_topic("orders").settings.queues == 4


def test_eight_creators_at_once_agree() -> None:
    store = MemoryStore()
    records: list[object] = []

    def create() -> None:
        with penstock.connect(store=store) as lake:
            records.append(lake.create_topic("orders", queues=4))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(TIMEOUT_S)
    assert len(records) == 8
    assert len(set(map(repr, records))) == 1


def test_configs_are_altered_as_a_whole_or_some_of_them() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        lake.alter_topic("orders", configs=(("a", "1"), ("b", "2")))
        altered = lake.alter_topic("orders", configs={"b": None, "c": "3"})
        assert altered.settings.configs == (("a", "1"), ("c", "3"))
        assert lake.alter_topic("orders", configs=()).settings.configs == ()
        with pytest.raises(penstock.InvalidArgument, match="pairs of name and value"):
            lake.alter_topic("orders", configs={"a": 1})  # type: ignore[dict-item]


def test_what_may_be_altered_is_altered_and_nothing_else() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", queues=2)
        limits = penstock.TopicLimits(max_body_bytes=5)
        lake.alter_topic("orders", retention=None, retention_bytes=5, limits=limits)
        found = lake.describe_topic("orders").settings
        assert (found.retention, found.retention_bytes, found.limits, found.queues) == (None, 5, limits, 2)
        with lake.producer("orders") as producer, pytest.raises(penstock.LimitExceeded, match="at most 5 bytes"):
            producer.send(Message(b"123456"))
        with pytest.raises(
            penstock.InvalidArgument,
            match=r"message_type cannot be changed.*queues, retention, retention_bytes, limits, iceberg or configs",
        ):
            lake.alter_topic("orders", message_type="FIFO")  # type: ignore[call-arg]
        with pytest.raises(penstock.InvalidArgument, match=r"retention is too short.*expected: above 0; observed: 0"):
            lake.alter_topic("orders", retention=0)
        with pytest.raises(penstock.InvalidArgument, match="limits must be TopicLimits"):
            lake.alter_topic("orders", limits={"max_body_bytes": 5})  # type: ignore[arg-type]
        assert lake.describe_topic("orders").settings == found
        with pytest.raises(penstock.TopicNotFound):
            lake.alter_topic("none", retention=None)


async def test_a_topic_that_is_open_does_not_become_the_later_one_of_its_name_when_that_is_altered() -> None:
    store = MemoryStore()
    async with aio.connect(store=store, maintenance=False) as lake, aio.connect(store=store, maintenance=False) as other:
        await lake.create_topic("orders", TopicSettings(queues=1))
        reader, opened = await lake.reader("orders"), await lake.topic("orders")
        await other.delete_topic("orders")
        await other.create_topic("orders", TopicSettings(queues=1))
        assert (await lake.alter_topic("orders", retention=None)).incarnation != opened.record.incarnation
        with pytest.raises(penstock.TopicDeleted):
            await reader.offsets()
        assert not opened.is_current
        again = await lake.topic("orders")
        assert (again.is_current, again.settings.retention) == (True, None)


def test_a_deleted_topic_is_gone_and_a_new_one_of_its_name_begins_at_zero() -> None:
    store = MemoryStore()
    with penstock.connect(store=store) as lake:
        lake.create_topic("orders", queues=2)
        send_all(lake, [Message(b"old")] * 3)
        first = lake.topics()["orders"]
        lake.delete_topic("orders")
        assert lake.topics() == {}
        for use in (lake.reader, lake.producer, lake.describe_topic, lake.delete_topic):
            with pytest.raises(penstock.TopicNotFound, match=r"no such topic.*orders.*penstock topic create"):
                use("orders")
        lake.create_topic("orders", message_type="FIFO", queues=5)
        second = lake.topics()["orders"]
        assert first.table == "table"
        assert second.table.startswith("table-"), "numbers and paths never restart"
        assert second.incarnation != first.incarnation
        assert lake.reader("orders").offsets() == dict.fromkeys(range(5), (0, 0))
        assert send_all(lake, [Message(b"new", message_group="g")])[0].offset == 0
        assert bodies(lake) == [b"new"]
        assert keys(store, "topics/orders/log/00000000000000000001"), "the former log stays where it was"


def test_a_process_that_only_reads_is_told_that_a_topic_is_being_created() -> None:
    begun, half = MemoryStore(), MemoryStore()
    with penstock.connect(store=begun) as lake:
        lake.create_topic("orders", queues=4)
    (settings,) = [key for key in keys(begun) if key.endswith("topic.json")]
    asyncio.run(_copy(begun, half, settings))
    with (
        penstock.connect(store=half, read_only=True) as lake,
        pytest.raises(penstock.TopicNotFound, match=r"no such topic yet.*its log has not begun it.*being created: try again"),
    ):
        lake.describe_topic("orders")


async def _copy(source: MemoryStore, target: MemoryStore, key: str) -> None:
    await target.put(key, (await source.get(key)).data, mode=Put.CREATE)


def test_topics_are_listed_by_name_and_strangers_are_passed_over() -> None:
    store = MemoryStore()
    with penstock.connect(store=store) as lake:
        for name in ("zeta", "alpha", "%DLQ%billing", "x" * 249):
            lake.create_topic(name, queues=1)
        put(store, "topics/with%percent/topic.json", b"{}")
        put(store, "topics/a b/topic.json", b"{}")
        put(store, "topics/empty/log/x", b"")
        put(store, "notes.txt", b"")
        assert list(lake.topics()) == ["%DLQ%billing", "alpha", "x" * 249, "zeta"]
        assert keys(store, "topics/dlq.billing/topic.json")
        assert send_all(lake, [Message(b"dead")], "%DLQ%billing")[0].offset == 0


def test_a_description_shows_where_the_load_lies() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=4)
        empty = lake.describe_topic("orders")
        assert (empty.messages, empty.sampled, empty.hottest_groups, empty.named_producers) == (0, 0, (), {})
        with lake.producer("orders", name="loader") as producer:
            for n in range(1000):
                group = "hot" if n % 4 else f"g{n % 40}"
                producer.send(Message(b"x", message_group=group), sequence=n)
        found = lake.describe_topic("orders")
    assert (found.name, found.messages, found.sampled) == ("orders", 1000, 1000)
    assert found.hottest_groups[0] == ("hot", 750)
    assert len(found.hottest_groups) == 5
    hottest = found.hottest_queues[0]
    assert hottest.sampled >= 750
    assert hottest.next == hottest.sampled
    assert sum(one.sampled for one in found.queues) == 1000
    assert found.named_producers == {"loader": 999}
    assert found.last_stored is not None
    assert before <= found.created <= found.last_stored <= datetime.now(UTC)


def test_a_store_that_takes_no_settings_for_a_while_is_asked_in_ever_longer_pauses() -> None:
    class Deaf(StoreWrapper):
        until_s, puts = 60.0, 0

        async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
            if call.verb == "put" and now_s() < self.until_s:
                self.puts += 1
                raise penstock.StoreUnavailable("no answer", operation="put", object=call.key)
            return await run()

    async def test() -> None:
        store, runtime = Deaf(MemoryStore()), Runtime(threads=False)
        record = await create_topic(store, runtime, "orders", TopicSettings())
        assert record.settings == TopicSettings()
        store.until_s = now_s() + 60.0
        altered = await alter_topic(store, runtime, "orders", retention=timedelta(hours=5))
        assert altered.settings.retention == timedelta(hours=5)
        assert 100 < store.puts < 150
        assert 120 <= now_s() < 125

    run_virtual(test())


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"name": ""}, penstock.InvalidArgument, "bad topic name"),
        ({"name": "a b"}, penstock.InvalidArgument, r"bad topic name.*a b.*letters, digits, '\.', '_' and '-'"),
        ({"name": "a/b"}, penstock.InvalidArgument, "bad topic name"),
        ({"name": ".."}, penstock.InvalidArgument, "bad topic name"),
        ({"name": "%RETRY%x"}, penstock.InvalidArgument, "bad topic name"),
        ({"name": "%DLQ%"}, penstock.InvalidArgument, "bad topic name"),
        ({"name": "größe"}, penstock.InvalidArgument, "bad topic name"),
        ({"name": "a\n"}, penstock.InvalidArgument, "bad topic name"),
        ({"name": 7}, penstock.InvalidArgument, "must be a string.*int"),
        ({"name": "x" * 250}, penstock.LimitExceeded, "too long.*at most 249 characters.*250"),
        ({"name": "dlq.orders"}, penstock.InvalidArgument, "no 'dlq.' or 'timer.' at its beginning"),
        ({"queues": 0}, penstock.InvalidArgument, "positive whole number.*0"),
        ({"queues": "8"}, penstock.InvalidArgument, "positive whole number.*8"),
        ({"queues": True}, penstock.InvalidArgument, "positive whole number.*True"),
        ({"queues": 4097}, penstock.LimitExceeded, "too many queues.*at most 4096.*4097"),
        ({"message_type": "LIFO"}, penstock.InvalidArgument, "no such message type.*NORMAL, FIFO, DELAY, TRANSACTION.*LIFO"),
        ({"name": "%TIMER%orders"}, penstock.InvalidArgument, "timer log, which comes, is written and goes with its topic.*orders"),
        ({"message_type": "DELAY", "name": "x" * 250}, penstock.LimitExceeded, "at most 249 characters.*250"),
        ({"message_type": "DELAY", "name": "%DLQ%x"}, penstock.InvalidArgument, "a dead-letter topic cannot be of type DELAY"),
        ({"retention": "3"}, penstock.InvalidArgument, "retention is no duration.*seconds, above 0, or None.*'3'"),
        ({"retention": timedelta(0)}, penstock.InvalidArgument, "retention is too short.*above 0"),
        ({"retention": timedelta.max}, penstock.LimitExceeded, "at most 36,500 days.*None keeps for ever"),
        ({"retention_bytes": 0}, penstock.InvalidArgument, "positive whole number, or None"),
        ({"limits": {"max_body_bytes": 1}}, penstock.InvalidArgument, "limits must be TopicLimits.*dict"),
    ],
)
def test_what_no_topic_can_be(arguments: dict[str, Any], error: type[penstock.PenstockError], said: str) -> None:
    store = MemoryStore()
    with penstock.connect(store=store) as lake:
        with pytest.raises(error, match=said):
            lake.create_topic(**{"name": "orders", **arguments})
        assert keys(store, "topics/") == []


@pytest.mark.parametrize("value", [0, -1, 1.5, "9", True, None])
def test_limits_are_positive_whole_numbers(value: Any) -> None:
    with pytest.raises(penstock.InvalidArgument, match="limit max_body_bytes must be a positive whole number"):
        penstock.TopicLimits(max_body_bytes=value)

"""What `penstock maintain --metrics-port` tells of all groups, with or without workers, and what a look costs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from penstock.consumers.handlers.results import ConsumeResult
from penstock.consumers.statistics import (
    GROUP_CONSUMERS,
    GROUP_DEAD_LETTERS,
    GROUP_OWNED_QUEUES,
    LAG_LATENCY,
    LAG_MESSAGES,
    LOOK_AGE,
    PARKED_GROUPS,
    TIMING_MESSAGES,
    TOPIC_QUEUES,
    UNREAD,
)
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.operators.lake_view import READS_MAX
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import encode_cell
from penstock.coordinator.tables.objectstore import FOLDER
from penstock.infra.cli.lake.maintenance import maintain_once
from penstock.infra.lake_metrics import view_of
from penstock.log import Message, MessageType, StoreUnavailable, TopicSettings
from penstock.log.metrics import Metric
from penstock.log.stores import ObjectStore, Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.cells import parked
from tests.infra.lake_views import INTERVAL, QUEUES, Exporter, Shop, send, write_groups

T = TypeVar("T")
ORDERS = ("orders", "billing")


class Refusing(StoreWrapper):
    """A store that does not answer for some keys."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.refused = "-"

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.key.startswith(self.refused):
            raise StoreUnavailable("no answer", operation=call.verb, object=call.key)
        return await run()


def play(script: Callable[[Shop], Awaitable[None]], *, wrap: Callable[[ObjectStore], StoreWrapper] | None = None) -> None:
    shop = Shop(wrap=wrap)

    async def main() -> None:
        await script(shop)
        await shop.close()

    shop.kernel.run(main())


def total(exporter: Exporter, metric: Metric, *labels: str) -> float:
    return sum(value for found, value in exporter.values(metric).items() if found[: len(labels)] == labels)


async def looked(shop: Shop, exporter: Exporter, *, looks: int = 1) -> None:
    for _ in range(looks):
        await shop.pass_time(INTERVAL.total_seconds())
        await exporter.look()
    assert not shop.errors


def test_a_group_whose_last_worker_died_is_told_as_before() -> None:
    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders")
        worker = await shop.worker("billing")
        await send(lake, "orders", 8)
        exporter = shop.exporter()
        await looked(shop, exporter, looks=3)
        assert exporter.values(GROUP_CONSUMERS) == {ORDERS: 1}
        assert exporter.values(GROUP_OWNED_QUEUES) == exporter.values(TOPIC_QUEUES) == {ORDERS: QUEUES}
        assert (
            exporter.values(LAG_MESSAGES) == exporter.values(LAG_LATENCY) == {(*ORDERS, str(queue)): 0 for queue in range(QUEUES)}
        )
        worker.crash()
        await send(lake, "orders", 8)
        await looked(shop, exporter, looks=4)
        assert exporter.values(GROUP_CONSUMERS) == exporter.values(GROUP_OWNED_QUEUES) == {ORDERS: 0}
        assert exporter.values(TOPIC_QUEUES) == {ORDERS: QUEUES}
        assert total(exporter, LAG_MESSAGES, *ORDERS) == 8
        assert max(exporter.values(LAG_LATENCY).values()) == pytest.approx(120_000, abs=INTERVAL.total_seconds() * 1000)
        heir = await shop.worker("billing")
        await looked(shop, exporter, looks=3)
        assert exporter.values(GROUP_CONSUMERS) == {ORDERS: 1}
        assert total(exporter, LAG_MESSAGES, *ORDERS) == total(exporter, LAG_LATENCY, *ORDERS) == 0
        await heir.close()

    play(script)


def test_looks_tell_which_workers_live() -> None:
    async def script(shop: Shop) -> None:
        operator = await shop.operator("orders")
        worker, other = await shop.worker("billing"), await shop.worker("billing")
        view = view_of(operator, precise=INTERVAL)

        async def states() -> list[str]:
            return [str(one.state) for one in (await view.look()).workers]

        assert await states() == ["silent", "silent"]
        await shop.pass_time(20)
        assert await states() == ["lives", "lives"]
        assert await states() == ["lives", "lives"]
        await other.close()
        worker.crash()
        assert await states() == ["lives"]
        await shop.pass_time(20)
        assert await states() == ["expired"]

    play(script)


def test_what_an_exporter_that_comes_later_tells_is_the_same() -> None:
    """It reads the messages whose age nobody told it; each once, and shared by all groups of the topic."""

    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders")
        await write_groups(lake, "orders", 10)
        first = shop.exporter()
        await looked(shop, first)
        await send(lake, "orders", 8)
        await looked(shop, first, looks=20)
        second = shop.exporter()
        requests = await second.look()
        told = second.values(LAG_LATENCY)
        assert told.keys() == first.values(LAG_LATENCY).keys()
        for labels, age_ms in first.values(LAG_LATENCY).items():
            assert told[labels] == pytest.approx(age_ms, abs=INTERVAL.total_seconds() * 1000)
        assert second.values(LAG_MESSAGES) == first.values(LAG_MESSAGES)
        cells = 10 * (QUEUES + 1)
        assert requests.get.requests < cells + 30
        assert (await second.look()).get.requests <= 3

    play(script)


def test_groups_and_topics_that_are_gone_are_told_no_more() -> None:
    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders", "events")
        await send(lake, "orders", 8)
        await send(lake, "events", 4)
        for topic in ("orders", "events"):
            await lake.create_group("billing")
            await lake.reset_offsets("billing", topic, "earliest")
        await lake.create_group("audit")
        await lake.reset_offsets("audit", "orders", "earliest")
        exporter = shop.exporter()
        await looked(shop, exporter)
        assert total(exporter, LAG_MESSAGES) == 8 + 8 + 4
        await lake.delete_group("audit")
        await looked(shop, exporter)
        assert {labels[:2] for labels in exporter.values(LAG_MESSAGES)} == {ORDERS, ("events", "billing")}
        await lake.delete_topic("events")
        await looked(shop, exporter)
        assert {labels[:2] for labels in exporter.values(LAG_MESSAGES)} == {ORDERS}
        await lake.create_topic("events", TopicSettings(message_type=MessageType.FIFO, queues=1))
        await send(lake, "events", 3)
        await looked(shop, exporter)
        assert exporter.values(LAG_MESSAGES).get(("events", "billing", "0")) == 3
        assert exporter.values(TOPIC_QUEUES) == {ORDERS: QUEUES, ("events", "billing"): 1}

    play(script)


def test_what_is_parked_given_up_and_waiting_is_told_without_an_owner() -> None:
    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders")
        await lake.create_topic("reminders", TopicSettings(message_type=MessageType.DELAY, queues=1))
        producer = await lake.producer("reminders")
        for _ in range(3):
            producer.send(Message(b"x", delay=2 * INTERVAL * 60))
        await producer.close()
        await send(lake, "orders", 4)
        worker = await shop.worker("billing", answer=lambda _: ConsumeResult.DEAD_LETTER)
        await shop.pass_time(20)
        await worker.close()
        cells, key = lake.coordination.cells, queue_key("billing", "orders", 0)
        stored = await cells.read(key)
        assert stored is not None
        cell = QueueCell(generation=0, markers={7: parked(0)})
        exporter = shop.exporter()
        await looked(shop, exporter)
        assert exporter.values(GROUP_DEAD_LETTERS)[ORDERS] == 4
        assert exporter.values(TIMING_MESSAGES) == {("reminders",): 3}
        assert total(exporter, PARKED_GROUPS) == 0
        await cells.write(key, encode_cell(cell), on=stored, deadline_s=9e18)
        await looked(shop, exporter)
        assert exporter.values(PARKED_GROUPS)[*ORDERS, "0"] == 1
        await lake.delete_topic("reminders")
        await looked(shop, exporter)
        assert exporter.values(TIMING_MESSAGES) == {}

    play(script)


def test_only_named_topics_are_told() -> None:
    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders", "events")
        await write_groups(lake, "orders", 1)
        await lake.reset_offsets("group-0000", "events", "earliest")
        exporter = shop.exporter(only=("events",))
        await looked(shop, exporter)
        assert set(exporter.values(TOPIC_QUEUES)) == {("events", "group-0000")}

    play(script)


@pytest.mark.parametrize(
    ("refused", "kind", "name"),
    [
        ("topics/events/", "topic", "events"),
        (f"{FOLDER}groups/group-0001", "group", "group-0001"),
        (f"{FOLDER}queues/group-0001/orders/1", "queue", "group-0001/orders"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_counted(refused: str, kind: str, name: str) -> None:
    stores: list[Refusing] = []

    def wrap(inner: ObjectStore) -> StoreWrapper:
        stores.append(Refusing(inner))
        return stores[0]

    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders", "events")
        await write_groups(lake, "orders", 2)
        for number in range(2):
            await lake.reset_offsets(f"group-{number:04}", "events", "earliest")
        exporter = shop.exporter()
        stores[0].refused = refused
        await exporter.look()
        everything = {(topic, f"group-{number:04}") for topic in ("orders", "events") for number in range(2)}
        left = {
            "topic": {one for one in everything if one[0] == "orders"},
            "group": {one for one in everything if one[1] == "group-0000"},
            "queue": everything - {("orders", "group-0001")},
        }[kind]
        assert set(exporter.values(TOPIC_QUEUES)) == left
        assert exporter.values(UNREAD) == {(kind, name): 1}
        assert [(one, step) for one, step, _ in shop.errors] == [(name, f"metrics of {kind}")]
        shop.errors.clear()
        stores[0].refused = "-"
        await looked(shop, exporter)
        assert set(exporter.values(TOPIC_QUEUES)) == everything

    play(script, wrap=wrap)


def test_a_look_that_fails_leaves_the_last_one_for_a_while() -> None:
    stores: list[Refusing] = []

    def wrap(inner: ObjectStore) -> StoreWrapper:
        stores.append(Refusing(inner))
        return stores[0]

    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders")
        await write_groups(lake, "orders", 1)
        exporter = shop.exporter()
        assert exporter.values(LOOK_AGE) == {}
        await looked(shop, exporter)
        stores[0].refused = FOLDER
        shown = []
        for _ in range(5):
            await shop.pass_time(INTERVAL.total_seconds())
            await exporter.look()
            shown.append(bool(exporter.values(TOPIC_QUEUES)))
        assert shown == [True, True, True, False, False]
        assert exporter.values(LOOK_AGE) == {(): 5 * INTERVAL.total_seconds()}
        assert exporter.values(UNREAD) == {("look", ""): 5}

    play(script, wrap=wrap)


def test_a_bug_in_a_look_is_told_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders")
        await write_groups(lake, "orders", 1)
        exporter = shop.exporter()
        await looked(shop, exporter)

        async def look(**_: object) -> None:
            raise ZeroDivisionError("by hand")

        monkeypatch.setattr(exporter._metrics._view, "look", look)
        await exporter.look()
        ((name, step, error),) = shop.errors
        assert (name, step, error.kind) == ("-", "metrics", "internal")
        assert "by hand" in str(error)
        assert exporter.values(TOPIC_QUEUES) == {("orders", "group-0000"): QUEUES}

    play(script)


@pytest.mark.parametrize("groups", [10, 100, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.thorough])])
def test_a_look_costs_what_is_written(groups: int) -> None:
    """docs/operations.md has the formula, and these figures."""

    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders", queues=4)
        await send(lake, "orders", 20)
        await maintain_once(lake, ["orders"], lambda *_: None)
        await write_groups(lake, "orders", groups)
        exporter = shop.exporter()
        await shop.pass_time(100)
        cells, pages = groups * 5, -(-groups // 1000) + -(-groups * 4 // 1000)
        first = await exporter.look()
        assert cells <= first.get.requests <= cells + 4 * READS_MAX
        await shop.pass_time(30)
        idle = await exporter.look()
        assert (idle.get.requests, idle.put.requests, idle.delete.requests) == (2, 0, 0)
        assert idle.list.requests == pages + 2  # of workers, of topics
        key = f"{FOLDER}{queue_key('group-0007', 'orders', 2)}"
        held = await shop.memory.get(key)
        await shop.memory.put(key, held.data, mode=Put.REPLACE)
        changed = await exporter.look()
        assert changed.get.requests == idle.get.requests + 1

    play(script)


def test_looks_do_not_overlap_and_leave_half_of_the_time() -> None:
    """One look at a time: a store that takes long makes looks rare, not many."""

    async def script(shop: Shop) -> None:
        lake = await shop.operator("orders")
        await write_groups(lake, "orders", 1)
        exporter = shop.exporter()
        began: list[float] = []

        async def look(report: object) -> None:
            began.append(shop.kernel.loop.now)
            await shop.pass_time(50)

        exporter._metrics.look = look  # type: ignore[method-assign]
        stop = asyncio.Event()
        running = asyncio.ensure_future(exporter._metrics.run(stop, lambda *_: None))
        await shop.pass_time(260)
        stop.set()
        await running
        assert [round(later - earlier) for earlier, later in itertools.pairwise(began)] == [100, 100]

    play(script)

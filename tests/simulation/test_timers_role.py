"""The timers of an open lake, in virtual time: let go by whoever has it open, and by another when that one dies."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import cast

import pytest

from penstock import ConsumeResult, aio
from penstock.consumers.metrics import MemoryMetrics
from penstock.consumers.statistics import TIMERS_LATE, TIMING_MESSAGES, timer_samples
from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.coordination import Coordination
from penstock.coordinator.rebalance.roles import Players
from penstock.coordinator.tables.objectstore import ObjectStoreTable
from penstock.coordinator.timers.role import TIMERS, Timers
from penstock.coordinator.timers.young_topics import YOUNG_S, YoungTopics, young_topics_of
from penstock.coordinator.workers.lease import BEATS_PER_LEASE, LEASE_S, MARGIN
from penstock.log import AccessLost, Message, MessageView, PenstockError, PermissionDenied, RetryError, TopicSettings
from penstock.log.message.message_type import MessageType
from penstock.log.stores import MemoryStore
from penstock.log.stores.counting import CountingStore
from tests.coordinator.timers.test_delivery import check_times
from tests.simulation.kernel import Kernel

DELAYED = TopicSettings(message_type=MessageType.DELAY, queues=2)


async def _come(lake: aio.Lake, count: int, *, within_s: float = 200.0) -> list[bytes]:
    """The bodies that came, once there are so many."""
    reader = await lake.reader("orders")
    found: list[MessageView] = []
    async with asyncio.timeout(within_s):
        async for one in reader.messages(follow=True):
            found.append(one)
            if len(found) == count:
                break
    check_times(found, late_s=within_s)
    return [one.body for one in found]


def test_an_open_lake_lets_go_what_is_sent_to_it() -> None:
    kernel = Kernel("timers of a lake", shuffle=False)

    async def work() -> None:
        process = kernel.process("sender")
        async with aio.connect(store=MemoryStore(clock=process.clock), runtime=process.runtime) as lake:
            await lake.create_topic("orders", DELAYED)
            producer = await lake.producer("orders")
            await producer.send(Message(b"soon", delay=timedelta(seconds=1)))
            began_s = kernel.loop.now
            assert await _come(lake, 1) == [b"soon"]
            assert kernel.loop.now - began_s < 2.5

    kernel.run(work())


@pytest.mark.parametrize(("topic", "patience_s"), [("orders", 0), ("others", 10)])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what crashed is closed where it stood
def test_another_goes_on_when_a_player_dies(topic: str, patience_s: float) -> None:
    """At once where it knows of the topic; one that only maintains the lake asks for it when others had their time to."""
    kernel = Kernel("timers of the dead", shuffle=False)

    async def work() -> None:
        first, second = kernel.process("first"), kernel.process("second")
        store = MemoryStore(clock=second.clock)

        async def begin() -> None:
            lake = aio.connect(store=store, runtime=first.runtime)
            await lake.create_topic("orders", DELAYED)
            producer = await lake.producer("orders")
            await producer.send(Message(b"first", delay=timedelta(seconds=1)))
            await producer.send(Message(b"later", delay=timedelta(seconds=4)))
            await _come(lake, 1)

        await first.run(begin())
        first.crash()
        crashed_s = kernel.loop.now
        async with aio.connect(store=store, runtime=second.runtime) as lake:
            await lake.create_topic("others", TopicSettings(queues=1))
            await lake.producer(topic)
            assert await _come(lake, 2) == [b"first", b"later"]
        assert kernel.loop.now - crashed_s < patience_s + LEASE_S * (1 + MARGIN) + 2

    kernel.run(work())


def test_who_comes_to_players_that_live_takes_no_part_at_first() -> None:
    kernel = Kernel("patience", shuffle=False)

    async def work() -> None:
        first, second = kernel.process("first"), kernel.process("second")
        store = MemoryStore(clock=second.clock)
        async with aio.connect(store=store, runtime=first.runtime) as playing:
            await playing.create_topic("orders", DELAYED)
            await playing.producer("orders")
            await asyncio.sleep(5)
            async with aio.connect(store=store, runtime=second.runtime) as lake:
                await lake.producer("orders")
                players = Players(playing.coordination.cells, playing.runtime)
                await asyncio.sleep(9)
                assert len((await players.get(TIMERS)).members) == 1
                await asyncio.sleep(3)
                assert len((await players.get(TIMERS)).members) == 2

    kernel.run(work())


@pytest.mark.parametrize("ends", [False, True])
def test_a_topic_that_another_process_made_is_played_within_seconds(ends: bool) -> None:
    """Though the player, which is the older one, asks once a minute which topics there are; and whether or not the sender lives on."""
    kernel = Kernel("young topics", shuffle=False)

    async def work() -> None:
        playing, sending = kernel.process("player"), kernel.process("sender")
        store = MemoryStore(clock=sending.clock)
        async with aio.connect(store=store, runtime=playing.runtime) as player:
            await player.create_topic("others", DELAYED)
            await player.producer("others")
            await asyncio.sleep(75)  # it has just looked
            sender = aio.connect(store=store, runtime=sending.runtime)
            await sender.create_topic("orders", DELAYED)
            producer = await sender.producer("orders")
            await producer.send(Message(b"soon", delay=timedelta(seconds=1)))
            began_s = kernel.loop.now
            if ends:
                await sender.close()
            assert await _come(player, 1) == [b"soon"]
            assert kernel.loop.now - began_s < 1 + LEASE_S / BEATS_PER_LEASE + 1
            await sender.close()

    kernel.run(work())


@pytest.mark.parametrize("others", [False, True], ids=["the first timers of the lake", "beside others"])
def test_who_sends_and_takes_no_part_lets_go_the_first_messages_until_the_players_know(others: bool) -> None:
    """As a gateway beside a `maintain` does."""
    kernel = Kernel("standing in", shuffle=False)

    async def work() -> None:
        playing, sending = kernel.process("player"), kernel.process("sender")
        store = MemoryStore(clock=sending.clock)
        async with (
            aio.connect(store=store, runtime=playing.runtime) as player,
            aio.connect(store=store, runtime=sending.runtime, maintenance=False) as sender,
        ):
            await player.create_topic("others", DELAYED if others else TopicSettings())
            await player.producer("others")
            await asyncio.sleep(75)  # it has just looked
            await sender.create_topic("orders", DELAYED)
            producer = await sender.producer("orders")
            began_s = kernel.loop.now
            for number, delay_s in enumerate((0.2, 5, YOUNG_S - 1, YOUNG_S, YOUNG_S + 1), start=1):
                await producer.send(Message(b"%d" % number, delay=timedelta(seconds=delay_s)))
            for number, delay_s in enumerate((0.2, 5, YOUNG_S - 1, YOUNG_S, YOUNG_S + 1), start=1):
                assert len(await _come(player, number)) == number
                assert kernel.loop.now - began_s < delay_s + 1
            (member,) = (await Players(player.coordination.cells, player.runtime).get(TIMERS)).members
            assert member.startswith(player.coordination.worker.id)

    kernel.run(work())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what crashed is closed where it stood
def test_who_stood_in_and_died_is_replaced() -> None:
    kernel = Kernel("standing in and dying", shuffle=False)

    async def work() -> None:
        playing, sending = kernel.process("player"), kernel.process("sender")
        store = MemoryStore(clock=playing.clock)

        async def begin() -> None:
            sender = aio.connect(store=store, runtime=sending.runtime, maintenance=False)
            await sender.create_topic("orders", DELAYED)
            producer = await sender.producer("orders")
            for body, delay_s in ((b"first", 1), (b"later", 4)):
                await producer.send(Message(body, delay=timedelta(seconds=delay_s)))
            await _come(sender, 1, within_s=2)

        async with aio.connect(store=store, runtime=playing.runtime) as player:
            await player.create_topic("others", DELAYED)
            await player.producer("others")
            await asyncio.sleep(20)
            await sending.run(begin())
            sending.crash()
            crashed_s = kernel.loop.now
            assert await _come(player, 2) == [b"first", b"later"]
            assert kernel.loop.now - crashed_s < LEASE_S * (1 + MARGIN) + 4

    kernel.run(work())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what crashed is closed where it stood
def test_who_sends_replaces_the_only_player_of_a_topic_that_has_died() -> None:
    kernel = Kernel("standing in for the dead", shuffle=False)

    async def work() -> None:
        playing, sending = kernel.process("player"), kernel.process("sender")
        store = MemoryStore(clock=sending.clock)

        async def begin() -> None:
            player = aio.connect(store=store, runtime=playing.runtime)
            await player.create_topic("orders", DELAYED)
            producer = await player.producer("orders")
            await producer.send(Message(b"old", delay=timedelta(seconds=1)))
            await _come(player, 1)

        await playing.run(begin())
        playing.crash()
        async with aio.connect(store=store, runtime=sending.runtime, maintenance=False) as sender:
            await sender.delete_topic("orders")
            await sender.create_topic("orders", DELAYED)
            producer = await sender.producer("orders")
            began_s = kernel.loop.now
            await producer.send(Message(b"new", delay=timedelta(seconds=1)))
            assert await _come(sender, 1) == [b"new"]
            assert kernel.loop.now - began_s < LEASE_S * (1 + MARGIN) + 4

    kernel.run(work())


@pytest.mark.parametrize("gap_s", [0, 3])
def test_a_topic_that_was_deleted_and_made_anew_is_played_at_once(gap_s: float) -> None:
    kernel = Kernel("made anew", shuffle=False)

    async def work() -> None:
        process = kernel.process("sender")
        async with aio.connect(store=MemoryStore(clock=process.clock), runtime=process.runtime) as lake:
            for body in (b"old", b"new", b"newest"):
                await lake.create_topic("orders", DELAYED)
                producer = await lake.producer("orders")
                await producer.send(Message(body, delay=timedelta(seconds=1)))
                began_s = kernel.loop.now
                assert await _come(lake, 1) == [body]
                assert kernel.loop.now - began_s < 5
                await producer.close()
                await lake.delete_topic("orders")
                await asyncio.sleep(gap_s)

    kernel.run(work())


def test_who_consumes_lets_go_what_others_send() -> None:
    kernel = Kernel("timers of a consumer", shuffle=False)

    async def work() -> None:
        consuming, sending = kernel.process("consumer"), kernel.process("sender")
        store = MemoryStore(clock=sending.clock)
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def listen(message: MessageView) -> ConsumeResult:
            heard.put_nowait(message.body)
            return ConsumeResult.SUCCESS

        async with aio.connect(store=store, runtime=sending.runtime, maintenance=False) as sender:
            await sender.create_topic("orders", DELAYED)
            producer = await sender.producer("orders")
            await producer.send(Message(b"soon", delay=timedelta(seconds=1)))
        async with (
            aio.connect(store=store, runtime=consuming.runtime) as lake,
            lake.push_consumer("orders", group="shop", listener=listen),
            asyncio.timeout(200),
        ):
            assert await heard.get() == b"soon"

    kernel.run(work())


def test_a_lake_without_timers_asks_nothing_more() -> None:
    kernel = Kernel("no timers", shuffle=False)

    async def work() -> None:
        process = kernel.process("writer")
        store = CountingStore(MemoryStore(clock=process.clock))
        async with aio.connect(store=store, runtime=process.runtime) as lake:
            await lake.create_topic("orders", TopicSettings(queues=2))
            await asyncio.sleep(120)
            assert not [key for key in await store.list("coordination/") if "timers" in key.key]

    kernel.run(work())


def test_who_lets_go_counts_what_waits_and_how_late_it_was() -> None:
    kernel = Kernel("figures", shuffle=False)

    async def work() -> None:
        process = kernel.process("sender")
        async with aio.connect(store=MemoryStore(clock=process.clock), runtime=process.runtime) as lake:
            metrics = MemoryMetrics()
            metrics.watch(lambda: timer_samples(lake.timer_statistics()))
            await lake.create_topic("orders", DELAYED)
            producer = await lake.producer("orders")
            for delay_s in (2, 500, 600):
                await producer.send(Message(b"soon", delay=timedelta(seconds=delay_s)))
            await _come(lake, 1)
            await asyncio.sleep(1)
            assert metrics.value(TIMING_MESSAGES, topic="orders") == 2
            assert 0 <= (metrics.value(TIMERS_LATE, topic="orders") or 0) < 1000

    kernel.run(work())


class Refusing:
    """A coordination in which nobody can take a part: each claim fails with the next of these."""

    def __init__(self, lake: aio.Lake, *errors: PenstockError) -> None:
        self.cells = lake.coordination.cells
        self.errors = list(errors)

    async def claim(self) -> None:
        raise self.errors.pop(0)


def _stand_in_refused(*errors: PenstockError, age_s: float = 0.0) -> tuple[list[str], int]:
    """What is reported while these keep a process from standing in for a topic of this age, and how many are left when it ends."""
    kernel = Kernel("standing in, refused", shuffle=False)
    reported: list[str] = []
    left: list[int] = []

    async def work() -> None:
        process = kernel.process("sender")
        async with aio.connect(store=MemoryStore(clock=process.clock), runtime=process.runtime, maintenance=False) as lake:
            refusing, stop = Refusing(lake, *errors), asyncio.Event()
            made_ms = process.clock.wall_ms() - int(age_s * 1000)
            try:
                await Timers(lake).stand_in(
                    cast("Coordination", refusing), "orders", made_ms, stop, on_error=lambda _, error: reported.append(error.kind)
                )
            except PermissionDenied as error:
                reported.append(f"ended by {error.kind}")
            left.append(len(refusing.errors))

    kernel.run(work())
    return reported, left[0]


def test_who_was_never_allowed_to_stand_in_does_not_try_again() -> None:
    errors = [RetryError("no answer"), AccessLost("expired", operation="put"), PermissionDenied("no right", operation="put")]
    assert _stand_in_refused(*errors, RetryError("no answer")) == (["retry", "access_lost", "ended by permission_denied"], 1)


def test_nobody_stands_in_for_a_topic_that_all_players_know_by_now() -> None:
    errors = [RetryError("no answer")] * 1_000
    assert _stand_in_refused(*errors, age_s=YOUNG_S) == ([], 1_000)
    reported, left = _stand_in_refused(*errors)
    assert 0 < len(reported) == 1_000 - left < 1_000, "it is known meanwhile"


def test_what_could_not_be_told_is_told_again_but_only_as_long_as_it_is_news() -> None:
    kernel = Kernel("news twice", shuffle=False)

    async def work() -> None:
        process = kernel.process("one")
        players = Players(
            Cells(ObjectStoreTable(MemoryStore(clock=process.clock), runtime=process.runtime), process.runtime), process.runtime
        )
        topics, stop = YoungTopics(process.clock), asyncio.Event()
        failures = [RetryError("no answer"), RetryError("no answer")]
        reported: list[PenstockError] = []
        made_ms = process.clock.wall_ms()

        async def ready() -> None:
            if failures:
                raise failures.pop()

        telling_on = asyncio.ensure_future(topics.tell(players, TIMERS, stop, ready=ready, report=reported.append))
        topics.notice("orders", made_ms)
        await asyncio.sleep(11)
        assert len(reported) == 2
        assert young_topics_of(await players.get(TIMERS), process.clock.wall_ms()) == {"orders": made_ms}
        failures += [RetryError("no answer")] * 1_000
        topics.notice("bills", process.clock.wall_ms())
        await asyncio.sleep(YOUNG_S + 10)
        told_of = len(reported)
        await asyncio.sleep(60)
        assert len(reported) == told_of, "it is no news any more"
        stop.set()
        await telling_on

    kernel.run(work())

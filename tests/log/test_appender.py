"""The appender's loop: that it stops when there is nothing to do, and that whatever goes wrong in it reaches whoever sent something."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from penstock.log.append import appender as appender_module
from penstock.log.append.appender import Appender
from penstock.log.append.in_flight import PendingAppend, expose
from penstock.log.errors import ClosedError, InternalError, StorageFull, StoreUnavailable, TopicDeleted, UnknownOutcome
from penstock.log.format.checkpoint import CheckpointWriter
from penstock.log.format.header import CloseJob
from penstock.log.format.state import TopicState
from penstock.log.lake import LogLake
from penstock.log.message.message import Message
from penstock.log.produce.accumulator import ProducerOptions
from penstock.log.produce.producer import Producer
from penstock.log.runtime.backoff import Backoff
from penstock.log.stores import Fault, FaultKind, FaultStore, MemoryStore, ObjectStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.topic.settings import TopicSettings
from penstock.log.topic.topics import open_topic
from tests.lakes import TIMEOUT_S

T = TypeVar("T")
AT_ONCE = ProducerOptions(linger=timedelta(0))


async def opened(store: ObjectStore) -> tuple[LogLake, Producer, Appender]:
    lake = LogLake(store)
    await lake.create_topic("t", TopicSettings(queues=1))
    producer = await lake.producer("t", options=AT_ONCE)
    return lake, producer, (await lake.topic("t", writable=True)).appender


class Interposed(StoreWrapper):
    """Runs what is waiting in ``before_entries`` before the next PUTs of entries, and counts the LISTs of hand-overs."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.before_entries: list[Callable[[], Awaitable[object]]] = []
        self.lists = 0
        self.refused = False
        """Whether those LISTs go unanswered."""

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.verb == "list" and "staged/handed" in call.key:
            self.lists += 1
            if self.refused:
                raise StoreUnavailable("no answer", operation="list", object=call.key)
        if call.verb == "put" and "/log/0" in call.key and self.before_entries:
            await self.before_entries.pop(0)()
        return await run()


@pytest.mark.parametrize("refused", [False, True])
async def test_who_lost_a_race_and_has_nothing_to_append_stops_looking(refused: bool) -> None:
    """It combines for half a second, with a pause before every LIST, whether the LISTs are answered or not."""
    memory = MemoryStore()
    store = Interposed(memory)
    lake, producer, appender = await opened(store)
    rival = LogLake(memory)
    other = await rival.producer("t", options=AT_ONCE)

    async def overtake() -> None:
        await other.send(Message(b"other"))

    async def delete() -> None:
        await rival.delete_topic("t")

    store.before_entries, store.refused = [overtake, delete], refused
    with pytest.raises(TopicDeleted):
        await producer.send(Message(b"mine"))
    assert appender._task is not None
    async with asyncio.timeout(TIMEOUT_S):
        await appender._task
    assert 1 <= store.lists <= 20, "one each 45 ms"
    await lake.close()
    await rival.close()


async def test_ids_of_lost_races_are_not_kept() -> None:
    memory = MemoryStore()
    store = Interposed(memory)
    lake, producer, appender = await opened(store)
    rival = LogLake(memory)
    other = await rival.producer("t", options=AT_ONCE)

    async def overtake() -> None:
        await other.send(Message(b"other"))

    store.before_entries = [overtake]
    await producer.send(Message(b"mine"))
    assert not store.before_entries, "the race was lost"
    assert not appender._own_ids
    await lake.close()
    await rival.close()


async def test_an_unforeseen_error_reaches_the_sender_at_once_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, producer, _ = await opened(MemoryStore())

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr(appender_module, "compose", broken)
    with pytest.raises(InternalError, match=r"please report it.*append.*no such luck") as caught:
        async with asyncio.timeout(TIMEOUT_S):
            await producer.send(Message(b"x"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    monkeypatch.undo()
    fresh = await lake.producer("t")
    assert (await fresh.send(Message(b"y"))).offset == 0, "the next one's appends go on"
    await lake.close()


async def test_an_error_of_the_recovery_itself_reaches_the_sender_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, producer, appender = await opened(MemoryStore())

    async def damaged(_: object) -> None:
        raise StorageFull("nothing goes any more")

    async def unavailable() -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(appender, "_recover", damaged)
    monkeypatch.setattr(appender, "_take_step", unavailable)
    with pytest.raises(StorageFull, match="nothing goes any more"):
        async with asyncio.timeout(TIMEOUT_S):
            await producer.send(Message(b"x"))
    await lake.close()


async def test_a_hand_over_that_the_store_refuses_for_good_was_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left that anybody could link: the reason is told, and not that it is unknown."""
    monkeypatch.setattr(appender_module, "ALONE_INLINE_TIMES", 1)
    full: list[bool] = []
    store = FaultStore(
        MemoryStore(), lambda _, verb, key: Fault(FaultKind.STORAGE_FULL) if full and "staged/handed" in key else None
    )
    lake, producer, _ = await opened(store)
    full.append(True)
    large = pa.table({"body": [number.to_bytes(2, "big") * 500 for number in range(3000)]})
    with pytest.raises(StorageFull):
        async with asyncio.timeout(TIMEOUT_S):
            await producer.send_batch(large)
    await lake.close()


async def test_an_exposure_is_taken_back_as_it_was() -> None:
    loop = asyncio.get_running_loop()
    fresh, known = (PendingAppend(0.0, loop.create_future(), exposed_until=until) for until in (0, 70))
    take_back = expose([fresh, known], 66)
    assert [fresh.exposed_until, known.exposed_until] == [66, 70]
    take_back()
    assert [fresh.exposed_until, known.exposed_until] == [0, 70]


@pytest.mark.parametrize("failing", ["hand over", "follow"])
async def test_what_goes_on_side_by_side_ends_together(failing: str) -> None:
    """A request that was begun is seen to its end; following it is not."""
    ends: list[str] = []

    async def hand_over(_: object) -> None:
        await asyncio.sleep(0)
        ends.append("handed over")
        if failing == "hand over":
            raise StoreUnavailable("no answer")

    async def follow() -> None:
        try:
            if failing == "follow":
                raise StoreUnavailable("no answer")
            await asyncio.Event().wait()
        finally:
            ends.append("followed")

    me: Any = SimpleNamespace(_hand_over=hand_over, _follow=follow)
    with pytest.raises(StoreUnavailable):
        await Appender._hand_over_and_follow(me, [])
    assert sorted(ends) == ["followed", "handed over"]


async def test_nothing_is_taken_over_by_an_appender_that_is_closed() -> None:
    store = MemoryStore()
    lake, _, _ = await opened(store)
    topic = await open_topic(store, lake.runtime, "t", writable=True)
    await topic.close()
    async with asyncio.timeout(TIMEOUT_S):
        outcome = await topic.appender.append_actions([CloseJob("j")], deadline_s=lake.runtime.clock.monotonic_s() + 3600)
    assert isinstance(outcome, ClosedError)
    assert "closed before the send was tried" in str(outcome)
    await lake.close()


def test_pauses_double_up_to_a_second() -> None:
    backoff = Backoff(0.3)
    assert [backoff.next_s() for _ in range(4)] == [0.3, 0.6, 1.0, 1.0]


@pytest.mark.parametrize("kind", [FaultKind.STORAGE_FULL, FaultKind.PERMISSION, FaultKind.FAIL_BEFORE])
async def test_a_checkpoint_that_cannot_be_written_is_left_to_the_next(kind: FaultKind) -> None:
    memory, refusing = MemoryStore(), [True]
    store = FaultStore(memory, lambda *_: Fault(kind) if refusing else None)
    lake, _, appender = await opened(memory)
    writer, state = CheckpointWriter(store, appender._paths), TopicState(entry=64)
    await writer.write(state)
    refusing.clear()
    assert not await memory.list(appender._paths.checkpoints)
    await writer.write(state)
    assert await memory.list(appender._paths.checkpoints)
    await lake.close()


async def test_a_name_whose_openings_all_end_unknown_is_not_said_to_be_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, _, appender = await opened(MemoryStore())

    async def unknown(*_: object, **__: object) -> UnknownOutcome:
        return UnknownOutcome("the send may still get into the log")

    monkeypatch.setattr(appender, "append_opening", unknown)
    with pytest.raises(UnknownOutcome, match=r"could not be opened.*loader.*may still get into the log"):
        await lake.producer("t", name="loader")
    await lake.close()

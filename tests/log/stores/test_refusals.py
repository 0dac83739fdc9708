"""What a store refuses now and allowed before is a passing fault for a while. What it never allowed is refused at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from datetime import timedelta

import pytest

from penstock.coordinator.coordination import Coordination
from penstock.coordinator.tables.objectstore import ObjectStoreTable
from penstock.log.errors import AccessLost, AccessRefused, PermissionDenied, StoreUnavailable
from penstock.log.lake import LogLake
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import MemoryStore, ObjectMissing, Put, refusals
from penstock.log.stores.refusals import Refusals, TolerantStore, likely_cause
from tests.lakes import Refusing
from tests.log.topics import HandClock

ENTRY, OTHER_ENTRY, TABLE = "topics/orders/log/1", "topics/orders/log/2", "topics/orders/table-1/a.parquet"


class Scene:
    def __init__(self, timeout: timedelta = timedelta(minutes=5)) -> None:
        self.clock = HandClock()
        self.refusing = Refusing(MemoryStore())
        self.store = TolerantStore(self.refusing, Refusals("memory://", self.clock, timeout))

    async def put(self, key: str) -> None:
        await self.store.put(key, b"x", mode=Put.REPLACE)

    async def raised(self, call: Awaitable[object]) -> type[Exception]:
        with pytest.raises((PermissionDenied, AccessRefused)) as raised:
            await call
        return raised.type


def test_what_was_never_allowed_is_refused_at_once() -> None:
    async def script(scene: Scene) -> None:
        scene.refusing.refuses = lambda call: call.is_write
        assert await scene.raised(scene.put(ENTRY)) is PermissionDenied
        with pytest.raises(ObjectMissing):
            await scene.store.get(ENTRY)
        scene.refusing.refuses = lambda call: "/table" in call.key
        await scene.put(ENTRY)
        assert await scene.raised(scene.put(TABLE)) is PermissionDenied, "the same verb elsewhere"
        assert scene.store.refusals.refusing_s == 0

    asyncio.run(script(Scene()))


def test_what_was_allowed_before_is_refused_for_a_while_and_then_lost(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def script(scene: Scene) -> None:
        await scene.put(ENTRY)
        scene.refusing.refuses = lambda call: call.is_write
        for minutes in (0, 2, 2.5):
            scene.clock.advance(seconds=60 * minutes)
            with pytest.raises(AccessRefused, match="Check what they may do there") as raised:
                await scene.put(OTHER_ENTRY)
            assert isinstance(raised.value, StoreUnavailable), "background work tries again"
        assert await scene.raised(scene.put(TABLE)) is AccessRefused, "it may be the same refusal"
        assert scene.store.refusals.refusing_s == 270
        scene.clock.advance(seconds=31)
        for key in (ENTRY, TABLE):
            with pytest.raises(AccessLost, match="what was allowed before; observed: refused for 301 s") as lost:
                await scene.put(key)
            assert isinstance(lost.value, PermissionDenied)
        assert len(caplog.messages) == 1
        assert "refuses what it allowed before, which is tried again for 300 s" in caplog.text

    asyncio.run(script(Scene()))


def test_the_hint_names_the_likely_cause() -> None:
    def hint(observed: str) -> str:
        return likely_cause(PermissionDenied("refused", operation="put", observed=observed, hint="Check it"))

    assert hint("ExpiredToken: The security token has expired") == "The credentials have expired: renew them. Check it"
    assert (
        hint("AccessDenied") == "A policy, role or mode was changed, or credentials expired: put it back, or renew them. Check it"
    )


def test_what_is_allowed_again_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def script(scene: Scene) -> None:
        await scene.put(ENTRY)
        with pytest.raises(ObjectMissing):  # that is an answer
            await scene.store.get(OTHER_ENTRY)
        for _ in range(2):
            scene.refusing.refuses = lambda _: True
            assert await scene.raised(scene.store.get(ENTRY)) is AccessRefused
            assert await scene.raised(scene.put(ENTRY)) is AccessRefused
            scene.clock.advance(seconds=299)
            scene.refusing.refuses = lambda call: call.verb == "get"
            await scene.put(ENTRY)
            assert scene.store.refusals.refusing_s == 299, "of reading"
            scene.refusing.refuses = lambda _: False
            await scene.store.get(ENTRY)
            assert scene.store.refusals.refusing_s == 0
        assert [message.partition("memory:// ")[2][:6] for message in caplog.messages] == ["refuse", "allows"] * 2

    asyncio.run(script(Scene()))


def test_what_is_allowed_beside_it_tells_nothing_of_what_never_was() -> None:
    """A policy names groups and kinds of objects, which share a folder with others that it does not name."""

    async def script(scene: Scene) -> None:
        scene.refusing.refuses = lambda call: call.key.endswith(("/other", "/floor"))
        for allowed, never in (
            ("coordination/groups/billing", "coordination/groups/other"),
            ("topics/orders/log/00000000000000000001.parquet", "topics/orders/log/floor"),
        ):
            await scene.put(allowed)
            assert await scene.raised(scene.put(never)) is PermissionDenied
        assert scene.store.refusals.refusing_s == 0

    asyncio.run(script(Scene()))


def test_what_never_was_allowed_may_be_part_of_the_oldest_refusal_of_its_verb() -> None:
    async def script(scene: Scene) -> None:
        for key in (ENTRY, "x/one"):
            await scene.put(key)
        await scene.store.get(ENTRY)
        scene.refusing.refuses = lambda _: True
        assert await scene.raised(scene.store.get(ENTRY)) is AccessRefused
        assert await scene.raised(scene.put(TABLE)) is PermissionDenied, "nothing says that writing was ever refused before"
        assert await scene.raised(scene.put(ENTRY)) is AccessRefused
        scene.clock.advance(seconds=200)
        for key in (ENTRY, "x/one"):
            assert await scene.raised(scene.put(key)) is AccessRefused
        scene.clock.advance(seconds=101)
        assert await scene.raised(scene.put(TABLE)) is AccessLost

    asyncio.run(script(Scene()))


def test_a_store_is_forgiven_once() -> None:
    """Two would tell of each refusal twice, and try again for twice the time."""
    runtime, store = Runtime(), Scene().store
    lake = LogLake(store, runtime=runtime)
    assert lake.store is store
    assert lake.refusals is store.refusals
    cells = ObjectStoreTable(store, runtime=runtime)
    assert Coordination(cells, runtime).table is cells


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("topics/orders/log/00000000000000000001.parquet", "topics/orders/log/00000000000000000002.parquet"),
        ("coordination/queues/billing/orders/3", "coordination/queues/billing/orders/12"),
        ("coordination/workers/f81f3c682eacebe9caea4278b0529500", "coordination/workers/0763d44672586aba5fd35ce571d0d4ef"),
        ("t/part-2f6c1b7e-8d1f-4c58.parquet", "t/part-99a01b7e-1111-4c58.parquet"),
    ],
)
def test_numbers_and_drawn_ids_are_of_one_right(before: str, now: str) -> None:
    async def script(scene: Scene) -> None:
        await scene.put(before)
        scene.refusing.refuses = lambda _: True
        assert await scene.raised(scene.put(now)) is AccessRefused

    asyncio.run(script(Scene()))


def test_a_refusal_that_nobody_met_again_is_over() -> None:
    """Who met it may have gone, and a refusal an hour later is of another occasion."""

    async def script(scene: Scene) -> None:
        await scene.put(ENTRY)
        for _ in range(2):
            scene.refusing.refuses = lambda _: True
            assert await scene.raised(scene.put(ENTRY)) is AccessRefused
            scene.refusing.refuses = lambda _: False
            scene.clock.advance(seconds=3600)
            assert scene.store.refusals.refusing_s == 0
        scene.refusing.refuses = lambda _: True
        assert await scene.raised(scene.put(TABLE)) is PermissionDenied, "no refusal is under way that it may be part of"

    asyncio.run(script(Scene()))


def test_the_rights_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_RIGHTS_MAX", 2)

    async def script(scene: Scene) -> None:
        for name in ("one", "two", "three"):
            await scene.put(f"x/{name}")
        scene.refusing.refuses = lambda _: True
        kinds = [await scene.raised(scene.put(f"x/{name}")) for name in ("one", "two", "three")]
        assert kinds == [PermissionDenied, AccessRefused, AccessRefused]

    asyncio.run(script(Scene()))


def test_without_patience_what_was_allowed_is_lost_at_once() -> None:
    async def script(scene: Scene) -> None:
        await scene.put(ENTRY)
        scene.refusing.refuses = lambda _: True
        assert await scene.raised(scene.put(ENTRY)) is AccessLost

    asyncio.run(script(Scene(timedelta(0))))

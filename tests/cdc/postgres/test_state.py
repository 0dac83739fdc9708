"""The object beside a topic that says how far a capture's snapshot is. Without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from penstock.cdc.postgres.state import CapturedTable, Chunk, PostgresState, PostgresStateStore
from penstock.log.errors import DataDamaged, FencedError, StoreUnavailable
from penstock.log.stores import MemoryStore
from penstock.log.stores.protocol import Conflict, IfMatch, Put, PutMode, StoredObject, Version

A = CapturedTable("public", "a", 7, 8, ((9, 10, 3), (11, 12, 4)), 13, is_read=True)
B = CapturedTable("public", "b", 14, 15, is_told=True)
GONE = CapturedTable("public", "gone", 16, held="the table was dropped")
STATE = PostgresState("life", "system", "db", "publication", (A, B, GONE), True, Chunk("public.b", None, ("1", "2"), 5, 9, 14))


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        return await work()

    return asyncio.run(whole())


def states(store: Any) -> PostgresStateStore:
    return PostgresStateStore(store, run, topic="changes", slot="slot")


def test_who_has_read_it_writes_it_next() -> None:
    store = MemoryStore()
    first, second = states(store), states(store)
    assert first.load() is None
    first.save(STATE)
    assert second.load() == STATE
    second.save(PostgresState("life", "system", "db", "publication"))
    with pytest.raises(FencedError, match="another capture of this name runs"):
        first.save(STATE)
    assert first.load() == PostgresState("life", "system", "db", "publication")
    first.save(STATE)
    with pytest.raises(FencedError):
        states(store).save(PostgresState("other", "system", "db", "publication"))


class Tagged(MemoryStore):
    """Gives equal bytes the same version, as many stores do. The ``late`` write arrives when the next one is about to."""

    late: tuple[str, bytes, PutMode] | None = None

    async def put(self, key: str, data: Any, *, mode: PutMode) -> Version:
        if self.late is not None:
            (of, earlier, when), self.late = self.late, None
            await self.put(of, earlier, mode=when)
        if isinstance(mode, IfMatch):
            if (await self.get(key)).version != mode.version:
                raise Conflict("another stands there", operation="put", object=key)
            mode = Put.REPLACE
        await super().put(key, data, mode=mode)
        return (await self.get(key)).version

    async def get(self, key: str) -> StoredObject:
        found = await super().get(key)
        return StoredObject(found.data, Version(sha256(found.data).hexdigest()), found.last_modified_ms)


class Late(PostgresStateStore):
    """Gets no answer, and its writes have not arrived when it ends."""

    def save_late(self, state: PostgresState, store: Tagged) -> tuple[str, bytes, PutMode]:
        taken: list[tuple[str, bytes, PutMode]] = []

        class Silent:
            async def put(self, key: str, data: bytes, *, mode: PutMode) -> Version:
                taken.append((key, data, mode))
                raise StoreUnavailable("no answer", operation="put", object=key)

        self._store = Silent()  # type: ignore[assignment]
        with pytest.raises(StoreUnavailable):
            self.save(state)
        self._store = store
        return taken[0]


def late(store: Tagged) -> tuple[str, bytes, PutMode]:
    """What a process of before was about to write: a chunk that it never sent."""
    earlier = Late(store, run, topic="changes", slot="slot")
    earlier.save(replace(STATE, chunk=None))
    return earlier.save_late(STATE, store)


def test_a_write_of_an_earlier_process_never_fits_once_the_next_one_has_begun() -> None:
    """It would name a chunk that is not there, and seem to be right as soon as the stream's events have its sequences."""
    store = Tagged()
    key, data, mode = late(store)
    now = states(store)
    state = now.load()
    assert state is not None
    now.save(state)
    with pytest.raises(Conflict):
        run(lambda: store.put(key, data, mode=mode))
    assert states(store).load() == replace(STATE, chunk=None)


def test_a_write_of_an_earlier_process_that_arrives_as_the_next_one_begins_is_gone_on_from() -> None:
    store = Tagged()
    store.late = late(store)
    now = states(store)
    assert now.take_over() == STATE, "it is judged by what the producer's name has, before anything else is sent"
    now.save(STATE.settled(-1))
    assert states(store).load() == replace(STATE, chunk=None)
    assert states(Tagged()).take_over() is None


def test_another_capture_that_writes_all_the_time_is_told() -> None:
    store = Tagged()
    other = states(store)
    other.save(STATE)

    class Restless(Tagged):
        async def put(self, key: str, data: Any, *, mode: PutMode) -> Version:
            await store.put(key, json.dumps(json.loads(data) | {"done": ["public.z"]}).encode(), mode=Put.REPLACE)
            return await store.put(key, data, mode=mode)

        async def get(self, key: str) -> StoredObject:
            return await store.get(key)

    with pytest.raises(FencedError, match="another capture of this name"):
        states(Restless()).take_over()


def test_no_two_writes_have_the_same_bytes() -> None:
    """Stores would give them the same version."""
    store, written = MemoryStore(), set[bytes]()
    one = states(store)
    for state in (STATE, replace(STATE, chunk=None), STATE):
        one.save(state)
        written.add(run(lambda: store.get(one.key)).data)
    assert len(written) == 3


def test_a_state_that_is_gone_is_made_again() -> None:
    store = MemoryStore()
    one = states(store)
    one.save(STATE)
    run(lambda: store.delete(one.key))
    with pytest.raises(Conflict):
        one.save(STATE)
    assert one.load() is None
    one.save(STATE)
    assert states(store).load() == STATE


def test_a_write_whose_answer_was_lost_is_ours() -> None:
    store = MemoryStore()
    one = states(store)

    class Lossy:
        async def put(self, key: str, data: bytes, *, mode: Any) -> Any:
            await store.put(key, data, mode=mode)
            raise Conflict(key)

        async def get(self, key: str) -> Any:
            return await store.get(key)

    one._store = Lossy()  # type: ignore[assignment]
    one.save(STATE)
    one._store = store
    one.save(PostgresState("life", "system", "db", "publication"))


@pytest.mark.parametrize(("state", "begun"), [(STATE, True), (PostgresState("l", "s", "d", "p"), False)])
def test_a_snapshot_has_begun_once_a_chunk_is_planned_or_a_table_done(state: PostgresState, begun: bool) -> None:
    assert state.has_begun is begun


@pytest.mark.parametrize(
    ("chunk", "last_sequence", "after"),
    [
        (Chunk("public.a", ("2",), ("4",), 11, 12), 12, Chunk("public.a", ("2",), ("4",), 11, 12)),
        (Chunk("public.a", ("2",), ("4",), 11, 12), 10, Chunk("public.a", ("2",), ("2",), 10, 10)),
        (Chunk("public.a", None, ("2",), 1, 2), -1, None),
        (Chunk("public.a", None, None, 1, 1), -1, None),
        (None, 7, None),
    ],
)
def test_a_chunk_that_is_not_there_is_planned_anew(chunk: Chunk | None, last_sequence: int, after: Chunk | None) -> None:
    settled = replace(STATE, chunk=chunk).settled(last_sequence)
    assert settled == replace(STATE, chunk=after)
    assert settled.settled(last_sequence + 100) == settled, "what comes behind it says nothing of the chunk"


def test_what_is_no_state_is_damage() -> None:
    store = MemoryStore()
    one = states(store)
    run(lambda: store.put(one.key, b'{"format": 1}', mode=Put.CREATE))
    with pytest.raises(DataDamaged, match="the state of a capture"):
        one.load()


def test_what_an_earlier_release_kept_has_names_only() -> None:
    old = (
        b'{"format":1,"life":"life","system":"system","database":"db","publication":"publication","done":["public.a","a.b.c"],"renewing":false,'
        b'"chunk":{"table":"public.b","after":null,"last":["1"],"start":1,"end":2}}'
    )
    state = PostgresStateStore.parse(old, "key")
    assert state.tables == tuple(CapturedTable("", name, is_read=True, is_told=True) for name in ("public.a", "a.b.c"))
    assert state.done == ("public.a", "a.b.c")
    assert state.chunk == Chunk("public.b", None, ("1",), 1, 2)
    planned = state.planned([CapturedTable("public", "b", 14, 15), A], stopping=())
    assert planned.chunk == Chunk("public.b", None, ("1",), 1, 2, 14)
    assert state.planned([A], stopping=()).chunk is None
    both = [CapturedTable("a.b", "c", 14, 15), CapturedTable("a", "b.c", 16, 17)]
    ambiguous = replace(state, chunk=Chunk("a.b.c", None, ("1",), 1, 2)).planned(both, stopping=())
    assert ambiguous.chunk is None
    assert ambiguous.tables == tuple(replace(table, is_told=True) for table in both), "the topic may have its rows"


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        (B, True),
        (replace(B, is_read=True), False),
        (replace(B, oid=20), False),
        (replace(B, leaves=((1, 2, 3),)), False),
        (replace(B, held="it has no key"), False),
    ],
)
def test_a_chunk_is_of_the_table_that_it_was_read_from(now: CapturedTable, kept: bool) -> None:
    planned = STATE.planned([A, now], stopping=())
    assert (planned.chunk == STATE.chunk) is kept
    assert planned.tables == (A, now)


def test_a_chunk_is_of_no_other_table_and_of_none_that_is_read() -> None:
    other = replace(B, name="c", oid=30)
    state = replace(STATE, tables=(A, B, other))
    assert state.planned([A, replace(B, oid=20), other], stopping=()).chunk is None
    read = replace(B, is_read=True)
    assert replace(STATE, tables=(A, read)).planned([A, read], stopping=()).chunk is None


def test_a_table_that_stops_is_as_it_was_until_that_is_told() -> None:
    stopping = replace(A, is_read=False, held="it was dropped")
    assert STATE.planned([stopping, B], stopping={("public", "a")}).tables == (A, B)

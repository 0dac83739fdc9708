"""The object beside a topic that says how far a capture's snapshot is. Without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.cdc.postgres.state import CaptureState, Chunk, StateStore
from penstock.log.errors import DataDamaged, FencedError
from penstock.log.stores import MemoryStore
from penstock.log.stores.protocol import Conflict, Put

STATE = CaptureState("life", "system", "db", "publication", ("public.a",), True, Chunk("public.b", None, ("1", "2"), 5, 9))


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        return await work()

    return asyncio.run(whole())


def states(store: Any) -> StateStore:
    return StateStore(store, run, topic="changes", slot="slot")


def test_who_has_read_it_writes_it_next() -> None:
    store = MemoryStore()
    first, second = states(store), states(store)
    assert first.load() is None
    first.save(STATE)
    assert second.load() == STATE
    second.save(CaptureState("life", "system", "db", "publication"))
    with pytest.raises(FencedError, match="another capture of this slot runs"):
        first.save(STATE)
    assert first.load() == CaptureState("life", "system", "db", "publication")
    first.save(STATE)
    with pytest.raises(FencedError):
        states(store).save(CaptureState("other", "system", "db", "publication"))


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
    one.save(CaptureState("life", "system", "db", "publication"))


@pytest.mark.parametrize(("state", "begun"), [(STATE, True), (CaptureState("l", "s", "d", "p"), False)])
def test_a_snapshot_has_begun_once_a_chunk_is_planned_or_a_table_done(state: CaptureState, begun: bool) -> None:
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

"""Handed-over objects: their names say all, within a path part; what says nothing legible hands nothing over."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log import LOG_SCHEMA
from penstock.log.format.handover import HandOver, HandOverObject, prepare, read_handed
from penstock.log.format.header import Batch, Opening
from penstock.log.format.sealed import read_rows
from penstock.log.limits import PATH_PART_BYTES_MAX, VALIDITY_ENTRIES
from penstock.log.paths import TopicPaths
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import ObjectInfo, Put
from tests.log.strategies import batches, hex_ids, names, rows_of, sequences
from tests.thorough import examples

PATHS = TopicPaths.of("orders")
TAIL = 41


def plain(**fixed: Any) -> st.SearchStrategy[Batch]:
    small = st.dictionaries(st.integers(0, 99), st.integers(1, 3), min_size=1, max_size=4)
    return small.flatmap(
        lambda rows: batches(rows=rows, parts=(), job=None, valid_until=TAIL + VALIDITY_ENTRIES, **fixed).map(
            lambda batch: replace(batch, last=batch.previous + sum(rows.values()))
        )
    )


openings = st.builds(Opening, names, hex_ids, st.integers(0, 99), st.just(TAIL + VALIDITY_ENTRIES), sequences)


def written(over: HandOverObject) -> tuple[MemoryStore, HandOver | None]:
    async def run() -> tuple[MemoryStore, HandOver | None]:
        store = MemoryStore()
        await store.put(over.handed.key, over.data, mode=Put.CREATE)
        (info,) = await store.list(PATHS.handed)
        return store, await read_handed(store, PATHS, info)

    return asyncio.run(run())


@settings(max_examples=examples(100), deadline=None)
@given(hex_ids, st.lists(openings, max_size=2), st.lists(plain(), max_size=3))
def test_what_is_handed_over_is_what_a_listing_tells(write_id: str, opens: list[Opening], sends: list[Batch]) -> None:
    tables = [rows_of(dict(batch.rows), f"b{n}") for n, batch in enumerate(sends)]
    over = prepare(PATHS, tail=TAIL, write_id=write_id, openings=opens, batches=list(zip(sends, tables, strict=True)))
    store, handed = written(over)
    assert handed == over.handed
    assert handed is not None
    assert [replace(batch, parts=()) for batch in handed.batches] == sends
    assert len(over.handed.key.rpartition("/")[2]) <= PATH_PART_BYTES_MAX
    for batch, table in zip(handed.batches, tables, strict=True):
        (part,) = batch.parts
        data = asyncio.run(store.get(PATHS.root + part.key)).data
        assert read_rows(data, where="h", schema=LOG_SCHEMA).slice(part.first_row, batch.row_count).equals(table)


def test_an_ordinary_hand_over_needs_no_read() -> None:
    class NoReads(MemoryStore):
        async def get(self, key: str) -> Any:
            raise AssertionError("read")

    batch = Batch("f" * 32, False, None, 10**6, 10**6 + 3, 1, {1: 2, 5: 1}, TAIL + VALIDITY_ENTRIES)
    over = prepare(PATHS, tail=TAIL, write_id="a" * 32, openings=[], batches=[(batch, rows_of({1: 2, 5: 1}))])
    info = ObjectInfo(over.handed.key, len(over.data), 0)
    assert asyncio.run(read_handed(NoReads(), PATHS, info)) == over.handed


def test_a_header_too_long_for_a_name_stands_in_the_body() -> None:
    batch = Batch("p", False, None, -1, 199, 1, dict.fromkeys(range(200), 1), TAIL + VALIDITY_ENTRIES)
    over = prepare(PATHS, tail=TAIL, write_id="a" * 32, openings=[], batches=[(batch, rows_of(dict(batch.rows)))])
    assert "/long-" in over.handed.key
    assert written(over)[1] == over.handed


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="/"), min_size=1, max_size=200).filter(
        lambda name: name not in {".", ".."}
    )  # no key is called so
)
def test_foreign_names_hand_nothing_over(name: str) -> None:
    info = ObjectInfo(PATHS.handed_object(TAIL, name), 5, 0)
    store = MemoryStore()
    asyncio.run(store.put(info.key, b"bytes", mode=Put.CREATE))
    assert asyncio.run(read_handed(store, PATHS, info)) is None


@pytest.mark.parametrize("place", [0, 10, -5])
def test_a_damaged_body_hands_nothing_over(place: int) -> None:
    batch = Batch("p", False, None, -1, 199, 1, dict.fromkeys(range(200), 1), TAIL + VALIDITY_ENTRIES)
    over = prepare(PATHS, tail=TAIL, write_id="a" * 32, openings=[], batches=[(batch, rows_of(dict(batch.rows)))])
    data = bytearray(over.data)
    data[place] ^= 1
    assert written(replace(over, data=bytes(data)))[1] is None


def test_two_hand_overs_of_the_same_have_names_of_their_own() -> None:
    batch = Batch("p", False, None, -1, 0, 1, {0: 1}, TAIL + VALIDITY_ENTRIES)
    keys = {
        prepare(PATHS, tail=TAIL, write_id=letter * 32, openings=[], batches=[(batch, rows_of({0: 1}))]).handed.key
        for letter in "abc"
    }
    assert len(keys) == 3

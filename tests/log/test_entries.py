"""Entries: rows come back queue by queue, batch by batch, at the offsets that the fold gives them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.errors import InternalError
from penstock.log.format.digest import digest
from penstock.log.format.entry import encode_entry, encode_rows, read_header
from penstock.log.format.fold import FoldedEntry, fold
from penstock.log.format.header import Part
from penstock.log.format.state import TopicState
from penstock.log.limits import NAME_CHARS_MAX
from penstock.log.message.message import LOG_SCHEMA
from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import Put
from penstock.log.tail import entry_rows as rows_module
from penstock.log.tail.entry_rows import EntryRows, decode_entry, decode_together, entry_pieces
from tests.log.strategies import rows_of
from tests.log.test_fold import batch, header_on, topic
from tests.log.topics import LogWriter
from tests.rows import entry_rows
from tests.thorough import examples

PATHS = TopicPaths.of("orders")


def read(store: MemoryStore, state: TopicState, data: bytes) -> EntryRows:
    folded = fold(state, read_header(data, where="e"))
    return asyncio.run(entry_rows(store, PATHS, folded, data))


def bodies(found: EntryRows) -> dict[tuple[int, int], str]:
    columns = (found.table[name].to_pylist() for name in ("queue", "offset", "body"))
    return {(queue, offset): body.decode() for queue, offset, body in zip(*columns, strict=True)}


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 4), min_size=1), min_size=1, max_size=4))
def test_rows_of_inline_batches_have_the_offsets_of_their_verdicts(rows: list[dict[int, int]]) -> None:
    state = topic(4)
    batches = [batch(f"p{n}", rows=dict(sorted(one.items()))) for n, one in enumerate(rows)]
    inline = {n: rows_of(one, f"p{n}") for n, one in enumerate(rows)}
    found = read(MemoryStore(), state, encode_entry(header_on(state, batches=batches), inline))
    expected: dict[tuple[int, int], str] = {}
    ends = dict.fromkeys(range(4), 0)
    for n, table in inline.items():
        for queue, body in zip(table["queue"].to_pylist(), table["body"].to_pylist(), strict=True):
            expected[queue, ends[queue]] = body.decode()
            ends[queue] += 1
        assert body.startswith(f"p{n}/".encode())
    assert bodies(found) == expected
    assert not found.lost


def several(*inline: dict[str, pa.Table]) -> list[tuple[FoldedEntry, bytes]]:
    """Entries one after the other, each of such batches by producer."""
    state, found = topic(4), []
    for tables in inline:
        counts = [Counter(table["queue"].to_pylist()) for table in tables.values()]
        batches = [batch(name, rows=dict(sorted(rows.items()))) for name, rows in zip(tables, counts, strict=True)]
        data = encode_entry(header_on(state, batches=batches), dict(enumerate(tables.values())))
        found.append((fold(state, read_header(data, where="e")), data))
        state = found[-1][0].state
    return found


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(
        st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 4), min_size=1), min_size=1, max_size=3), min_size=1, max_size=4
    ),
    st.sets(st.integers(0, 3), min_size=1),
)
def test_entries_decoded_together_have_the_rows_of_each(entries: list[list[dict[int, int]]], queues: set[int]) -> None:
    names = iter(range(100))
    stored = several(*({(name := f"p{next(names)}"): rows_of(rows, name) for rows in one} for one in entries))
    wanted = [
        (folded, data, queues) for folded, data in stored if any(queues & batch.rows.keys() for batch in folded.header.batches)
    ]
    if wanted:
        each = [decode_entry(PATHS, folded, data, {}, queues=queues).table for folded, data, _ in wanted]
        found = decode_together(PATHS, wanted)
        assert found is not None
        assert found.combine_chunks().equals(pa.concat_tables(each).combine_chunks())


def test_an_entry_of_which_more_is_to_be_said_is_not_decoded_with_others() -> None:
    good, with_key, without_id = rows_of({0: 1}, "a"), rows_of({0: 1}, "b"), rows_of({0: 1}, "c")
    with_key = with_key.set_column(with_key.schema.get_field_index("key"), LOG_SCHEMA.field("key"), pa.array([b"k"]))
    without_id = without_id.set_column(
        without_id.schema.get_field_index("message_id"), LOG_SCHEMA.field("message_id"), pa.array([None], pa.string())
    )
    assert decode_together(PATHS, [(*one, {0}) for one in several({"a": good}, {"d": rows_of({0: 1}, "d")})]) is not None
    for other in (with_key, without_id):
        assert decode_together(PATHS, [(*one, {0}) for one in several({"a": good}, {"b": other})]) is None
    store = MemoryStore()
    state, data = linked(store)
    folded = fold(state, read_header(data, where="e"))
    assert decode_together(PATHS, [(folded, data, {0, 1, 2, 3})]) is None
    cut = several({"a": good})[0]
    assert decode_together(PATHS, [(cut[0], cut[1][:-40], {0})]) is None


def test_rows_of_a_void_batch_are_skipped() -> None:
    state = topic()
    header = header_on(state, batches=[batch("a", rows={0: 2}, generation=9), batch("b", rows={0: 1, 1: 1})])
    found = read(MemoryStore(), state, encode_entry(header, {0: rows_of({0: 2}, "a"), 1: rows_of({0: 1, 1: 1}, "b")}))
    assert bodies(found) == {(0, 0): "b/0/0", (1, 0): "b/1/1"}


def linked(store: MemoryStore) -> tuple[TopicState, bytes]:
    """An entry that links a staged batch of two parts, between two inline ones."""
    pieces = [rows_of({0: 1, 1: 2}, "s"), rows_of({1: 1}, "t")]
    parts = []
    for number, piece in enumerate(pieces):
        data, key = encode_rows([piece]), f"staged/jobs/j/{number}.parquet"
        asyncio.run(store.put(PATHS.root + key, data, mode=Put.CREATE))
        rows = {pair["values"]: pair["counts"] for pair in piece["queue"].value_counts().to_pylist()}
        parts.append(Part(key, 0, rows, len(data), digest(data)))
    state = topic()
    staged = batch("s", rows={0: 1, 1: 3}, parts=tuple(parts), job="j")
    header = header_on(state, batches=[batch("a", rows={1: 1}), staged, batch("b", rows={0: 1})])
    return state, encode_entry(header, {0: rows_of({1: 1}, "a"), 2: rows_of({0: 1}, "b")})


def test_linked_rows_stand_between_inline_ones() -> None:
    store = MemoryStore()
    state, data = linked(store)
    assert bodies(read(store, state, data)) == {
        (0, 0): "s/0/0", (0, 1): "b/0/0", (1, 0): "a/1/0", (1, 1): "s/1/1", (1, 2): "s/1/2", (1, 3): "t/1/0",
    }  # fmt: skip


@pytest.mark.parametrize("damage", [None, b"", b"other bytes"])
def test_a_linked_object_that_is_missing_or_damaged_costs_its_own_rows_only(damage: bytes | None) -> None:
    store = MemoryStore()
    state, data = linked(store)
    key = PATHS.root + "staged/jobs/j/0.parquet"
    asyncio.run(store.delete(key) if damage is None else store.put(key, damage, mode=Put.REPLACE))
    found = read(store, state, data)
    assert bodies(found) == {(0, 1): "b/0/0", (1, 0): "a/1/0", (1, 3): "t/1/0"}
    assert [(lost.queue, lost.first_offset, lost.limit_offset, lost.object) for lost in found.lost] == [
        (0, 0, 1, key),
        (1, 1, 3, key),
    ]


def test_inline_rows_must_be_those_of_the_header() -> None:
    with pytest.raises(InternalError):
        encode_entry(header_on(topic(), batches=[batch()]), {})


def test_an_entry_that_nobody_could_read_is_not_written() -> None:
    """Its writer takes what it composed, and would go on alone."""
    with pytest.raises(InternalError, match="nobody could read"):
        encode_entry(header_on(topic(), batches=[batch("p" * (NAME_CHARS_MAX + 1))]), {0: rows_of({0: 1})})


def test_an_entry_without_rows_is_an_entry() -> None:
    state = topic()
    data = encode_entry(header_on(state), {})
    assert read_header(data, where="e") == header_on(state)
    assert isinstance(read(MemoryStore(), state, data).table, pa.Table)


def test_staged_rows_are_decoded_off_the_event_loop() -> None:
    """Producers of the process share the loop."""
    threads: list[int] = []
    real = rows_module._staged_rows

    def decode(*of_object: Any, **given: Any) -> pa.Table | str:
        threads.append(threading.get_ident())
        return real(*of_object, **given)

    async def main() -> int:
        log = await LogWriter(queues=1).create()
        before = log.state
        await log.send({0: 3}, staged=True)
        data = (await log.store.get(log.paths.entry(2))).data
        folded = fold(before, read_header(data, where="e"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows_module, "_staged_rows", decode)
            return sum([piece.table.num_rows async for piece in entry_pieces(log.store, log.paths, Runtime(), folded, data)])

    assert asyncio.run(main()) == 3
    assert len(threads) == 1
    assert threading.get_ident() not in threads

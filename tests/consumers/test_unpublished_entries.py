"""What is picked from a log that nobody published: each entry is folded once, and only what holds the rows is read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.consumers.feed import unpublished_entries
from penstock.log.errors import DataDamaged
from penstock.log.format import fold
from penstock.log.read import merged_rows
from penstock.log.repair import repair
from penstock.log.stores.protocol import Put
from penstock.log.tail import entry_rows, view
from tests.consumers.feeds import Opened, opened, topic_log
from tests.log.table.upkeep import publish, trimmed
from tests.log.topics import LogWriter


async def small_entries(count: int) -> LogWriter:
    log = await topic_log()
    for number in range(count):
        await log.send({0: 2, 1: 1}, staged=number % 10 == 9)
    return log


async def pick(it: Opened, queue: int, offsets: Sequence[int]) -> int:
    """Pick these, which must be what was sent; how many requests that took."""
    before = it.requests
    picked = await it.feed.pick(queue, offsets)
    assert picked.column("offset").to_pylist() == sorted(offsets)
    assert picked.column("body").to_pylist() == [it.log.sent[queue, offset] for offset in sorted(offsets)]
    return it.requests - before


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """The numbers of the entries that are folded by views, and of those that are decoded."""
    seen: dict[str, list[int]] = {"fold": [], "decode": []}
    real, decode = fold.fold, entry_rows.decode_entry

    def folded(state, header, **named):  # type: ignore[no-untyped-def]
        seen["fold"].append(header.entry)
        return real(state, header, **named)

    def decoded(paths, one, *rest, **named):  # type: ignore[no-untyped-def]
        seen["decode"].append(one.number)
        return decode(paths, one, *rest, **named)

    monkeypatch.setattr(view, "fold", folded)
    monkeypatch.setattr(unpublished_entries, "decode_entry", decoded)
    return seen


async def test_each_entry_is_folded_once_and_only_those_with_the_rows_are_decoded(work: dict[str, list[int]]) -> None:
    log = await small_entries(40)
    async with opened(log, 0, 1) as it:
        await pick(it, 0, [75, 3, 2])
        looks = await pick(it, 0, [75])
        work["fold"].clear()
        work["decode"].clear()
        assert await pick(it, 0, [70, 71, 10]) == looks, "at the table's log and at the tail; entries are in memory"
        assert len(work["decode"]) == 2
        await pick(it, 1, [35])
        assert len(work["decode"]) == 3
        assert work["fold"] == [], "the places of all queues are known"
        await log.send({0: 1})
        await pick(it, 0, [80])
        assert len(work["fold"]) == 2, "the new one, by the tail and for its place"


async def test_what_is_in_memory_no_more_costs_one_request_for_each_entry_and_each_object_it_links(
    work: dict[str, list[int]],
) -> None:
    log = await small_entries(40)
    async with opened(log, 0) as it:
        await pick(it, 0, [0])
        looks = await pick(it, 0, [0])
        it.topic.tail.cache.clear()
        work["fold"].clear()
        assert await pick(it, 0, [4, 5, 40]) == looks + 2
        assert await pick(it, 0, [18, 20]) == looks + 3, "the tenth entry links its rows"
        assert work["fold"] == []


async def test_what_is_published_is_read_from_the_table_and_forgotten_here(work: dict[str, list[int]]) -> None:
    log = await small_entries(20)
    async with opened(log, 0) as it:
        await pick(it, 0, [1, 39])
        await publish(log)
        for _ in range(3):
            await log.send({0: 2})
        work["decode"].clear()
        await pick(it, 0, [1, 39, 41, 44])
        assert len(work["decode"]) == 2, "of the log, those behind the table only"
        await trimmed(log)
        it.topic.tail.cache.clear()
        await pick(it, 0, range(46))


async def test_an_entry_that_is_not_what_was_folded_is_not_believed() -> None:
    """Somebody who slept may write one in the place of one that was trimmed: it has its number, and other rows."""
    log, other = await small_entries(20), await small_entries(20)
    async with opened(log, 0) as it:
        await pick(it, 0, [5])
        it.topic.tail.cache.clear()
        await log.store.delete(log.paths.entry(10))
        stranger = (await other.store.get(other.paths.entry(12))).data
        await log.store.put(log.paths.entry(10), stranger, mode=Put.CREATE)
        with pytest.raises(DataDamaged):
            await it.feed.pick(0, [5, 16])
        await pick(it, 0, [5, 20])


async def test_of_more_entries_than_may_be_known_the_first_are_left_to_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpublished_entries, "ENTRIES_MAX", 16)
    log = await small_entries(40)
    async with opened(log, 0) as it:
        for offsets in ([0, 1, 79], [40], [78, 3]):
            await pick(it, 0, offsets)
        assert len(it.feed._unpublished._entries) <= 16


async def test_entries_too_large_to_be_in_memory_together_are_left_to_the_reader(
    monkeypatch: pytest.MonkeyPatch, work: dict[str, list[int]]
) -> None:
    monkeypatch.setattr(unpublished_entries, "_TOGETHER_BYTES", 1)
    log = await small_entries(5)
    async with opened(log, 0) as it:
        await pick(it, 0, [2, 8])
        assert work["decode"] == []


async def test_what_a_repair_left_out_is_named_and_what_lies_around_is_found() -> None:
    log = await small_entries(6)
    await log.store.put(log.paths.entry(4), b"nonsense", mode=Put.REPLACE)
    await repair(log.store, log.paths, log.runtime)
    async with opened(log, 0) as it:
        await pick(it, 0, [0, 3, 6, 11])
        with pytest.raises(DataDamaged, match="offsets 4 to 4 of queue 0"):
            await it.feed.pick(0, [3, 4, 6])


async def test_a_scan_decodes_only_entries_with_rows_that_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As messages behind markers are read again: what lies before them in the log is folded, and no more."""
    seen: list[int] = []
    pieces = entry_rows.entry_pieces

    def taken(store, paths, runtime, folded, *rest, **named):  # type: ignore[no-untyped-def]
        seen.append(folded.number)
        return pieces(store, paths, runtime, folded, *rest, **named)

    monkeypatch.setattr(merged_rows, "entry_pieces", taken)
    log = await small_entries(20)
    async with opened(log, 0) as it:
        found = [offset async for batch in it.feed.scan(0, 21, 25) for offset in batch.column("offset").to_pylist()]
        assert found == [21, 22, 23, 24]
        assert len(seen) == 3

"""The rules that cuts keep, each alone: which cut follows which, what an object holds, which cuts readers see, and when a target has a cut."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.cdc.cuts import log
from penstock.cdc.cuts.alignment import AlignedTable, Alignment, is_beyond
from penstock.cdc.cuts.cut import Cut, Goal, TableVersion, follows, goal_of
from penstock.cdc.cuts.cut_history import kept_cuts
from penstock.cdc.cuts.log import FOLDER, CutLog, key_of, keys_of, segments_of
from penstock.cdc.cuts.segment import CUTS_MAX, Segment, encode, with_cut
from penstock.cdc.postgres.positions import base_of
from penstock.cdc.target import TargetProgress
from penstock.consumers.ranges.offsets import TopicSnapshot
from penstock.log.stores import open_store
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import ObjectStore, Put

CAPTURE, OTHER = "postgres/p", "postgres/other"
CUT = Cut(1, life=5, entry=10, at_ms=1, ends={0: 4, 1: 4}, positions={CAPTURE: 64, OTHER: 64}, tables={}, incomplete={"a": "no"})


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (replace(CUT, entry=11, ends={0: 5, 1: 4}), True),
        (replace(CUT, entry=11, positions={CAPTURE: 65, OTHER: 64}), True),
        (replace(CUT, entry=11, ends={0: 5, 1: 3}), False),
        (replace(CUT, entry=11, ends={0: 5}), False),
        (replace(CUT, entry=11, positions={CAPTURE: 65, OTHER: 63}), False),
        (replace(CUT, entry=11, positions={CAPTURE: 65}), True),  # a name that is forgotten by now
        (replace(CUT, entry=9, ends={0: 5, 1: 5}), False),
        (replace(CUT, life=6, entry=1, ends={}, positions={}), True),
        (replace(CUT, life=4, entry=11, ends={0: 9, 1: 9}), False),
        (CUT, False),
        (replace(CUT, entry=11, incomplete={}), True),
        (replace(CUT, entry=11, incomplete={"b": "no"}), False),
        (replace(CUT, entry=11, incomplete={"a": "no", "b": "no"}), False),
    ],
)
def test_cuts_go_forward_by_life_entry_queue_and_capture(cut: Cut, expected: bool) -> None:
    assert follows(CUT, cut) is expected
    assert follows(None, cut)


def test_an_object_is_of_one_life_and_holds_so_many_cuts() -> None:
    one = Segment("t", "s", (CUT,))
    longer = with_cut(one, replace(CUT, number=2))
    assert longer is not None
    assert [cut.number for cut in longer.cuts] == [1, 2]
    assert with_cut(one, replace(CUT, number=2, life=6)) is None
    almost = Segment("t", "s", tuple(replace(CUT, number=number) for number in range(1, CUTS_MAX)))
    full = with_cut(almost, replace(CUT, number=CUTS_MAX))
    assert full is not None
    assert with_cut(full, replace(CUT, number=CUTS_MAX + 1)) is None


async def keep(store: ObjectStore, *parts: Sequence[int]) -> list[str]:
    """Objects of cuts with these numbers."""
    for numbers in parts:
        cuts = tuple(replace(CUT, number=number) for number in numbers)
        await store.put(key_of("s", numbers[0]), encode(Segment("t", "s", cuts)), mode=Put.CREATE)
    return await keys_of(store, "s")


def test_cuts_that_were_added_late_to_an_older_object_are_left_out() -> None:
    async def numbers(*parts: Sequence[int]) -> list[list[int]]:
        store = MemoryStore()
        keys = await keep(store, *parts)
        return [[cut.number for cut in one.cuts] for one in await segments_of(store, keys)]

    assert asyncio.run(numbers((1, 2, 3), (3, 4), (5,))) == [[1, 2], [3, 4], [5]]
    assert asyncio.run(numbers((1, 2), (4, 5))) == [[1, 2], [4, 5]]


def test_objects_that_are_trimmed_while_they_are_read_are_left_out() -> None:
    async def read() -> list[int]:
        store = MemoryStore()
        keys = await keep(store, (1, 2), (3,))
        await store.delete(keys[0])
        return [one.first for one in await segments_of(store, keys)]

    assert asyncio.run(read()) == [3]


def test_after_a_gap_only_what_is_behind_it_is_kept(tmp_path: Path) -> None:
    def numbers(folder: str, *parts: Sequence[int]) -> list[int]:
        asyncio.run(keep(open_store(f"{tmp_path / folder}/{FOLDER}"), *parts))
        return [cut.number for cut in kept_cuts(str(tmp_path / folder)).cuts]

    assert numbers("whole", (2, 3), (4,)) == [2, 3, 4]
    assert numbers("one gap", (1, 2), (4, 5), (6,)) == [4, 5, 6]
    assert numbers("two gaps", (1,), (3,), (5, 6)) == [5, 6]


async def test_a_driver_that_stands_behind_writes_no_cut() -> None:
    store = MemoryStore()
    late, first = (CutLog(store, topic="t", sync="s", keep_ms=10**9, name="n") for _ in range(2))
    await late.load()
    await first.add(replace(CUT, entry=20, ends={0: 9, 1: 9}))
    assert await late.add(replace(CUT, ends={0: 5, 1: 9})) is None
    assert late.newest is not None
    assert (late.newest.number, late.newest.entry) == (1, 20)
    added = await late.add(replace(CUT, entry=21, ends={0: 10, 1: 9}))
    assert added is not None
    assert added.number == 2


async def test_an_object_that_has_become_large_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "BYTES_MAX", len(encode(Segment("t", "s", (CUT,)))) + 10)
    store = MemoryStore()
    cuts = CutLog(store, topic="t", sync="s", keep_ms=10**9, name="n")
    for entry in range(11, 17):
        await cuts.add(replace(CUT, entry=entry, ends={0: entry, 1: entry}))
    assert [len(one.cuts) for one in await segments_of(store, await keys_of(store, "s"))] == [2, 2, 2]


# --- Alignment --------------------------------------------------------------------------------------------------------------------


class Targets:
    """What targets' logs tell, and how they were asked."""

    def __init__(self, **newest: tuple[int, TargetProgress] | None) -> None:
        self.newest = newest
        self.asked: list[tuple[str, bool]] = []

    def newest_of(self, name: str, *, anew: bool) -> tuple[int, TargetProgress] | None:
        self.asked.append((name, anew))
        return self.newest[name]

    def id_of(self, name: str) -> str | None:
        return f"id of {name}"


def standing(ends: Mapping[int, int], *, entry: int = 10) -> TopicSnapshot:
    return TopicSnapshot("t", 5, {queue: (0, end) for queue, end in ends.items()}, entry, {CAPTURE: base_of(64)})


def aligned(targets: Targets, ends: Mapping[int, int]) -> Alignment:
    alignment = Alignment(CutLog(MemoryStore(), topic="t", sync="s", keep_ms=10**9, name="n"), targets)
    asyncio.run(alignment.load(5))
    alignment.set_goal(standing(ends), {})
    return alignment


def test_a_target_beyond_the_goal_makes_no_cut() -> None:
    goal = Goal(5, 10, {0: 4, 1: 2}, {})
    at = [({0: 4, 1: 2}, False), ({0: 4}, False), ({}, False), ({0: 5}, True), ({1: 3}, True), ({2: 1}, True)]
    assert [is_beyond(goal, TargetProgress(offsets)) for offsets, _ in at] == [beyond for _, beyond in at]
    for offsets, beyond in at:
        alignment = aligned(Targets(a=(7, TargetProgress(offsets, commits=3))), {0: 4, 1: 2})
        assert alignment.due({0: 4, 1: 2})
        cut = alignment.cut([AlignedTable("a", None)], now_ms=1)
        assert (cut is None) is beyond
        assert cut is None or cut.tables == {"a": TableVersion(7, 3, "id of a")}


def test_a_compacted_target_is_looked_at_anew_once() -> None:
    targets = Targets(a=(7, TargetProgress({0: 4}, commits=3)), b=(2, TargetProgress({0: 4}, commits=1)))
    alignment = aligned(targets, {0: 4})
    tables = [AlignedTable("a", 3), AlignedTable("b", 1)]
    for compacted, asked in (([], [("a", False), ("b", False)]), ([], []), (["a"], [("a", True)]), ([], [])):
        for name in compacted:
            alignment.compacted(name)
            targets.newest[name] = (8, TargetProgress({0: 4}, commits=3))
        targets.asked.clear()
        cut = alignment.cut(tables, now_ms=1)
        assert targets.asked == asked
        assert cut is not None
        assert {name: one.version for name, one in cut.tables.items()} == {
            name: one[0] for name, one in targets.newest.items() if one
        }


def test_a_target_that_was_merged_since_is_looked_at_again() -> None:
    targets = Targets(a=(7, TargetProgress({0: 4}, commits=3)))
    alignment = aligned(targets, {0: 4})
    for commits in (3, 4, None):
        targets.asked.clear()
        assert alignment.cut([AlignedTable("a", commits)], now_ms=1) is not None
        assert targets.asked == [("a", False)]


@pytest.mark.parametrize("missing", ["stands still", "tells nothing"])
def test_a_table_that_stands_still_or_tells_nothing_is_named(missing: str) -> None:
    targets = Targets(a=None)
    cut = aligned(targets, {0: 4}).cut([AlignedTable("a", None, stopped="why" if missing == "stands still" else None)], now_ms=1)
    assert cut is not None
    assert cut.tables == {}
    assert cut.incomplete["a"].startswith("why" if missing == "stands still" else "its log has no commit of the sync")


def test_a_goal_stays_until_it_is_reached_or_passed() -> None:
    alignment = aligned(Targets(), {0: 4})
    limits: list[tuple[dict[int, int], int]] = [({0: 3}, 4), ({0: 4}, 9), ({0: 11}, 13)]
    for number, (position, limit) in enumerate(limits):
        end = (6, 9, 13)[number]
        alignment.set_goal(standing({0: end}), position)
        assert alignment.limit(0, 100) == limit
    assert alignment.limit(1, 100) == 0, "nothing of a queue that the goal does not have"


def test_no_goal_while_no_capture_tells_a_place() -> None:
    silent = replace(standing({0: 4}), named={})
    assert goal_of(silent) is None
    alignment = aligned(Targets(), {})
    alignment.set_goal(silent, {})
    assert alignment.limit(0, 100) == 100
    assert not alignment.due({0: 4})


def test_a_cut_that_tells_the_goal_is_not_made_again() -> None:
    alignment = aligned(Targets(a=(7, TargetProgress({0: 4}, commits=3))), {0: 4})

    def made() -> bool:
        if not alignment.due({0: 4}):
            return False
        cut = alignment.cut([AlignedTable("a", 3)], now_ms=1)
        assert cut is not None
        asyncio.run(alignment.record(cut))
        return True

    assert [made(), made()] == [True, False]
    alignment.set_goal(standing({0: 4}, entry=11), {0: 4})  # another entry, without an event
    assert not made()
    assert not alignment.due({0: 3})


def test_a_cut_without_a_table_that_stands_still_is_not_made_again_either() -> None:
    alignment = aligned(Targets(), {0: 4})
    cut = alignment.cut([AlignedTable("a", None, stopped="why")], now_ms=1)
    assert cut is not None
    assert alignment.due({0: 4})
    asyncio.run(alignment.record(cut))
    assert not alignment.due({0: 4})


NEWEST = Cut(1, 5, 10, 1, {0: 4}, {CAPTURE: base_of(64)}, {"a": TableVersion(7, 3, "known")}, {}, 90)


@pytest.mark.parametrize(
    ("newest", "exact", "due", "asked", "source_us"),
    [
        (NEWEST, True, False, [], 90),
        (NEWEST, False, False, [("a", False)], 90),
        (replace(NEWEST, incomplete={"b": "why"}), True, True, [], 90),
        (replace(NEWEST, life=4), True, True, [("a", False)], None),
    ],
    ids=["its own", "not exact", "incomplete", "of another life"],
)
def test_a_driver_goes_on_from_the_newest_cut(
    newest: Cut, exact: bool, due: bool, asked: list[tuple[str, bool]], source_us: int | None
) -> None:
    store, targets = MemoryStore(), Targets(a=(7, TargetProgress({0: 4}, commits=3)))
    before = CutLog(store, topic="t", sync="s", keep_ms=10**9, name="n")
    asyncio.run(before.add(newest))
    alignment = Alignment(CutLog(store, topic="t", sync="s", keep_ms=10**9, name="n"), targets)
    asyncio.run(alignment.load(5, exact=exact))
    alignment.set_goal(standing({0: 4}), {})
    assert alignment.due({0: 4}) is due
    cut = alignment.cut([AlignedTable("a", 3)], now_ms=1)
    assert cut is not None
    assert (targets.asked, cut.source_us) == (asked, source_us)


def test_the_time_of_a_cut_is_that_of_its_newest_change() -> None:
    alignment = aligned(Targets(), {0: 4})
    for source_us in (5, 9, None, 7):
        alignment.applied(source_us)
    cut = alignment.cut([], now_ms=1)
    assert cut is not None
    assert cut.source_us == 9

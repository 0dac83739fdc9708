"""Sets of offsets: against plain sets, and as small as they must be."""

from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.cells.varints import VarintReader, append_bytes, append_varint
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from penstock.log.errors import DataDamaged
from penstock.log.limits import NUMBER_MAX

RANGE = st.tuples(st.integers(0, 300), st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1]))
RANGES = st.lists(RANGE, max_size=30)


def plain(ranges: list[tuple[int, int]]) -> set[int]:
    return {offset for first, limit in ranges for offset in range(first, limit)}


def settled_of(ranges: list[tuple[int, int]], floor: int = 0) -> SettledOffsets:
    settled = SettledOffsets(floor)
    for first, limit in ranges:
        settled = settled.with_range(first, limit)
    return settled


@given(st.lists(st.integers(0, 3000)))
def test_a_set_of_single_offsets_is_that_of_their_ranges(offsets: list[int]) -> None:
    assert OffsetSet.of_offsets(offsets) == OffsetSet.of((offset, offset + 1) for offset in offsets)


@given(RANGES, RANGES, RANGE)
def test_offsets_are_a_set(ranges: list[tuple[int, int]], others: list[tuple[int, int]], some: tuple[int, int]) -> None:
    one, other = OffsetSet.of(ranges), OffsetSet.of(others)
    for found, expected in (
        (one, plain(ranges)),
        (one.union(other), plain(ranges) | plain(others)),
        (one.without(other), plain(ranges) - plain(others)),
        (one.without_range(*some), plain(ranges) - plain([some])),
    ):
        assert {offset for offset in range(400) if offset in found} == expected
        assert len(found) == len(expected)
        assert plain(found.ranges()) == expected
        assert found.base == min(expected, default=0)
        assert found.limit == max(expected, default=-1) + 1
        assert OffsetSet.decode(VarintReader(found.encode())) == found


@given(RANGES, RANGES, st.integers(0, 50))
def test_what_is_settled_is_a_set_with_a_floor(ranges: list[tuple[int, int]], others: list[tuple[int, int]], floor: int) -> None:
    expected = plain([(0, floor), *ranges])
    for settled, held in (
        (settled_of(ranges, floor), expected),
        (settled_of(ranges, floor).with_all(OffsetSet.of(others)), expected | plain(others)),
    ):
        assert {offset for offset in range(400) if offset in settled} == held
        assert settled.floor == next(offset for offset in range(400) if offset not in held)
        assert settled.limit == max([settled.floor, *(offset + 1 for offset in held)])
        assert settled.count_above == len([offset for offset in held if offset > settled.floor])
        assert not settled.above & 1
        assert SettledOffsets.decode(VarintReader(settled.encode())) == settled


@given(RANGES, RANGES, st.integers(0, 50))
def test_sets_meet_where_they_share_an_offset(ranges: list[tuple[int, int]], others: list[tuple[int, int]], floor: int) -> None:
    other = OffsetSet.of(others)
    assert OffsetSet.of(ranges).meets(other) == bool(plain(ranges) & plain(others))
    assert settled_of(ranges, floor).meets(other) == bool(plain([(0, floor), *ranges]) & plain(others))


@given(RANGES, st.integers(0, 2**62))
def test_ranges_and_gaps_share_out_all_offsets(ranges: list[tuple[int, int]], start: int) -> None:
    settled = settled_of([(start + first, start + limit) for first, limit in ranges], start)
    gaps = settled.gaps(settled.limit + 10)
    shared = sorted([*settled.ranges(), *gaps])
    assert [first for first, _ in shared[1:]] == [limit for _, limit in shared[:-1]]
    assert (gaps[0][0], gaps[-1][1]) == (settled.floor, settled.limit + 10)


@pytest.mark.parametrize(("limit", "gaps"), [(3, []), (5, [(3, 5)]), (6, [(3, 5)]), (7, [(3, 5)]), (8, [(3, 5), (7, 8)])])
def test_gaps_end_at_their_limit(limit: int, gaps: list[tuple[int, int]]) -> None:
    assert SettledOffsets(3).with_range(5, 7).with_range(9, 12).gaps(limit) == gaps


@given(st.integers(0, 2**3000), st.integers(0, 2**62))
def test_any_pattern_is_kept(pattern: int, start: int) -> None:
    settled = SettledOffsets(start, pattern << 1)
    assert SettledOffsets.decode(VarintReader(settled.encode())) == settled


def test_a_set_may_reach_up_to_the_last_offset_and_no_further() -> None:
    last = SettledOffsets(NUMBER_MAX - 4, 0b1010)
    assert SettledOffsets.decode(VarintReader(last.encode())) == last
    with pytest.raises(DataDamaged, match="reaches too far"):
        SettledOffsets.decode(VarintReader(SettledOffsets(NUMBER_MAX - 4, 0b11010).encode()))


def test_a_set_may_span_so_much_and_have_so_many_holes_and_no_more() -> None:
    spanned = SettledOffsets(5).with_range(5 + (1 << 24) - 1, 5 + (1 << 24))
    assert SettledOffsets.decode(VarintReader(spanned.encode())) == spanned
    with pytest.raises(DataDamaged, match="reaches too far"):
        SettledOffsets.decode(VarintReader(SettledOffsets(5).with_range(5 + (1 << 24), 6 + (1 << 24)).encode()))
    holes = SettledOffsets(5, int.from_bytes(b"\xaa" * (1 << 16), "little") << 1)
    assert SettledOffsets.decode(VarintReader(holes.encode())) == holes
    with pytest.raises(DataDamaged, match="too many holes"):
        SettledOffsets.decode(VarintReader(SettledOffsets(5, holes.above << 2 | 0b10).encode()))


def test_as_many_ranges_as_bytes_are_stored_as_bits_without_a_look_at_each() -> None:
    """Even where ranges would take less; and stored cells are compared byte by byte."""
    gaps = [2, 12] * 256
    random.Random(2977).shuffle(gaps)
    above, bit = 0, 0
    for gap in gaps:
        bit += gap + 1
        above |= 1 << bit - 1
    settled = SettledOffsets(5, above)
    assert len(settled.ranges()) == (above.bit_length() + 7) // 8
    bitmap, packed_bitmap = 1, 3
    assert settled.encode()[3] in (bitmap, packed_bitmap)
    assert SettledOffsets.decode(VarintReader(settled.encode())) == settled


def test_an_empty_set_is_written_as_two_bytes() -> None:
    """A queue without a hole is the usual one; and stored cells are compared byte by byte."""
    assert SettledOffsets(5).encode() == b"\x05\x00"


@given(st.binary(max_size=60))
def test_any_bytes_are_a_set_or_damaged(data: bytes) -> None:
    for kind in (OffsetSet, SettledOffsets):
        try:
            found = kind.decode(VarintReader(data))
        except DataDamaged:
            continue
        assert kind.decode(VarintReader(found.encode())) == found


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (b"\x07", "a form nobody knows"),
        (b"\x01\x01", "its floor is in it"),
        (b"\x00\x01\xff\xff\xff\xff\x7f", "reaches too far"),
        (b"\x00\x01", "ends too soon"),
        (b"\x03not packed", "cannot be unpacked"),
        (b"\x03" + zlib.compress(bytes(3_000_000)), "cut off, or reaches too far"),
    ],
)
def test_damage_is_named(bits: bytes, said: str) -> None:
    data = bytearray()
    append_varint(data, 5)
    append_bytes(data, bits)
    with pytest.raises(DataDamaged, match=said):
        SettledOffsets.decode(VarintReader(bytes(data)))


@pytest.mark.parametrize(
    ("holes", "window", "bytes_max"), [(0, 10_000, 10), (0.05, 10_000, 620), (0.5, 10_000, 1_280), (0.01, 100_000, 2_000)]
)
def test_they_are_small(holes: float, window: int, bytes_max: int) -> None:
    """A window of 10,000 never takes more than 1.3 KB."""
    rng = random.Random(1)
    above = sum(1 << bit for bit in range(1, window) if rng.random() >= holes)
    assert len(SettledOffsets(1_000_000, above).encode()) <= bytes_max

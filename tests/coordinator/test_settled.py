"""Sets of settled offsets: against plain sets, and as small as they must be."""

from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.settled import Settled, decode_settled
from penstock.log.errors import DataDamaged

RANGES = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=30)


def plain(settled: Settled, limit: int) -> set[int]:
    return {offset for offset in range(limit) if offset in settled}


@given(RANGES, st.integers(0, 50))
def test_it_is_a_set(ranges: list[tuple[int, int]], floor: int) -> None:
    expected = {offset for first, limit in [(0, floor), *ranges] for offset in range(first, limit)}
    settled = Settled(floor).with_ranges(ranges)
    assert plain(settled, 400) == expected
    assert settled.floor == next(offset for offset in range(400) if offset not in expected)
    assert settled.limit == max([settled.floor, *(offset + 1 for offset in expected)])
    assert settled.count_above == len([offset for offset in expected if offset > settled.floor])
    assert not settled.above & 1


@given(RANGES, st.integers(0, 2**62))
def test_its_ranges_and_gaps_share_out_all_offsets(ranges: list[tuple[int, int]], start: int) -> None:
    settled = Settled(start).with_ranges((start + first, start + limit) for first, limit in ranges)
    found, gaps = settled.ranges(), settled.gaps(settled.limit + 10)
    assert Settled(settled.floor).with_ranges(found) == settled
    shared = sorted([*found, *gaps])
    assert [first for first, _ in shared[1:]] == [limit for _, limit in shared[:-1]]
    assert gaps[0][0] == settled.floor
    assert gaps[-1][1] == settled.limit + 10


@given(RANGES, st.integers(0, 2**62))
def test_what_is_encoded_is_decoded(ranges: list[tuple[int, int]], start: int) -> None:
    settled = Settled(start).with_ranges((start + first, start + limit) for first, limit in ranges)
    assert decode_settled(settled.encode()) == settled


@given(st.integers(0, 2**3000))
def test_any_pattern_is_kept(pattern: int) -> None:
    settled = Settled(7, pattern << 1)
    assert decode_settled(settled.encode()) == settled


@given(st.binary(max_size=60))
def test_any_bytes_are_a_set_or_damaged(data: bytes) -> None:
    try:
        settled = decode_settled(data)
    except DataDamaged:
        return
    assert decode_settled(settled.encode()) == settled


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x05\x07", "a form nobody knows"),
        (b"\x80", "ends too soon"),
        (b"\x05\x01\x01", "its floor is in it"),
        (b"\x05\x00\x01\xff\xff\xff\xff\x7f", "reaches too far"),
        (b"\x05\x03not packed", "cannot be unpacked"),
        (b"\x05\x03" + zlib.compress(bytes(3_000_000)), "cut off, or reaches too far"),
    ],
)
def test_damage_is_named(data: bytes, said: str) -> None:
    with pytest.raises(DataDamaged, match=said):
        decode_settled(data)


@pytest.mark.parametrize(
    ("holes", "window", "bytes_max"), [(0, 10_000, 10), (0.05, 10_000, 620), (0.5, 10_000, 1_280), (0.01, 100_000, 2_000)]
)
def test_it_is_small(holes: float, window: int, bytes_max: int) -> None:
    """A window of 10,000 never takes more than 1.3 KB."""
    rng = random.Random(1)
    above = sum(1 << bit for bit in range(1, window) if rng.random() >= holes)
    settled = Settled(1_000_000, above)
    assert len(settled.encode()) <= bytes_max
    assert decode_settled(settled.encode()) == settled

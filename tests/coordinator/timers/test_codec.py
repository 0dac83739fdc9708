"""Timer cells as bytes, back and forth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.timers.cell.codec import decode_timers, encode_timers
from penstock.coordinator.timers.cell.state import RECALLED_MAX, Claim, DeliveredBounds, DuePosition, TimerRun, TimerState
from penstock.log.errors import DataDamaged, NewerFormatError
from penstock.log.limits import TIME_MAX_MS

_DUES = st.builds(DuePosition, st.integers(0, 1000 * TIME_MAX_MS - 1), st.integers(0, 2**40))
_BOUNDS = st.builds(DeliveredBounds, st.integers(0, 2**40), st.one_of(_DUES, st.just(DuePosition(-1, -1))))
_RUNS = st.builds(TimerRun, st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True), st.integers(0, 2**30), st.integers(0, 2**40), _DUES)


@st.composite
def states(draw: st.DrawFn) -> TimerState:
    sequence, count = draw(st.integers(0, 2**40)), draw(st.integers(0, 9999))
    return TimerState(
        settled=draw(_BOUNDS),
        claim=draw(st.none() | st.builds(Claim, _BOUNDS, st.just(sequence), st.just(count))),
        next_sequence=sequence + count,
        gathered=draw(st.integers(0, 2**40)),
        runs=tuple(draw(st.lists(_RUNS, max_size=4))),
        recalled=draw(st.frozensets(_DUES, max_size=20)),
        recalls=tuple(draw(st.lists(_RUNS, max_size=3))),
    )


@given(states())
def test_what_is_written_is_read(state: TimerState) -> None:
    data = encode_timers(state)
    assert decode_timers(data, where="timers/orders") == state
    with pytest.raises(DataDamaged):
        decode_timers(data + b"\0", where="timers/orders")
    with pytest.raises(DataDamaged):
        decode_timers(data[:-1], where="timers/orders")


def test_a_later_version_says_so() -> None:
    with pytest.raises(NewerFormatError, match=r"later version.*timers/orders.*format 1; observed: 2"):
        decode_timers(b"\2", where="timers/orders")


def test_a_full_cell_is_small() -> None:
    """Recalled messages are the most that a cell holds: of 40 days, one every millisecond of a minute."""
    recalled = frozenset(DuePosition(1_790_000_000_000_000 + n * 15_000_000, 10**9 + n) for n in range(RECALLED_MAX))
    assert len(encode_timers(TimerState(recalled=recalled))) < 48 * 1024

"""Claims over drawn messages: each goes once, none early, in order, whatever the limits and the recalls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.timers.cell.selection import WaitingIndex, next_bounds
from penstock.coordinator.timers.cell.state import DeliveredBounds, DuePosition, TimerState

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.lists(st.integers(0, 30), max_size=6)),
        st.tuples(st.just("claim"), st.integers(0, 8), st.integers(1, 4)),
        st.tuples(st.just("arrive")),
        st.tuples(st.just("recall"), st.integers(0, 40)),
    ),
    max_size=40,
)


@given(_STEPS)
def test_each_message_goes_once_and_none_early(steps: list[tuple[object, ...]]) -> None:
    state, now_us = TimerState(), 0
    sent: list[DuePosition] = []
    gone: list[DuePosition] = []
    recalled: set[int] = set()
    for step in [*steps, *[("claim", 40, 5)] * 60]:
        match step:
            case ("send", list(times)):
                sent += [DuePosition(time_us, len(sent) + place) for place, time_us in enumerate(times)]
            case ("claim", int(later), int(most)):
                now_us += later
                state, went = _claimed(state, sent, now_us=now_us, most=most)
                assert all(due.time_us <= now_us for due in went)
                assert went == sorted(went)
                gone += went
            case ("arrive",):
                state = state.with_arrived()
            case ("recall", int(place)) if place < len(sent) and state.waits(sent[place]):
                state = state.with_recalled(sent[place])
                recalled.add(place)
    assert sorted(due.offset for due in gone) == [due.offset for due in sent if due.offset not in recalled]
    assert state.next_sequence == len(gone)
    assert state.with_arrived().recalled == frozenset()


def _claimed(state: TimerState, sent: list[DuePosition], *, now_us: int, most: int) -> tuple[TimerState, list[DuePosition]]:
    """As whoever plays the role does it; and what it lets go, found as whoever comes after it would."""
    left = [due for due in sent if not state.bounds.within(due)]
    waiting = WaitingIndex(np.array([due.time_us for due in left], np.int64), np.array([due.offset for due in left], np.int64))
    bounds = next_bounds(waiting, state.bounds, now_us=now_us, known=len(sent), most=most)
    inside = waiting.within(bounds)
    assert len(inside) <= most
    found = [DuePosition(*one) for one in zip(inside.time_us.tolist(), inside.offset.tolist(), strict=True)]
    going = [due for due in found if due not in state.recalled]
    state = state.with_claim(bounds, len(going))
    assert going == sorted(due for due in sent if state.claimed(due))
    return state, going


@pytest.mark.parametrize(
    "fallen",
    [DeliveredBounds(4, DuePosition(70, 2)), DeliveredBounds(5, DuePosition(69, 2)), DeliveredBounds(5, DuePosition(70, 1))],
)
def test_bounds_only_rise(fallen: DeliveredBounds) -> None:
    """What was within them may be in the topic."""
    state = TimerState().with_claim(DeliveredBounds(5, DuePosition(70, 2)), 3)
    for before in (state, state.with_arrived()):
        assert before.with_claim(before.bounds, 0).next_sequence == 3
        with pytest.raises(ValueError, match="bounds only rise"):
            before.with_claim(fallen, 0)

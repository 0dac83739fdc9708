"""What a timer cell counts as let go, at the edges of its bounds."""

from __future__ import annotations

import pytest

from penstock.coordinator.timers.cell.state import RECALLED_MAX, DeliveredBounds, DuePosition, TimerRun, TimerState
from penstock.log.errors import LimitExceeded

SETTLED = TimerState(settled=DeliveredBounds(known=10, due=DuePosition(500, 4)), gathered=6)


def run(last: DuePosition, name: str = "run") -> TimerRun:
    return TimerRun(name, 1, 100, last)


@pytest.mark.parametrize(
    ("due", "within"),
    [
        (DuePosition(500, 4), True),
        (DuePosition(500, 5), False),
        (DuePosition(499, 9), True),
        (DuePosition(499, 10), False),  # sent behind what was known
        (DuePosition(501, 0), False),
    ],
)
def test_what_was_let_go_was_known_and_due(due: DuePosition, within: bool) -> None:
    assert SETTLED.settled.within(due) is within
    assert SETTLED.waits(due) is not within


@pytest.mark.parametrize(
    ("last", "kept"), [(DuePosition(500, 3), False), (DuePosition(500, 4), False), (DuePosition(500, 5), True)]
)
def test_an_object_is_kept_as_long_as_one_of_its_messages_waits(last: DuePosition, kept: bool) -> None:
    one = run(last)
    whole = TimerState(settled=DeliveredBounds(10, DuePosition(400, 0)), runs=(one,), recalls=(one,)).with_claim(
        DeliveredBounds(10, DuePosition(500, 4)), 1
    )
    arrived = whole.with_arrived()
    assert (arrived.runs, arrived.recalls) == (((one,), (one,)) if kept else ((), ()))
    assert SETTLED.with_spilled(frozenset(), frozenset(), one).recalls == ((one,) if kept else ())
    assert SETTLED.with_merged(frozenset(), one).runs == ((one,) if kept else ())


@pytest.mark.parametrize("gathered", [6, 8, 10])
def test_what_is_known_can_be_gathered(gathered: int) -> None:
    after = SETTLED.with_run(run(DuePosition(900, 9)), gathered)
    assert (after.gathered, len(after.runs)) == (gathered, 1)


@pytest.mark.parametrize("gathered", [5, 11])
def test_nothing_else_is_gathered(gathered: int) -> None:
    with pytest.raises(ValueError, match="only what is known is gathered"):
        SETTLED.with_run(run(DuePosition(900, 9)), gathered)


@pytest.mark.parametrize(
    "bounds",
    [DeliveredBounds(9, DuePosition(500, 4)), DeliveredBounds(10, DuePosition(500, 3)), DeliveredBounds(11, DuePosition(499, 9))],
)
def test_bounds_only_rise(bounds: DeliveredBounds) -> None:
    with pytest.raises(ValueError, match="bounds only rise"):
        SETTLED.with_claim(bounds, 1)
    assert SETTLED.with_claim(SETTLED.settled, 0).bounds == SETTLED.settled


def test_so_many_are_recalled_at_a_time_and_no_more() -> None:
    full = TimerState(recalled=frozenset(DuePosition(900, offset) for offset in range(RECALLED_MAX - 1))).with_recalled(
        DuePosition(901, 0)
    )
    assert len(full.recalled) == RECALLED_MAX
    with pytest.raises(LimitExceeded, match="too many messages were recalled"):
        full.with_recalled(DuePosition(902, 0))

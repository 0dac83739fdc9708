"""The first expiry, whatever is out of date before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.consumers.schedule.expiries import _SPARE, Expiries

moves = st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 50))))


@given(moves, moves)
def test_the_first_is_the_least_that_stands(known: list[tuple[int, int | None]], later: list[tuple[int, int | None]]) -> None:
    due: dict[int, int | None] = dict(known)
    expiries = Expiries(lambda due_ms, key: due.get(key) == due_ms, [(at, key) for key, at in due.items() if at is not None])
    for key, due_ms in later:
        due[key] = due_ms
        if due_ms is not None:
            expiries.add(due_ms, (key,))
        standing = [at for at in due.values() if at is not None]
        assert expiries.first_ms() == ([min(standing)] if standing else [])


def test_behind_one_that_stays_no_others_gather() -> None:
    expiries = Expiries(lambda due_ms, key: key == 0)
    expiries.add(0, (0,))
    for key in range(1, 20 * _SPARE):
        expiries.add(key, (key,))
    assert len(expiries._heap) <= 2 + _SPARE
    assert expiries.first_ms() == [0]

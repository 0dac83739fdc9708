"""Memory that many share: nobody holds more than there is, and who waits has its turn."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.bounds.byte_budget import ByteBudget


def test_who_finds_no_room_is_called_when_there_is_some_and_nobody_overtakes() -> None:
    budget, called = ByteBudget(owner_bytes=10, all_bytes=15), list[str]()
    assert budget.take("a", 10, partial(called.append, "?")) is None
    assert budget.take("a", 1, partial(called.append, "a")) is not None, "an owner has its share"
    assert budget.take("b", 6, partial(called.append, "b")) is not None, "all together have theirs"
    assert budget.take("b", 1, partial(called.append, "b again")) is not None, "one owner's requests stay in order"
    budget.give("a", 1)
    assert called == ["a"]
    budget.give("a", 6)
    assert called == ["a", "b", "b again"]
    assert (budget.held("a"), budget.held("b"), budget.held()) == (4, 7, 11)


def test_what_is_larger_than_a_bound_passes_alone() -> None:
    budget = ByteBudget(owner_bytes=10, all_bytes=15)
    assert budget.take("a", 100, lambda: None) is None
    assert budget.take("b", 1, lambda: None) is not None
    budget.give("a", 100)
    assert (budget.held("a"), budget.held("b")) == (0, 1)


def test_who_gives_up_makes_way() -> None:
    budget, called = ByteBudget(owner_bytes=10, all_bytes=10), list[str]()
    budget.take("a", 5, lambda: None)
    give_up = budget.take("b", 10, partial(called.append, "b"))
    assert budget.take("c", 5, partial(called.append, "c")) is None, "there is room, and b is another owner"
    assert budget.take("d", 1, partial(called.append, "d")) is not None
    budget.give("c", 5)
    assert called == [], "d does not overtake b"
    assert give_up is not None
    give_up()
    assert called == ["d"]
    give_up()
    assert budget.held() == 6


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 12)), max_size=40), st.randoms(use_true_random=False))
def test_the_bounds_hold_and_everyone_gets_a_turn(asked: list[tuple[str, int]], chance: Random) -> None:
    budget = ByteBudget(owner_bytes=10, all_bytes=20)
    held: list[tuple[str, int]] = []
    for one in asked:
        if budget.take(*one, partial(held.append, one)) is None:
            held.append(one)
        sums = Counter[str]()
        for owner, size in held:
            sums[owner] += size
        assert sums.total() == budget.held()
        assert all(sums[owner] == budget.held(owner) <= max(10, *(size for name, size in held if name == owner)) for owner in sums)
        assert budget.held() <= 20
    seen = 0
    while held:
        budget.give(*held.pop(chance.randrange(len(held))))
        seen += 1
    assert seen == len(asked)
    assert budget.held() == 0

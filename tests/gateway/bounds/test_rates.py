"""How often each owner may do something."""

from __future__ import annotations

from penstock.gateway.bounds import rates
from penstock.gateway.bounds.rates import OwnerRates


def test_an_owner_may_do_some_at_once_and_then_so_many_a_second() -> None:
    per_owner = OwnerRates(per_s=2, at_once=3)
    assert [per_owner.take("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert per_owner.take("b", 0.0), "another owner has its own"
    assert [per_owner.take("a", 1.0) for _ in range(3)] == [True, True, False]
    assert [per_owner.take("a", 100.0) for _ in range(4)] == [True, True, True, False]


def test_the_owners_that_are_remembered_are_bounded() -> None:
    per_owner = OwnerRates(per_s=1, at_once=1)
    for number in range(rates.OWNERS_MAX + 5):
        per_owner.take(str(number), 0.0)
    assert len(per_owner._left) == rates.OWNERS_MAX

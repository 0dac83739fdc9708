"""SimpleConsumers amid faults: a sweep, and the guards of receipt handles removed one at a time."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.simulation.receiving import Play
from tests.simulation.receiving_mutants import RECEIVING_MUTANTS
from tests.simulation.stand_ins import played
from tests.thorough import THOROUGH, thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = thoroughly((0, 1, 2, 3, 4), (2,))
"""The one meets everything that is counted."""
COUNTED = ("crash", "receipt_expired", "receipt_outdated", "expired", "acked beside", "again", "extended", "ended at once", "reset")
OTHERS = 12
"""So many seeds are tried before a mutant counts as unnoticed."""


def test_nothing_acknowledged_comes_back_and_nothing_is_lost() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        play = Play(seed).play()
        assert play.wrong == [], f"Play({seed})"
        counts += play.counts
    missing = [what for what in COUNTED if not counts[what]]
    assert not missing, counts


@cache
def intact(seed: int) -> list[str]:
    """What is wrong with the run that has every guard, which many mutants are compared with."""
    return Play(seed).play().wrong


@pytest.mark.parametrize("name", played("receiving", RECEIVING_MUTANTS))
def test_a_missing_guard_is_noticed(name: str) -> None:
    mutant = RECEIVING_MUTANTS[name]
    for seed in dict.fromkeys((*mutant.seeds, *range(OTHERS))):
        with mutant.patch():
            wrong = Play(seed).play().wrong
        if wrong:
            assert not THOROUGH or not intact(seed), f"it goes wrong with every guard in place: Play({seed})"
            return
    pytest.fail(f"it goes unnoticed that {mutant.guard}")


@pytest.mark.parametrize("name", played("receiving", RECEIVING_MUTANTS))
def test_a_calm_run_does_not_need_it(name: str) -> None:
    with RECEIVING_MUTANTS[name].patch():
        assert not Play(1, calm=True).play().wrong

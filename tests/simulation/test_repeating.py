"""Clients that repeat receives amid faults: a sweep, and the guards of named receives removed one at a time."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.repeating import Repeats
from tests.simulation.repeating_mutants import REPEATING_MUTANTS, UNMET
from tests.simulation.stand_ins import STAND_INS, played
from tests.thorough import THOROUGH, thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

PAID = 19
"""Its owner took back what another member had given again, as the first receive was cancelled."""
SEEDS = (*thoroughly(range(8), (12,)), PAID)
COUNTED = (
    "crash",
    "answer lost",
    "again",
    "again at another",
    "give up",
    "renew",
    "receipt_expired",
    "not answered: CancelledError",
)
OTHERS = 12
"""So many seeds are tried before a mutant counts as unnoticed."""


def test_a_repeated_receive_gives_what_is_out_to_it_and_nothing_else() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        play = Repeats(seed).play()
        assert play.wrong == [], f"Repeats({seed})"
        counts += play.counts
    missing = [what for what in COUNTED if not counts[what]]
    assert not missing, counts


def test_what_the_simulation_does_not_meet_has_a_stand_in() -> None:
    assert REPEATING_MUTANTS.keys() >= UNMET
    assert STAND_INS["repeating"].keys() >= UNMET


@pytest.mark.parametrize("name", played("repeating", (name for name in REPEATING_MUTANTS if name not in UNMET)))
def test_a_missing_guard_is_noticed(name: str) -> None:
    mutant = REPEATING_MUTANTS[name]
    for seed in dict.fromkeys((*mutant.seeds, *range(OTHERS))):
        with mutant.patch():
            wrong = Repeats(seed).play().wrong
        if wrong:
            assert not THOROUGH or not Repeats(seed).play().wrong, f"it goes wrong with every guard in place: Repeats({seed})"
            return
    pytest.fail(f"it goes unnoticed that {mutant.guard}")

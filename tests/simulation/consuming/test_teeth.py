"""The simulation of consumers has teeth: without any one guard, a run goes wrong that goes right with it."""

from __future__ import annotations

from functools import cache

import pytest

from tests.simulation.campaign import Run
from tests.simulation.consuming.campaign import TEETH_STEPS, play
from tests.simulation.consuming.mutants import MUTANTS
from tests.simulation.stand_ins import played
from tests.thorough import THOROUGH

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

OTHERS = 40
"""So many further seeds are tried before a mutant counts as unnoticed: which seeds catch it changes with every change of pace."""


@cache
def intact_run(scenario: str, seed: int) -> Run:
    """The run with every guard in place, which many mutants are compared with."""
    return play(scenario, seed, max_steps=TEETH_STEPS)


@pytest.mark.parametrize("name", played("consumers", MUTANTS))
def test_a_missing_guard_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    for seed in dict.fromkeys((*mutant.seeds, *range(OTHERS))):
        wrong = play(mutant.scenario, seed, mutant=name, max_steps=TEETH_STEPS).wrong
        if wrong and not THOROUGH and not wrong[0].startswith("LimitReached"):
            return
        if wrong:
            intact = intact_run(mutant.scenario, seed)
            if not intact.wrong:
                return
            assert intact.wrong[0].startswith("LimitReached"), f"it goes wrong with every guard in place: {intact.report()}"
    pytest.fail(f"it goes unnoticed that {mutant.guard}")


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.calm])
def test_a_calm_run_does_not_need_it(name: str) -> None:
    assert not play("calm", 8, mutant=name, rate=0.0).wrong

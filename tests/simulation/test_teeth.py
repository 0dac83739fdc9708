"""The simulation has teeth: without any one guard, a run goes wrong that goes right with it."""

from __future__ import annotations

from functools import cache

import pytest

from tests.simulation.campaign import TEETH_STEPS, Run, play
from tests.simulation.mutants import MUTANTS
from tests.simulation.stand_ins import played
from tests.thorough import THOROUGH

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


OTHERS = 40
"""So many further seeds are tried before a mutant counts as unnoticed: which seeds catch it changes with every change of pace."""


@pytest.mark.parametrize("name", played("log", MUTANTS))
def test_a_missing_guard_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    seeds = dict.fromkeys((*mutant.seeds, *range(OTHERS)))
    caught = next((seed for seed in seeds if play(mutant.scenario, seed, mutant=name, max_steps=TEETH_STEPS).wrong), None)
    assert caught is not None, f"it goes unnoticed that {mutant.guard}"
    if THOROUGH:
        intact = intact_run(mutant.scenario, caught)
        assert not intact.wrong, f"it goes wrong with every guard in place: {intact.report()}"


@cache
def intact_run(scenario: str, seed: int) -> Run:
    """The run with every guard in place, which many mutants are compared with."""
    return play(scenario, seed)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MUTANTS)
def test_a_calm_run_does_not_need_it(name: str) -> None:
    assert not play("calm", 5, mutant=name, rate=0.0).wrong

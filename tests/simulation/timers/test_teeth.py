"""The simulation of timed messages has teeth: without any one guard, a run goes wrong that goes right with it."""

from __future__ import annotations

import pytest

from tests.simulation.stand_ins import played
from tests.simulation.timers.campaign import CAMPAIGN
from tests.simulation.timers.mutants import MUTANTS
from tests.thorough import THOROUGH

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

OTHERS = 30
"""So many further seeds are tried before a mutant counts as unnoticed: which seeds catch it changes with every change of pace."""


@pytest.mark.parametrize("name", played("timers", MUTANTS))
def test_a_missing_guard_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    for seed in dict.fromkeys((*mutant.seeds, *range(OTHERS))):
        wrong = CAMPAIGN.play(mutant.scenario, seed, mutant=name, max_steps=mutant.steps).wrong
        if wrong and not THOROUGH and not wrong[0].startswith("LimitReached"):
            return
        if wrong:
            intact = CAMPAIGN.play(mutant.scenario, seed, max_steps=mutant.steps)
            if not intact.wrong:
                return
            assert intact.wrong[0].startswith("LimitReached"), f"it goes wrong with every guard in place: {intact.report()}"
    pytest.fail(f"it goes unnoticed that {mutant.guard}")

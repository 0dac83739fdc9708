"""Gateways amid kills, stops and lost answers: a few runs, and their guards removed one at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.figures import FIGURES
from tests.simulation.campaign import Run, met
from tests.simulation.gateways.campaign import CAMPAIGN
from tests.simulation.gateways.mutants import MUTANTS, UNMET
from tests.simulation.stand_ins import STAND_INS, played
from tests.thorough import THOROUGH, thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

ALL = range(1, 5)
FEW = {"gateways": [2], "steady": [1], "concurrent": [3], "overtaken": [0]}
"""Seeds that together meet what they are for, and are cheap."""
SURE = ("again", "adopted", "acked ahead", "answer lost", "goodbye", "killed", "left", "pause", "native ack", "native listener")
"""What so few worlds must have met."""
OTHERS = 12
"""So many seeds are tried before a mutant counts as unnoticed."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return []


PLAYED = [(scenario, seed) for scenario in CAMPAIGN.swept for seed in thoroughly(list(ALL), FEW[scenario])]


@pytest.mark.parametrize(("scenario", "seed"), PLAYED)
def test_gateways_keep_their_word(scenario: str, seed: int, runs: list[Run]) -> None:
    run = CAMPAIGN.play(scenario, seed)
    runs.append(run)
    assert not run.wrong, run.report()


def test_the_sweep_met_what_it_is_for(runs: list[Run], record_property: Callable[[str, object], None]) -> None:
    counts = met(runs)
    record_property(FIGURES, f"what {len(runs)} simulated worlds with gateways met\n{CAMPAIGN.table(counts)}")
    assert len(runs) == len(PLAYED)
    assert not [what for what in SURE if not counts[what]], CAMPAIGN.table(counts)


@pytest.mark.thorough
def test_a_seed_is_the_same_run_again() -> None:
    assert CAMPAIGN.play("calm", 2).digest == CAMPAIGN.play("calm", 2).digest


def test_what_the_simulation_does_not_meet_has_a_stand_in() -> None:
    assert STAND_INS["gateways"].keys() >= UNMET


@pytest.mark.parametrize("name", played("gateways", (name for name in MUTANTS if name not in UNMET)))
def test_a_missing_guard_is_noticed(name: str) -> None:
    mutant = MUTANTS[name]
    for seed in dict.fromkeys((*mutant.seeds, *range(OTHERS))):
        if CAMPAIGN.play(mutant.scenario, seed, mutant=name, max_steps=mutant.steps).wrong:
            intact = CAMPAIGN.play(mutant.scenario, seed) if THOROUGH else None
            assert intact is None or not intact.wrong, f"it goes wrong with every guard in place: {intact.report()}"
            return
    pytest.fail(f"it goes unnoticed that {mutant.guard}")


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.calm])
def test_a_calm_run_does_not_need_it(name: str) -> None:
    assert not CAMPAIGN.play("calm", 2, mutant=name).wrong

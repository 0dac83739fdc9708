"""Gateways amid kills, stops and lost answers: a few runs, and their guards removed one at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.figures import FIGURES
from tests.simulation.gateways.campaign import CAMPAIGN
from tests.simulation.stand_ins import calm, played
from tests.simulation.sweeping import Run
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

ALL = range(1, 5)
FEW = {"gateways": [2], "steady": [1], "concurrent": [3], "overtaken": [0]}
"""Seeds that together meet what they are for, and are cheap."""
ONCE_WRONG = {"concurrent": [14]}
SURE = ("again", "adopted", "acked ahead", "answer lost", "goodbye", "killed", "left", "pause", "native ack", "native listener")
"""What so few worlds must have met."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return []


PLAYED = [
    (scenario, seed) for scenario in CAMPAIGN.swept for seed in thoroughly([*ALL, *ONCE_WRONG.get(scenario, [])], FEW[scenario])
]


@pytest.mark.parametrize(("scenario", "seed"), PLAYED)
def test_gateways_keep_their_word(scenario: str, seed: int, runs: list[Run]) -> None:
    run = CAMPAIGN.play(scenario, seed)
    runs.append(run)
    assert not run.wrong, run.report()


def test_the_sweep_met_what_it_is_for(runs: list[Run], record_property: Callable[[str, object], None]) -> None:
    assert len(runs) == len(PLAYED)
    record_property(FIGURES, f"what {len(runs)} simulated worlds with gateways met\n{CAMPAIGN.check_sweep(runs, SURE)}")


@pytest.mark.thorough
def test_a_seed_is_the_same_run_again() -> None:
    assert CAMPAIGN.play("calm", 2).digest == CAMPAIGN.play("calm", 2).digest


@pytest.mark.parametrize("name", played("gateways"))
def test_a_missing_guard_is_noticed(name: str) -> None:
    CAMPAIGN.check_noticed(name, others=12)


@pytest.mark.thorough
@pytest.mark.parametrize("name", calm("gateways"))
def test_a_calm_run_does_not_need_it(name: str) -> None:
    CAMPAIGN.check_calm(name)

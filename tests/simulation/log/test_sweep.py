"""The sweep that every `make test` runs: the protocol keeps its word in many worlds, and each of them can be played again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.figures import FIGURES
from tests.simulation.log.campaign import CAMPAIGN
from tests.simulation.log.scenarios import SCENARIOS
from tests.simulation.sweeping import Run
from tests.thorough import THOROUGH, thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = 160
IN_TURN = (
    *("crowd", "days", "names", "lives", "expiry", "files", "crowd", "trims"),
    *("careless", "relives", "uploads", "hasty", "damage", "jobs", "throng", "linking"),
)
"""What each of them is for, so that no two scenarios have one together; campaigns play every scenario at every seed."""
FEW = 2
"""Seeds of the others."""
CHEAP = {
    "days": [2],
    "hasty": [1],
    "names": [3],
    "lives": [1],
    "throng": [2],
    "careless": [1],
    "linking": [3, 47],
    "idempotent": [4],
    "evolves": [1],
    "calm": [1],
}
"""Seeds that together meet everything the sweep is for, at a third of the time; seed 0 of the scenarios that are not named."""


def seeds_of(scenario: str) -> list[int]:
    cheap = CHEAP.get(scenario, [0])
    if not THOROUGH:
        return cheap
    turns = [seed for seed in range(SEEDS) if IN_TURN[seed % len(IN_TURN)] == scenario] or range(FEW)
    return sorted({*turns, *cheap})


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return []


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_protocol_keeps_its_word(scenario: str, runs: list[Run]) -> None:
    found = [CAMPAIGN.play(scenario, seed) for seed in seeds_of(scenario)]
    runs += found
    wrong = [run.report() for run in found if run.wrong]
    assert not wrong, "\n".join(wrong)


def test_the_sweep_met_everything_it_is_for(runs: list[Run], record_property: Callable[[str, object], None]) -> None:
    assert len(runs) == sum(len(seeds_of(scenario)) for scenario in SCENARIOS)
    record_property(FIGURES, f"what {len(runs)} simulated worlds met\n{CAMPAIGN.check_sweep(runs, CAMPAIGN.must_happen)}")


@pytest.mark.parametrize(
    ("scenario", "seed"),
    [
        pytest.param("damage", 192, id="rows between a repair and the next damage were named as lost"),
        pytest.param(
            "expiry",
            184,
            id="most of the run was upkeep of a topic that hardly anybody wrote to",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_seed_that_went_wrong_once_goes_right(scenario: str, seed: int) -> None:
    run = CAMPAIGN.play(scenario, seed)
    assert not run.wrong, run.report()


@pytest.mark.parametrize("scenario", thoroughly(list(SCENARIOS), ["linking"]))
def test_a_seed_is_the_same_run_again(scenario: str) -> None:
    assert CAMPAIGN.play(scenario, 7).digest == CAMPAIGN.play(scenario, 7).digest


def test_worlds_without_faults_are_quiet() -> None:
    for scenario in thoroughly(list(SCENARIOS), list(SCENARIOS)[:1]):
        run = CAMPAIGN.play(scenario, 3, rate=0.0)
        assert not run.wrong, run.report()
        assert not any(what.startswith("fault: ") for what in run.counts)

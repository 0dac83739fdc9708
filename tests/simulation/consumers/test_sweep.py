"""The sweep of worlds with consumers that every `make test` runs; each of them can be played again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.figures import FIGURES
from tests.simulation.consumers.campaign import CAMPAIGN, MUST_HAPPEN
from tests.simulation.consumers.scenarios import SCENARIOS
from tests.simulation.sweeping import Run
from tests.thorough import THOROUGH, thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = 2
"""Of each scenario."""
CHEAP = {
    "orderly": [1],
    "concurrent": [2],
    "crowded": [4],
    "neighbours": [1],
    "deploys": [2],
    "resets": [1, 7500044],
    "pauses": [4],
    "narrow": [2],
    "sluggish": [1],
    "overtaken": [15],
    "restores": [1],
    "failovers": [55],
    "outage": [0, 2, 7600012],
    "heals": [2],
    "alters": [2],
    "mixed": [2],
    "calm": [2],
}
"""Seeds that together meet everything the sweep is for, at half the time; seed 0 of the scenarios that are not named."""
RARE = (
    "fault: late apply",
    "fault: 409",
    "fault: duplicate",
    "fault: 412 after own success",
    "end: too late",
    "left out, and behind a blocked message later",
    "left out, and read again by a new filter",
    "dead letter numbered anew",
    *(what for what in MUST_HAPPEN if what.startswith("outage: ")),
)
"""What so few worlds need not meet."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return []


def seeds_of(scenario: str) -> list[int]:
    return list(range(SEEDS)) if THOROUGH else CHEAP.get(scenario, [0])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_consumers_keep_their_word(scenario: str, runs: list[Run]) -> None:
    found = [CAMPAIGN.play(scenario, seed) for seed in seeds_of(scenario)]
    runs += found
    wrong = [run.report() for run in found if run.wrong]
    assert not wrong, "\n".join(wrong)


def test_the_sweep_met_everything_it_is_for(runs: list[Run], record_property: Callable[[str, object], None]) -> None:
    assert len(runs) == sum(len(seeds_of(scenario)) for scenario in SCENARIOS)
    seen = CAMPAIGN.check_sweep(runs, (what for what in MUST_HAPPEN if what not in RARE))
    record_property(FIGURES, f"what {len(runs)} simulated worlds with consumers met\n{seen}")


def test_a_seed_is_the_same_run_again() -> None:
    assert CAMPAIGN.play("orderly", 6).digest == CAMPAIGN.play("orderly", 6).digest


def test_worlds_without_faults_are_quiet() -> None:
    for scenario in thoroughly(list(SCENARIOS), list(SCENARIOS)[:1]):
        run = CAMPAIGN.play(scenario, 3, rate=0.0)
        assert not run.wrong, run.report()
        assert not any(what.startswith("fault: ") for what in run.counts)

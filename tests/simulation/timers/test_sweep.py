"""The sweep of worlds with timed messages that every `make test` runs; each of them can be played again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.figures import FIGURES
from tests.simulation.sweeping import Run
from tests.simulation.timers.campaign import CAMPAIGN

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SURE = ("claim", "recall noted", "listed", "gathered", "run named", "merge", "restart", "crash", "pause", "step_clock")
"""What so few worlds must have met."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return []


@pytest.mark.parametrize("scenario", CAMPAIGN.swept)
def test_timers_keep_their_word(scenario: str, runs: list[Run]) -> None:
    run = CAMPAIGN.play(scenario, 0)
    runs.append(run)
    assert not run.wrong, run.report()


def test_the_sweep_met_what_it_is_for(runs: list[Run], record_property: Callable[[str, object], None]) -> None:
    assert len(runs) == len(CAMPAIGN.swept)
    record_property(FIGURES, f"what {len(runs)} simulated worlds with timed messages met\n{CAMPAIGN.check_sweep(runs, SURE)}")


def test_a_calm_world_lets_everything_go_in_time() -> None:
    run = CAMPAIGN.play("calm", 3)
    assert not run.wrong, run.report()
    assert not any(what.startswith("fault: ") for what in run.counts)


def test_a_seed_is_the_same_run_again() -> None:
    assert CAMPAIGN.play("recalls", 6).digest == CAMPAIGN.play("recalls", 6).digest

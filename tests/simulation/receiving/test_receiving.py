"""SimpleConsumers amid faults: a sweep, and the guards of receipt handles removed one at a time."""

from __future__ import annotations

import pytest

from tests.simulation.receiving.campaign import CAMPAIGN
from tests.simulation.stand_ins import calm, played
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = thoroughly((0, 1, 2, 3, 4), (2,))
"""The one meets everything that is counted."""


def test_nothing_acknowledged_comes_back_and_nothing_is_lost() -> None:
    runs = [CAMPAIGN.play(scenario, seed) for scenario in CAMPAIGN.swept for seed in SEEDS]
    wrong = [run.report() for run in runs if run.wrong]
    assert not wrong, "\n".join(wrong)
    CAMPAIGN.check_sweep(runs, CAMPAIGN.must_happen)


@pytest.mark.parametrize("name", played("receiving"))
def test_a_missing_guard_is_noticed(name: str) -> None:
    CAMPAIGN.check_noticed(name, others=12)


@pytest.mark.parametrize("name", calm("receiving"))
def test_a_calm_run_does_not_need_it(name: str) -> None:
    CAMPAIGN.check_calm(name)

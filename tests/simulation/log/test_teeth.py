"""The simulation has teeth: without any one guard, a run goes wrong that goes right with it."""

from __future__ import annotations

import pytest

from tests.simulation.log.campaign import CAMPAIGN
from tests.simulation.stand_ins import calm, played

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", played("log"))
def test_a_missing_guard_is_noticed(name: str) -> None:
    CAMPAIGN.check_noticed(name, others=40)


@pytest.mark.thorough
@pytest.mark.parametrize("name", calm("log"))
def test_a_calm_run_does_not_need_it(name: str) -> None:
    CAMPAIGN.check_calm(name)

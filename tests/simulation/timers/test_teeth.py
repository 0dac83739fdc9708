"""The simulation of timed messages has teeth: without any one guard, a run goes wrong that goes right with it."""

from __future__ import annotations

import pytest

from tests.simulation.stand_ins import played
from tests.simulation.timers.campaign import CAMPAIGN

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", played("timers"))
def test_a_missing_guard_is_noticed(name: str) -> None:
    CAMPAIGN.check_noticed(name, others=30)

"""Interleavings of transactions, by hand: each goes right, and each guard that chance would need long to miss is missed there."""

from __future__ import annotations

import pytest

from tests.simulation.transactions.campaign import CAMPAIGN
from tests.simulation.transactions.scripts import SCRIPTS

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPTED = [name for name, mutant in CAMPAIGN.mutants.items() if mutant.scenario in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_goes_right(script: str) -> None:
    run = CAMPAIGN.play(script, 0)
    assert not run.wrong, run.report()


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_missing_guard_is_noticed(name: str) -> None:
    assert CAMPAIGN.play(CAMPAIGN.mutants[name].scenario, 0, mutant=name).wrong, f"it goes unnoticed that {name} is missing"

"""The sweep of worlds with transactions that every `make test` runs; each of them can be played again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.figures import FIGURES
from tests.simulation.sweeping import Run
from tests.simulation.transactions.campaign import CAMPAIGN
from tests.simulation.transactions.scenarios import SCENARIOS

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

MET = (
    "restart",
    "commit",
    "rollback",
    "check-back",
    "transaction: committed",
    "transaction: rolled back",
    "settled by a transaction",
)
"""What even so few worlds meet."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return []


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_transactions_keep_their_word(scenario: str, runs: list[Run]) -> None:
    run = CAMPAIGN.play(scenario, 0)
    runs.append(run)
    assert not run.wrong, run.report()


def test_the_sweep_met_what_it_is_for(runs: list[Run], record_property: Callable[[str, object], None]) -> None:
    assert len(runs) == len(SCENARIOS)
    record_property(FIGURES, f"what {len(runs)} simulated worlds with transactions met\n{CAMPAIGN.check_sweep(runs, MET)}")


def test_a_seed_is_the_same_run_again() -> None:
    assert CAMPAIGN.play("late finisher", 6).digest == CAMPAIGN.play("late finisher", 6).digest

"""One lake and two coordination tables, amid crashes, stops and moves: a few runs, and their guards removed one at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.figures import FIGURES
from tests.simulation.stand_ins import calm, played
from tests.simulation.sweeping import Run
from tests.simulation.tables.campaign import CAMPAIGN
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

FEW = {"moves": [0, 1, 2], "late": [0], "strays": [0]}
"""Seeds that together meet what they are for."""
PLAYED = [(scenario, seed) for scenario in CAMPAIGN.swept for seed in thoroughly(list(range(8)), FEW[scenario])]


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return []


@pytest.mark.parametrize(("scenario", "seed"), PLAYED)
def test_one_table_is_the_lake_s(scenario: str, seed: int, runs: list[Run]) -> None:
    run = CAMPAIGN.play(scenario, seed)
    runs.append(run)
    assert not run.wrong, run.report()


def test_the_sweep_met_what_it_is_for(runs: list[Run], record_property: Callable[[str, object], None]) -> None:
    assert len(runs) == len(PLAYED)
    record_property(
        FIGURES, f"what {len(runs)} simulated lakes with two tables met\n{CAMPAIGN.check_sweep(runs, CAMPAIGN.must_happen)}"
    )


@pytest.mark.thorough
def test_a_seed_is_the_same_run_again() -> None:
    assert CAMPAIGN.play("calm", 1).digest == CAMPAIGN.play("calm", 1).digest


@pytest.mark.parametrize("name", played("tables"))
def test_a_missing_guard_is_noticed(name: str) -> None:
    CAMPAIGN.check_noticed(name, others=12)


@pytest.mark.thorough
@pytest.mark.parametrize("name", calm("tables"))
def test_a_calm_run_does_not_need_it(name: str) -> None:
    CAMPAIGN.check_calm(name)

"""The sweep that every `make test` runs: the protocol keeps its word in hundreds of worlds, and each of them can be played again."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.campaign import Run, never_happened, play, sweep
from tests.simulation.scenarios import SCENARIOS

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

SEEDS = 200
BLOCKS = 4


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return []


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_protocol_keeps_its_word(block: int, runs: list[Run]) -> None:
    size = SEEDS // BLOCKS
    found = sweep(range(block * size, (block + 1) * size))
    runs += found
    wrong = [f"{run.scenario}, seed {run.seed}: {run.wrong[0]}" for run in found if run.wrong]
    assert not wrong, "\n".join(wrong)


def test_the_sweep_met_everything_it_is_for(runs: list[Run]) -> None:
    assert len(runs) == SEEDS
    missing = never_happened(runs)
    total = sum((run.counts for run in runs), Counter[str]())
    assert not missing, f"never happened: {missing}; seen: {sorted(total.items())}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_seed_is_the_same_run_again(scenario: str) -> None:
    assert play(scenario, 7).digest == play(scenario, 7).digest


def test_worlds_without_faults_are_quiet() -> None:
    for scenario in SCENARIOS:
        run = play(scenario, 3, rate=0.0)
        assert not run.wrong, f"{scenario}: {run.wrong[0]}"
        assert not any(what.startswith("fault: ") for what in run.counts)

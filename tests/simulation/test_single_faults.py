"""Small stories without faults, and a sample of their single faults; `make exhaustive ARGS="--world …"` plays every one of them."""

from __future__ import annotations

import pytest

from tests.simulation.consumers.campaign import CAMPAIGN as CONSUMERS
from tests.simulation.consumers.campaign import GROWTH
from tests.simulation.sweeping import campaign_of
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("world", "every", "least"),
    [
        ("log", thoroughly(40, 331), thoroughly(25, 7)),
        ("consumers", thoroughly(800, 2000), thoroughly(5, 2)),
        ("timers", 600, 2),
        ("transactions", 1000, 2),
    ],
)
def test_single_faults_are_survived(world: str, every: int, least: int) -> None:
    runs = campaign_of(world).sample(every)
    assert len(runs) > least
    wrong = [run.report() for run in runs if run.wrong]
    assert not wrong, "\n".join(wrong)
    if world == "log":
        faults = {what for run in runs for what in run.counts if what.startswith("fault: ")}
        assert len(faults) > thoroughly(10, 4)


@pytest.mark.timeout(7200)
def test_any_single_fault_is_survived_while_a_topic_grows() -> None:
    runs = CONSUMERS.exhaustive(CONSUMERS.singles_of(GROWTH)[:: thoroughly(1, 400)])
    assert len(runs) > thoroughly(1_000, 4)
    wrong = [run.report() for run in runs if run.wrong]
    assert not wrong, "\n".join(wrong)

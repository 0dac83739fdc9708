"""Small stories without faults, and a sample of their single faults; `make exhaustive ARGS="--world …"` plays every one of them."""

from __future__ import annotations

import pytest

from tests.simulation.sweeping import Campaign
from tests.simulation.timers.campaign import CAMPAIGN as TIMERS
from tests.simulation.transactions.campaign import CAMPAIGN as TRANSACTIONS

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("campaign", "every"), [pytest.param(TIMERS, 600, id="timers"), pytest.param(TRANSACTIONS, 1000, id="transactions")]
)
def test_single_faults_are_survived(campaign: Campaign, every: int) -> None:
    singles = [single for story in campaign.stories for single in campaign.singles_of(story)]
    runs = campaign.exhaustive(singles[every // 2 :: every])
    assert len(runs) > 2
    wrong = [run.report() for run in runs if run.wrong]
    assert not wrong, "\n".join(wrong)

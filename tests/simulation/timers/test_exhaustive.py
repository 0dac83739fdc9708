"""Small stories without faults, and a sample of their single faults; `make exhaustive ARGS="--world timers"` plays every one of them."""

from __future__ import annotations

import pytest

from tests.simulation.timers.campaign import CAMPAIGN

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

EVERY = 600


def test_single_faults_are_survived() -> None:
    singles = [single for story in CAMPAIGN.stories for single in CAMPAIGN.singles_of(story)]
    runs = CAMPAIGN.exhaustive(singles[EVERY // 2 :: EVERY])
    assert len(runs) > 2
    wrong = [run.report() for run in runs if run.wrong]
    assert not wrong, "\n".join(wrong)

"""Topics and groups are deleted and made again under consumers; `make campaign` plays more of it."""

from __future__ import annotations

import pytest

from tests.simulation.consumers.campaign import CAMPAIGN
from tests.simulation.sweeping import Run, met
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]
PAID = (
    7500004,  # an own write meets the acknowledgement of what the schedule has as out
    7500021,  # the last life has fewer queues, and letters of the others were lost
)


def test_nothing_of_one_life_is_taken_for_another_s() -> None:
    runs: list[Run] = [CAMPAIGN.play("lives", seed) for seed in (*thoroughly(range(4), ()), *PAID)]
    wrong = [run.report() for run in runs if run.wrong]
    assert not wrong, "\n".join(wrong)
    counts = met(runs)
    for what in ("made again: topic", "made again: group", "dead letters", "lost letters", "error: topic_deleted"):
        assert counts[what], f"{what} never happened"

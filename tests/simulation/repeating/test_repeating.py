"""Clients that repeat receives amid faults: a sweep, and the guards of named receives removed one at a time."""

from __future__ import annotations

import pytest

from tests.simulation.repeating.campaign import CAMPAIGN
from tests.simulation.stand_ins import played
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(300)]

PAID = 19
"""Its owner took back what another member had given again, as the first receive was cancelled."""
LOOKED_AT = 13
"""The table's last write was looked at, and told of another's acknowledgement; its owner looked for what was due without a rest."""
SEEDS = (*thoroughly(range(8), (4,)), PAID, LOOKED_AT)


def test_a_repeated_receive_gives_what_is_out_to_it_and_nothing_else() -> None:
    runs = [CAMPAIGN.play("repeats", seed) for seed in SEEDS]
    wrong = [run.report() for run in runs if run.wrong]
    assert not wrong, "\n".join(wrong)
    CAMPAIGN.check_sweep(runs, CAMPAIGN.must_happen)


@pytest.mark.parametrize("name", played("repeating"))
def test_a_missing_guard_is_noticed(name: str) -> None:
    CAMPAIGN.check_noticed(name, others=12)

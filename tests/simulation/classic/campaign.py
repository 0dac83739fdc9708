"""The long runs with groups of Kafka's clients: ``python -m tests.simulation.campaign sweep --world classic``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tests.simulation.classic.world import ClassicGroups
from tests.simulation.sweeping import Campaign, Played

SCENARIOS: Mapping[str, Callable[..., Played]] = {
    "groups": ClassicGroups,
    "deaths": partial(ClassicGroups, deaths=True),
    "stops": partial(ClassicGroups, stops=True),
    "resets": partial(ClassicGroups, rate=0.01, resets=True),
    "overtaken": partial(ClassicGroups, rate=0.05, overtaken=True),
    "slow": partial(ClassicGroups, rate=0.001, slow=True),
    "calm": lambda seed, rate=0.0: ClassicGroups(seed, rate=0.0),
}
CAMPAIGN = Campaign(
    world="classic",
    scenarios=SCENARIOS,
    swept=("groups", "deaths", "stops", "resets", "overtaken", "slow"),
    must_happen=(
        "killed",
        "left",
        "committed beside",
        "pause",
        "reset",
        "unanswered",
        "OFFSET_COMMIT: NONE",
        "HEARTBEAT: REBALANCE_IN_PROGRESS",
    ),
)

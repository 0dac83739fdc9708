"""The long runs with leases: ``python -m tests.simulation.campaign sweep --world leases``."""

from __future__ import annotations

from functools import partial

from tests.simulation.leases.scenarios import attacked, calm, skirmish
from tests.simulation.singles import Story
from tests.simulation.sweeping import Campaign

CAMPAIGN = Campaign(
    world="leases",
    scenarios={
        "attacked": attacked,
        "skirmish": skirmish,
        "far skirmish": partial(skirmish, far=True),
        "calm": lambda seed, rate=0.0: calm(seed),
    },
    swept=("attacked", "skirmish", "far skirmish"),
    is_small=False,
    stories={"calm": Story(make=lambda table=None: calm(1, plan=table), meets=())},
    services=("table",),
    spared=frozenset({"founder"}),
)

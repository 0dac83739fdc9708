"""The long runs of SimpleConsumers: ``python -m tests.simulation.campaign sweep --world receiving``."""

from __future__ import annotations

from functools import partial

from tests.simulation.receiving.world import Play
from tests.simulation.sweeping import Campaign

CAMPAIGN = Campaign(
    world="receiving",
    scenarios={
        "receives": Play,
        "grows": partial(Play, grows=(6, 12)),
        "calm": lambda seed, rate=0.0: Play(seed, calm=not rate),
    },
    swept=("receives", "grows"),
    must_happen=(
        "crash",
        "receipt_expired",
        "receipt_outdated",
        "expired",
        "acked beside",
        "again",
        "extended",
        "ended at once",
        "reset",
        "growth",
    ),
    is_small=False,
)

"""The long runs of one lake with two tables: ``python -m tests.simulation.campaign sweep --world tables``."""

from __future__ import annotations

from functools import partial

from tests.simulation.sweeping import Campaign
from tests.simulation.tables.world import Tables

CAMPAIGN = Campaign(
    world="tables",
    scenarios={
        "moves": Tables,
        "late": partial(Tables, rate=0.005, late=True, blows_every_s=25.0),
        "strays": partial(Tables, moves=False),
        "calm": lambda seed, rate=0.0: Tables(seed, rate=rate),
    },
    swept=("moves", "late", "strays"),
    must_happen=("moved", "told", "in use", "crashed amid a move", "given up", "pause"),
    is_small=False,
)

"""The long runs with gateways: ``python -m tests.simulation.campaign sweep --world gateways``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tests.simulation.gateways.world import Gateways
from tests.simulation.sweeping import Campaign, Played

SCENARIOS: Mapping[str, Callable[..., Played]] = {
    "gateways": Gateways,
    "steady": partial(Gateways, steady=True),
    "concurrent": partial(Gateways, steady=True, orderly=False),
    "overtaken": partial(Gateways, rate=0.05, steady=False, overtaken=True),
    "expiring": partial(Gateways, rate=0.01, steady=False, expiring=True),
    "calm": lambda seed, rate=0.0: Gateways(seed, rate=0.0),
}
"""Steady: only gateways and clients fail, so that it is certain what must hold."""
MUST_HAPPEN = (
    "again", "again at another", "adopted", "inherited", "acked ahead", "answer lost", "cut connection", "cut behind an answer", "freed",
    "goodbye", "lost client", "killed", "left", "pause", "long handler", "native ack", "native listener", "native killed", "AckMessage: OK",
    "ForwardMessageToDeadLetterQueue: OK",
)  # fmt: skip

CAMPAIGN = Campaign(
    world="gateways",
    scenarios=SCENARIOS,
    swept=("gateways", "steady", "concurrent", "overtaken"),
    must_happen=MUST_HAPPEN,
    teeth_steps=400_000,
    calm_seed=2,
)

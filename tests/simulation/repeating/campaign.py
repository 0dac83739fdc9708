"""The long runs of clients that repeat receives: ``python -m tests.simulation.campaign sweep --world repeating``."""

from __future__ import annotations

from tests.simulation.repeating.world import Repeats
from tests.simulation.sweeping import Campaign

CAMPAIGN = Campaign(
    world="repeating",
    scenarios={"repeats": Repeats, "calm": lambda seed, rate=0.0: Repeats(seed, calm=not rate)},
    swept=("repeats",),
    must_happen=(
        "crash",
        "answer lost",
        "again",
        "again at another",
        "give up",
        "renew",
        "receipt_expired",
        "not answered: CancelledError",
    ),
    is_small=False,
)

"""The long runs with dead letters: ``python -m tests.simulation.campaign sweep --world letters``."""

from __future__ import annotations

from functools import partial

from tests.simulation.letters.world import VEILED, Graveyard, Plot, graveyard
from tests.simulation.sweeping import Campaign

MUST_HAPPEN = (
    "crash", "pause", "suspend", "restart", "reset", "queue lost", "taken with letters assigned", "found written", "redriven",
    "found redriven", "veiled", "error: store_unavailable", "fault: lost answer", "fault: crash after", "fault: pause before",
)  # fmt: skip


def calm(seed: int | str, *, rate: float = 0.0, veiled: bool = False) -> Graveyard:
    """One owner of one queue, whom nothing befalls."""
    return Graveyard(seed, plot=Plot(queues=1, owners=1, redrivers=0, resets=0, blows_every_s=0.0, veiled=VEILED.veiled * veiled))


CAMPAIGN = Campaign(
    world="letters",
    scenarios={
        "plain": partial(graveyard, rate=0.1),
        "choosing": partial(graveyard, plot=Plot(choosing=True)),
        "veiled": partial(graveyard, rate=0.1, plot=VEILED),
        "calm": calm,
        "calm, veiled": partial(calm, veiled=True),
    },
    swept=("plain", "choosing", "veiled"),
    must_happen=MUST_HAPPEN,
    teeth_steps=30_000,
)
"""A mutant may take three times the steps that an intact run takes."""

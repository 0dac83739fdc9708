"""The long runs with timed messages: ``python -m tests.simulation.campaign sweep --world timers``."""

from __future__ import annotations

from tests.simulation.faults import Fault
from tests.simulation.sweeping import Campaign
from tests.simulation.timers.scenarios import SCENARIOS
from tests.simulation.timers.stories import STORIES, step_of

MUST_HAPPEN = (
    *(f"fault: {fault.value}" for fault in Fault),
    "claim", "message claimed", "recall noted", "recall: done", "recall: failed", "listed", "gathered", "run named", "merge", "run deleted",
    "topic created again", "restart", "deploy", "pause", "suspend", "crash", "step_clock", "wild clock step",
    "write landed after its caller was gone",
)  # fmt: skip


CAMPAIGN = Campaign(
    world="timers",
    scenarios=SCENARIOS,
    swept=tuple(SCENARIOS),
    must_happen=MUST_HAPPEN,
    stories=STORIES,
    step_of=step_of,
    services=("store",),
    teeth_steps=40_000,
    spared=frozenset({"founder"}),
)

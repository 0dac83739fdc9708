"""The long runs with timed messages: ``python -m tests.simulation.campaign sweep --world timers``."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.faults import Fault
from tests.simulation.requests import SimService
from tests.simulation.sweeping import Campaign, Played
from tests.simulation.timers.mutants import MUTANTS
from tests.simulation.timers.scenarios import SCENARIOS
from tests.simulation.timers.stories import STORIES, step_of
from tests.simulation.timers.world import Timing

MUST_HAPPEN = (
    *(f"fault: {fault.value}" for fault in Fault),
    "claim", "message claimed", "recall noted", "recall: done", "recall: failed", "listed", "gathered", "run named", "merge", "run deleted",
    "topic created again", "restart", "deploy", "pause", "suspend", "crash", "step_clock", "clock step by hours",
    "write landed after its caller was gone",
)  # fmt: skip


def _services(world: Played) -> Mapping[str, SimService[object]]:
    assert isinstance(world, Timing)
    return {"store": world.store}  # type: ignore[dict-item]


CAMPAIGN = Campaign(
    world="timers",
    scenarios=SCENARIOS,
    swept=tuple(SCENARIOS),
    mutants=MUTANTS,
    must_happen=MUST_HAPPEN,
    stories=STORIES,
    step_of=step_of,
    services=_services,
    spared=frozenset({"founder"}),
)

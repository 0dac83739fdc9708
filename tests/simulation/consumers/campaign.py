"""The long runs with consumers: ``python -m tests.simulation.campaign sweep --world consumers``."""

from __future__ import annotations

from functools import partial

from tests.simulation.consumers.growing import since_it_grows
from tests.simulation.consumers.scenarios import SCENARIOS, small_growth, small_work
from tests.simulation.faults import Fault
from tests.simulation.singles import Story
from tests.simulation.sweeping import Campaign

MUST_HAPPEN = (
    *(f"fault: {fault.value}" for fault in Fault),
    "restart", "deploy", "reset", "order: redrive", "ordered: release", "ordered: skip", "redriven", "take: from the dead",
    "take: of a queue that was given back", "take: suspects", "start: repeated", "start: alone in its process", "death alone: a strike",
    "heartbeat: fenced", "heartbeat: left", "blocked", "waits alone", "parked", "dead letter", "end: failed", "end: unnamed", "end: rejected",
    "end: cut", "end: too late", "pause", "suspend", "crash", "step_clock", "write landed after its caller was gone",
    "spill: left the cell", "spill: came back in part", "spill: merged", "spill: taken over",
    "the table was put back", "dead letter numbered anew", "the bucket was put back", "the group was reset",
    "the server failed over", "start: by who is not aware",
    "order: alter", "left out by a filter", "left out, and behind a blocked message later",
    "left out, and read again by a new filter", "error: invalid_argument",
    "growth", "start: behind a former queue", "start: beside what is blocked in a former queue",
    *(f"outage: {name}" for name in ("store", "table", "dead letters", "log", "cell", "record", "heartbeats", "refused")),
)  # fmt: skip

GROWTH = "a topic grows twice"

CAMPAIGN = Campaign(
    world="consumers",
    scenarios=SCENARIOS,
    swept=tuple(SCENARIOS),
    must_happen=MUST_HAPPEN,
    teeth_steps=120_000,
    calm_seed=8,
    stories={
        "small": Story(make=partial(small_work, 1), meets=()),
        GROWTH: Story(
            make=partial(small_growth, 11), meets=("growth", "start: behind a former queue", "end: failed"), befallen=since_it_grows
        ),
    },
    services=("table", "store"),
    spared=frozenset({"founder", "looker", "auditor"}),
)

"""The long runs of the log: ``python -m tests.simulation.campaign sweep``."""

from __future__ import annotations

from tests.simulation.faults import DRAWN, FaultPlan
from tests.simulation.log.feeders import SCENARIOS as FEEDS
from tests.simulation.log.scenarios import SCENARIOS, small_work
from tests.simulation.log.world import World
from tests.simulation.singles import Story
from tests.simulation.sweeping import Campaign

MUST_HAPPEN = (
    *(f"fault: {fault.value}" for fault in DRAWN),
    "ack", "lost race", "hand-over", "step-in", "void batch", "fenced", "trim", "trimmed entry", "late answer: believed",
    "late answer: refused", "a reader was trimmed past", "job linked", "collected hand-over", "collected job object",
    "topic created again", "restart", "wild clock step", "refused by clock", "write landed after its caller was gone",
    "write landed twice", "send: unknown_outcome", "send: not_written", "send: producer_failed", "send: fenced", "replay",
    "idempotent append of several", "idempotent: duplicate", "idempotent: unknown", "idempotent: gave up", "idempotent: sent again",
    "expired row", "large batch beside its entry", "damaged rows", "damaged footer", "repair",
)  # fmt: skip


def _small(*, store: FaultPlan | None = None) -> World:
    return small_work(1, store)


CAMPAIGN = Campaign(
    world="log",
    scenarios={**SCENARIOS, **{f"feeds: {name}": make for name, make in FEEDS.items()}},
    swept=tuple(SCENARIOS),
    must_happen=MUST_HAPPEN,
    teeth_steps=60_000,
    calm_seed=5,
    stories={"small": Story(make=_small, meets=())},
    services=("store",),
    spared=frozenset({"auditor", "founder"}),
)
"""What an intact protocol does in these worlds takes a tenth to a half of the steps that a mutant may take."""

"""The long runs with transactions: ``python -m tests.simulation.campaign sweep --world transactions``."""

from __future__ import annotations

from functools import partial

from tests.simulation.faults import Fault
from tests.simulation.sweeping import Campaign
from tests.simulation.transactions.scenarios import SCENARIOS
from tests.simulation.transactions.scripts import SCRIPTS, Scripted
from tests.simulation.transactions.stories import STORIES, step_of

MUST_HAPPEN = (
    *(f"fault: {fault.value}" for fault in Fault),
    "restart", "pause", "suspend", "crash", "step_clock", "wild clock step", "topic deleted", "commit", "commit repeated",
    "commit: rolled back before", "rollback", "rollback: committed before", "check-back", "check-back unknown", "check-back raises",
    "check-back hangs", "operator: committed", "operator: rolled_back", "transaction: committed", "transaction: rolled back",
    "transaction: never in the table", "paid, and ended by time", "write landed after its caller was gone",
)  # fmt: skip


CAMPAIGN = Campaign(
    world="transactions",
    scenarios={**SCENARIOS, **{name: partial(Scripted, script) for name, script in SCRIPTS.items()}},
    swept=tuple(SCENARIOS),
    must_happen=MUST_HAPPEN,
    stories=STORIES,
    step_of=step_of,
    services=("store", "table"),
    teeth_steps=40_000,
    spared=frozenset({"founder", "filler", "auditor"}),
)

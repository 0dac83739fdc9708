"""The long runs of the log: ``python -m tests.simulation.campaign sweep``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from penstock.log.errors import ViewLost
from penstock.log.tail.view import View
from tests.simulation.checker import check
from tests.simulation.faults import DRAWN, FaultPlan
from tests.simulation.feeders import SCENARIOS as FEEDS
from tests.simulation.patches import attribute
from tests.simulation.scenarios import SCENARIOS, small_work
from tests.simulation.singles import Story
from tests.simulation.sweeping import Campaign
from tests.simulation.world import World

MUST_HAPPEN = (
    *(f"fault: {fault.value}" for fault in DRAWN),
    "ack", "lost race", "hand-over", "step-in", "void batch", "fenced", "trim", "trimmed entry", "late answer: believed",
    "late answer: refused", "a reader was trimmed past", "job linked", "collected hand-over", "collected job object",
    "topic created again", "restart", "clock step beyond 5 minutes", "refused by clock", "write landed after its caller was gone",
    "write landed twice", "send: unknown_outcome", "send: not_written", "send: producer_failed", "send: fenced", "replay",
    "expired row", "large batch beside its entry", "damaged rows", "damaged footer", "repair",
)  # fmt: skip


class LogRun:
    """A world of the log, played and judged."""

    def __init__(self, world: World) -> None:
        self.world, self.kernel = world, world.kernel

    @property
    def counts(self) -> Counter[str]:
        return self.world.counts + self.world.history.counts

    def run(self) -> list[str]:
        with counting_late_answers(self.world):
            return check(self.world.run())


@contextmanager
def counting_late_answers(world: World) -> Iterator[None]:
    """Count what becomes of answers about the tail that come when the view is too old to believe them."""

    def make(original: Any) -> Any:
        async def confirm(self: View, v: int) -> None:
            late = self.is_aged
            try:
                await original(self, v)
            except ViewLost:
                world.counts["late answer: refused"] += 1
                raise
            world.counts["late answer: believed"] += late

        return confirm

    with attribute(View, "confirm", make)():
        yield


def _run_of(make: Callable[..., World], seed: int | str, **options: Any) -> LogRun:
    return LogRun(make(seed, **options))


def _small(*, store: FaultPlan | None = None) -> LogRun:
    return LogRun(small_work(1, store))


_MADE: Mapping[str, Callable[..., World]] = {**SCENARIOS, **{f"feeds: {name}": make for name, make in FEEDS.items()}}

CAMPAIGN = Campaign(
    world="log",
    scenarios={name: partial(_run_of, make) for name, make in _MADE.items()},
    swept=tuple(SCENARIOS),
    must_happen=MUST_HAPPEN,
    teeth_steps=60_000,
    calm_seed=5,
    stories={"small": Story(make=_small, meets=())},
    services=lambda run: {"store": run.world.store},
    spared=frozenset({"auditor", "founder"}),
)
"""What an intact protocol does in these worlds takes a tenth to a half of the steps that a mutant may take."""

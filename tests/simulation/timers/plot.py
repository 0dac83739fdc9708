"""How large a run with timed messages is, and what befalls it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from penstock.coordinator.timers.options import TimerOptions
from tests.simulation.simulated import SimulatedPlot

TOPIC = "orders"
SMALL = TimerOptions(
    claim_rows=3,
    flush_rows=4,
    merge_runs=2,
    group_bytes=2_000,
    recalled_rows=3,
    ahead=timedelta(seconds=2),
    settle=timedelta(seconds=5),
)
"""So that a few dozen messages make many claims, runs and merges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot(SimulatedPlot):
    """One run."""

    queues: int = 2
    messages: int = 50
    burst: tuple[int, int] = (1, 5)
    send_for_s: float = 40.0
    ahead_s: tuple[float, float] = (0.01, 60.0)
    """How long before they are due messages are sent, every power of ten as often; some are due at once, and some were due long ago."""
    slots_s: float = 2.0
    """Many are due at the same times, so far from each other."""
    options: TimerOptions = SMALL
    players: int = 2
    """Machines on which the topic is played at once: leases, which only make it rare, are left out."""
    cells_on_store: bool = True
    recalls_every_s: float = 1.5
    lists_every_s: float = 10.0
    maintained_every_s: float = 0.0
    deletes: int = 0
    """How often the topic is deleted and made anew."""
    deletes_every_s: float = 15.0
    wild_step: float | None = 0.3
    offset_ms: int = 120_000
    """A writer may be five minutes off."""
    drift: float = 0.0001
    quiet_s: float = 3_600.0
    """So long everything may take to come to an end without faults, beside what is not due yet."""
    late_s: float | None = None
    """How late a message may be in quiet; None: not judged."""
    idle_s: float = 0.0
    """So long nobody plays, behind the faults: all processes are gone."""
    weights: dict[str, float] = field(default_factory=lambda: {"slot": 5.0, "any": 4.0, "past": 2.0, "now": 1.0})
    """Of kinds of delivery times."""

"""How large a run with transactions is, and what befalls it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.simulated import SimulatedPlot

GROUP = "checkout"
TOPICS = ("orders", "mails")
SOURCE = "carts"
CONSUMERS = "pricing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot(SimulatedPlot):
    """How large a run is."""

    topics: int = 2
    """That transactions write to."""
    queues: int = 2
    senders: int = 2
    transactions: int = 6
    """Of each sender."""
    at_once: int = 1
    """So many a sender has open side by side."""
    think_s: tuple[float, float] = (0.01, 5.0)
    """Between two steps of an application."""
    forgets: float = 0.15
    """How often an application neither commits nor rolls back."""
    backs_out: float = 0.2
    """How often its local work ends otherwise, and it rolls back."""
    fast: float = 0.0
    """How often an application pays before its messages are durable, which it must not: `careless` worlds only."""
    first_check_s: float = 60.0
    check_every_s: tuple[float, float] = (1.0, 20.0)
    """Between two looks of a sender for what is to be checked."""
    unsure: float = 0.2
    """How often a checker says UNKNOWN, raises or hangs."""
    finishers: int = 2
    finish_every_s: tuple[float, float] = (1.0, 120.0)
    collectors: int = 1
    collect_every_s: tuple[float, float] = (1_800.0, 7_200.0)
    operator_every_s: float = 0.0
    """Between two orders of operators, on average; 0: none."""
    deletes_every_s: float = 0.0
    """Between two deletions of a topic, which is made again at once; 0: none."""
    consumers: int = 0
    """Machines that consume, process and produce."""
    messages: int = 0
    """For these."""
    invisible_s: tuple[float, float] = (10.0, 60.0)
    pause_s: tuple[float, float] = (0.1, 600.0)
    step_ms_max: int = 200_000
    wild_step: float | None = 0.0
    wild_ms: tuple[int, int] = (3_600_000, 36_000_000)
    crashes: int = 1
    finisher_offset_ms: int = 2_000
    lease_s: float = 5.0
    faults_end_s: float = 400.0
    rest_every_s: float = 12 * 3600.0
    """Between two rounds of finishers and collectors, when all is decided and days pass."""
    rest_entries: int = 10
    """That say nothing, of each of these days."""
    quiet_s: float = 12 * 3600.0
    """So long everything may take to be decided and linked without faults."""

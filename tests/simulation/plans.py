"""What the worlds of the scenarios share: times, chance by seed, and plans of faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from tests.simulation.faults import Call, Fault, RandomFaults
from tests.simulation.kernel import Kernel

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


def swarm(seed: int | str, rate: float) -> RandomFaults | None:
    """Some kinds of fault, more of one than of another; none with a rate of 0."""
    return RandomFaults.swarm(Kernel(seed).rng, rate=rate) if rate else None


def rng_of(seed: int | str) -> random.Random:
    """The chance that shapes a world, apart from what befalls it."""
    return Kernel(seed).rng("scenario")


class Sparing(RandomFaults):
    """Spares the processes whose names begin so."""

    def __init__(self, rates: Mapping[Fault, float], rng_of: Callable[[str], random.Random], spared: str) -> None:
        super().__init__(rates, rng_of)
        self._spared = spared

    def decide(self, call: Call) -> Fault | None:
        return None if call.process.startswith(self._spared) else super().decide(call)


class Choosing(RandomFaults):
    """Befalls only requests whose keys contain ``part``."""

    def __init__(self, rates: Mapping[Fault, float], rng_of: Callable[[str], random.Random], part: str) -> None:
        super().__init__(rates, rng_of)
        self._part = part

    def decide(self, call: Call) -> Fault | None:
        return super().decide(call) if self._part in call.key else None


def only_stops(seed: int | str, rate: float, *, spared: str = "-") -> RandomFaults | None:
    """Long stops and nothing else; none of processes whose names begin with ``spared``."""
    kinds = (Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER, Fault.SUSPEND_BEFORE, Fault.SUSPEND_AFTER)
    return Sparing(dict.fromkeys(kinds, rate / 4), Kernel(seed).rng, spared) if rate else None

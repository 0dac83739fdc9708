"""How long requests take, and what becomes of one that meets a fault."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from tests.simulation.faults import Fault

S3_STANDARD_MS: Mapping[str, tuple[float, float]] = {
    "put": (28, 75),
    "put_large": (120, 600),
    "get": (25, 85),
    "get_range": (25, 85),
    "list": (25, 60),
    "list_folders": (25, 60),
    "delete": (20, 60),
    "clock": (25, 60),
}
"""Median and 99th percentile of an answer, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """How long things take. Ranges are (least, most), drawn so that every power of ten is equally likely."""

    latency_ms: Mapping[str, tuple[float, float]] = field(default_factory=lambda: S3_STANDARD_MS)
    very_slow: float = 0.002
    """How often an answer takes 5 to 100 times as long."""
    time_out_s: float = 30.0
    slow_s: tuple[float, float] = (2.0, 60.0)
    late_s: tuple[float, float] = (30.0, 4 * 3600.0)
    pause_s: tuple[float, float] = (1.0, 3 * 86_400.0)
    page_keys: int = 1000
    """How many keys one LIST request answers; a longer list is several requests, and writes may fall between them."""

    def latency_s(self, verb: str, rng: random.Random) -> float:
        drawn = rng.lognormvariate(*_lognormal(*self.latency_ms[verb]))
        if rng.random() < self.very_slow:
            drawn *= rng.uniform(5, 100)
        return drawn / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What will become of a request. All times are from the event before, in seconds."""

    first: Fault | None = None
    """What befalls the process instead of sending, or before it."""
    stop_s: float = 0.0
    effect_s: float | None = None
    """From sending to the effect; None when it never has one."""
    answer_s: float | None = None
    """From the effect to the answer; None when there is none."""
    own_conflict: bool = False
    """The answer to a successful effect is a conflict."""
    error_s: float | None = None
    """From sending to the client's own error, or the store's refusal."""
    undecided: bool = False
    """That error is a conflict."""
    then: Fault | None = None
    """What befalls the process as the request takes effect."""
    again_s: float | None = None
    """From the effect to its repetition."""
    held_s: float | None = None
    """From sending to the effect at the latest, if no other write of the key would take effect before."""


def plan_course(fault: Fault | None, verb: str, network: Network, rng: random.Random) -> Course:
    """How a request with this fault will go."""
    whole = network.latency_s(verb, rng)
    effect = whole * rng.uniform(0.2, 0.8)
    match fault:
        case None:
            return _undisturbed(whole, effect, network)
        case Fault.SLOW:
            whole = _draw(network.slow_s, rng)
            return _undisturbed(whole, whole * rng.random(), network)
        case Fault.PAUSE_BEFORE | Fault.SUSPEND_BEFORE:
            return replace(_undisturbed(whole, effect, network), first=fault, stop_s=_draw(network.pause_s, rng))
        case Fault.CRASH_BEFORE:
            return Course(first=fault)
        case Fault.CRASH_IN_FLIGHT:
            return Course(first=fault, effect_s=_draw(network.late_s, rng))
        case Fault.CRASH_AFTER:
            return Course(effect_s=effect, then=fault)
        case Fault.LOST_REQUEST | Fault.OVERTAKEN:
            held_s = network.time_out_s + network.late_s[1] if fault is Fault.OVERTAKEN else None
            return Course(error_s=network.time_out_s, held_s=held_s)
        case Fault.LOST_ANSWER:
            return Course(effect_s=effect, error_s=network.time_out_s)
        case Fault.LATE_APPLY:
            return Course(effect_s=network.time_out_s + _draw(network.late_s, rng), error_s=network.time_out_s)
        case Fault.DUPLICATE:
            return Course(effect_s=effect, answer_s=whole - effect, again_s=_draw(network.late_s, rng))
        case Fault.UNAVAILABLE | Fault.UNDECIDED:
            return Course(error_s=whole, undecided=fault is Fault.UNDECIDED)
        case Fault.OWN_CONFLICT:
            return Course(effect_s=effect, answer_s=whole - effect, own_conflict=True)
        case Fault.PAUSE_AFTER | Fault.SUSPEND_AFTER:
            return Course(effect_s=effect, answer_s=whole - effect, then=fault, stop_s=_draw(network.pause_s, rng))


@cache
def _lognormal(median: float, high: float) -> tuple[float, float]:
    return math.log(median), math.log(high / median) / 2.326


def _undisturbed(whole_s: float, effect_s: float, network: Network) -> Course:
    if whole_s > network.time_out_s:
        return Course(effect_s=effect_s, error_s=network.time_out_s)
    return Course(effect_s=effect_s, answer_s=whole_s - effect_s)


def _draw(between: tuple[float, float], rng: random.Random) -> float:
    return math.exp(rng.uniform(math.log(between[0]), math.log(between[1])))

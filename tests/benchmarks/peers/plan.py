"""Which measurements fit in a time budget, and with how many repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Step:
    """One measurement: a system, started once, and measured in repeats. The times are estimates for a busy machine with 2 cores."""

    name: str
    system: str
    about: str
    """What it measures, for people."""
    start_s: float
    """What it takes before and between the repeats."""
    repeat_s: float
    thorough: bool = False
    """Whether it is left to a thorough run: no peer has something like it."""

    def takes_s(self, repeats: int) -> float:
        return self.start_s + repeats * self.repeat_s


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A step, and how often it repeats."""

    step: Step
    repeats: int

    @property
    def takes_s(self) -> float:
        return self.step.takes_s(self.repeats)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured in a budget."""

    chosen: tuple[Planned, ...]
    left_out: tuple[Step, ...]
    """Not even one repeat of these fits."""

    @property
    def takes_s(self) -> float:
        return sum(one.takes_s for one in self.chosen)


def fit(steps: Sequence[Step], *, budget_s: float | None, repeats: int) -> Plan:
    """The steps with at most ``repeats`` each; ``budget_s`` None: all of them.

    Every step gets one repeat before any gets a second. A step that does not fit is left out, and the ones behind it are tried.
    """
    left_s = math.inf if budget_s is None else budget_s
    counts: dict[str, int] = {}
    for done in range(repeats):
        for step in steps:
            more_s = step.repeat_s if done else step.takes_s(1)
            if counts.get(step.name, 0) == done and more_s <= left_s:
                counts[step.name] = done + 1
                left_s -= more_s
    return Plan(
        chosen=tuple(Planned(step=step, repeats=counts[step.name]) for step in steps if step.name in counts),
        left_out=tuple(step for step in steps if step.name not in counts),
    )

"""Single faults: small stories, each played once for every fault at every one of its requests, and what came of it as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.faults import Call, Fault

if TYPE_CHECKING:
    from tests.simulation.sweeping import Played


def every_request(world: Played, service: str, call: Call) -> bool:
    """Faults befall any."""
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """A run of few requests. The smaller it is, the more of its kind can be played in full."""

    make: Callable[..., Played]
    """Of the plans of faults, by service."""
    meets: tuple[str, ...]
    """What it counts without faults; else it has lost its point."""
    befallen: Callable[[Played, str, Call], bool] = every_request
    """Which requests meet faults, of the world as it was without them."""


class Single(NamedTuple):
    """One fault at one request of a story."""

    story: str
    service: str
    step: str
    """What the request is for."""
    process: str
    number: int
    """Of this process's requests to the service, from 1."""
    fault: Fault


class Asked:
    """Lets all calls be, and notes those that might have met a fault: none does in its world's quiet moments."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def decide(self, call: Call) -> Fault | None:
        self.calls.append(call)
        return None


class OneFault:
    """Befalls one request of one process, and no other."""

    def __init__(self, process: str, number: int, fault: Fault) -> None:
        self._process, self._number, self._fault = process, number, fault

    def decide(self, call: Call) -> Fault | None:
        return self._fault if (call.process, call.process_number) == (self._process, self._number) else None


def table(played: Iterable[tuple[Single, bool]]) -> str:
    """How many ran, and how many of these went wrong, for each step and fault."""
    ran, wrong = Counter[tuple[str, Fault]](), Counter[tuple[str, Fault]]()
    for single, is_wrong in played:
        ran[single.step, single.fault] += 1
        wrong[single.step, single.fault] += is_wrong

    def row(title: str, steps: Sequence[str]) -> str:
        counts = [(sum(ran[step, fault] for step in steps), sum(wrong[step, fault] for step in steps)) for fault in Fault]
        cells = [_cell(count, of_it) for count, of_it in counts]
        total, total_wrong = (sum(column) for column in zip(*counts, strict=True))
        return f"| {title} | {' | '.join(cells)} | {total:,} | {total_wrong} |"

    steps = sorted({step for step, _ in ran})
    head = f"| request | {' | '.join(fault.value for fault in Fault)} | all | wrong |"
    rule = f"| --- |{' ---: |' * (len(Fault) + 2)}"
    return "\n".join([head, rule, *(row(step, [step]) for step in steps), row("all", steps)])


def _cell(count: int, wrong: int) -> str:
    """Nothing where a fault means nothing for a request."""
    return "" if not count else f"{count:,}" if not wrong else f"{count:,} ({wrong} wrong)"

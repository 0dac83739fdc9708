"""How long queues stood still when their owner was killed, or gave them over in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from tests.processes.consuming.disturbed import KILL, Disturbed
from tests.processes.consuming.records import Handled, What

BUSY_S = 0.5
"""Who has handled nothing for longer had nothing to do in a queue."""
Stored: TypeAlias = Mapping[tuple[int, int], float]
"""When each message was stored, by (queue, offset) and the machine's wall clock."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """In seconds, ascending."""

    failovers: tuple[float, ...]
    """From the last sign of a killed process until another handled a message of a queue that it was busy in."""
    handovers: tuple[float, ...]
    """From the last handler of a process that nothing was done to until another's first in the same queue, if there was a message."""

    def __str__(self) -> str:
        return f"failover {_spread(self.failovers)}; planned hand-over {_spread(self.handovers)}"


@dataclass(slots=True)
class Tenure:
    """An epoch of a queue: its owner's first and last sign."""

    process: str
    first: Handled
    last_s: float


class Tenures:
    """Of each queue of each group, by epoch; made of what was handled, in any order."""

    def __init__(self, handled: Iterable[Handled] = ()) -> None:
        self._found: dict[tuple[str, int], dict[int, Tenure]] = defaultdict(dict)
        for one in handled:
            self.add(one)

    def add(self, one: Handled) -> None:
        tenures = self._found[one.group, one.queue]
        known = tenures.get(one.epoch)
        if known is None:
            if one.what is What.START:
                tenures[one.epoch] = Tenure(one.process, one, one.at_s)
            return
        known.last_s = max(known.last_s, one.at_s)
        if one.what is What.START and one.at_s < known.first.at_s:
            known.process, known.first = one.process, one

    @property
    def by_queue(self) -> list[list[Tenure]]:
        return [[tenures[epoch] for epoch in sorted(tenures)] for tenures in self._found.values()]

    def firsts(self) -> set[tuple[int, int]]:
        """(queue, offset) of what was handled first in each."""
        return {(one.first.queue, one.first.offset) for tenures in self.by_queue for one in tenures}


def pauses(found: Tenures, stored: Stored, disturbed: Sequence[Disturbed]) -> Pauses:
    killed = {one.process: one for one in disturbed if one.kind == KILL}
    troubled = {one.process for one in disturbed}
    failovers, handovers = [], []
    for tenures in found.by_queue:
        for before, after in pairwise(tenures):
            available_s = stored[after.first.queue, after.first.offset] - after.first.wall_s + after.first.at_s
            if before.process in killed:
                died_s = killed[before.process].from_s
                if died_s - BUSY_S < before.last_s <= after.first.at_s and after.first.at_s > died_s:
                    failovers.append(after.first.at_s - max(before.last_s, available_s))
            elif before.process not in troubled and before.process != after.process:
                handovers.append(max(0.0, after.first.at_s - max(before.last_s, available_s)))
    return Pauses(tuple(sorted(failovers)), tuple(sorted(handovers)))


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    return f"{len(seconds)} times, median {seconds[len(seconds) // 2]:.2f} s, at most {seconds[-1]:.2f} s"

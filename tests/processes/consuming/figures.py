"""How long queues stood still when their owner was killed, or gave them over in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from tests.processes.consuming.places import KILL, Disturbed
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


@dataclass(frozen=True, slots=True)
class _Tenure:
    """An epoch of a queue: its owner's first and last sign."""

    process: str
    first: Handled
    last: Handled


def pauses(handled: Sequence[Handled], stored: Stored, disturbed: Sequence[Disturbed]) -> Pauses:
    """``handled`` by time."""
    killed = {one.process: one for one in disturbed if one.kind == KILL}
    troubled = {one.process for one in disturbed}
    failovers, handovers = [], []
    for tenures in _tenures(handled).values():
        for before, after in pairwise(tenures):
            available_s = stored[after.first.queue, after.first.offset] - after.first.wall_s + after.first.at_s
            if before.process in killed:
                died_s = killed[before.process].from_s
                if died_s - BUSY_S < before.last.at_s <= after.first.at_s and after.first.at_s > died_s:
                    failovers.append(after.first.at_s - max(before.last.at_s, available_s))
            elif before.process not in troubled and before.process != after.process:
                handovers.append(max(0.0, after.first.at_s - max(before.last.at_s, available_s)))
    return Pauses(tuple(sorted(failovers)), tuple(sorted(handovers)))


def _tenures(handled: Sequence[Handled]) -> dict[tuple[str, int], list[_Tenure]]:
    """Of each queue of each group, by epoch."""
    found: dict[tuple[str, int], dict[int, _Tenure]] = defaultdict(dict)
    for one in handled:
        tenures = found[one.group, one.queue]
        if one.epoch in tenures:
            tenures[one.epoch] = _Tenure(one.process, tenures[one.epoch].first, one)
        elif one.what is What.START:
            tenures[one.epoch] = _Tenure(one.process, one, one)
    return {queue: [tenures[epoch] for epoch in sorted(tenures)] for queue, tenures in found.items()}


def _spread(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    return f"{len(seconds)} times, median {seconds[len(seconds) // 2]:.2f} s, at most {seconds[-1]:.2f} s"

"""What must hold of broadcasting members, by what their processes wrote down and what was done to these; nothing else is asked.

Of each member and queue:

- each process is given offset after offset, none is left out, and a handler starts when the one before it has ended;
- a process goes on where the one before it had come to; further back only when that one was killed or lost its name, and then by no more
  than what had ended shortly before;
- nothing is lost: in the end the last process has come to the end of the queue.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from tests.processes.consuming.check import Found
from tests.processes.consuming.disturbed import Disturbed
from tests.processes.consuming.records import Handled, What

SAVED_S = 10.0
"""So long after a message was handled that is saved: each second, and some for a machine that is busy."""
_Ended: TypeAlias = deque[tuple[int, float]]
"""Offsets whose handlers ended lately, and when."""


class Member:
    """The check of one member. Is told what its processes wrote, one process after the other; keeps what ended lately."""

    def __init__(self, name: str, found: Found) -> None:
        self._name = name
        self._found = found
        self._next: dict[int, int] = defaultdict(int)
        """Of each queue, the first offset whose handler has not ended."""
        self._ended: dict[int, _Ended] = defaultdict(deque)
        self._handled = False
        """Whether the process has handled anything."""
        self._from_s: float | None = None
        """When the process before was killed or lost its name; None: it ended in order."""

    def process(self, records: Iterable[Handled], troubles: Iterable[Disturbed]) -> None:
        """All that one process wrote, and what became of it."""
        self._handled = False
        self._found.problems += [f"{self._name}: {problem}" for problem in self._follow(records)]
        if self._handled:  # else it left all as the one before had
            self._from_s = min((one.from_s for one in troubles), default=None)

    def _follow(self, records: Iterable[Handled]) -> Iterator[str]:
        place: dict[int, int] = {}
        running: dict[int, int] = {}
        for one in records:
            self._found.counts[f"{one.group} {one.what}"] += 1
            queue, offset = one.queue, one.offset
            self._handled = True
            if one.what is not What.START:
                if running.pop(queue, None) != offset:
                    yield f"the handler of {queue}/{offset} ended in {one.process} and was not running"
                self._end(queue, offset, one.at_s)
                continue
            if queue in running:
                yield f"{queue}/{offset} started in {one.process} while {queue}/{running[queue]} ran"
            if queue not in place:
                yield from self._begin(one)
            elif offset != place[queue]:
                yield f"{queue}/{offset} was given to {one.process} where {place[queue]} was due"
            place[queue], running[queue] = offset + 1, offset

    def _end(self, queue: int, offset: int, at_s: float) -> None:
        self._next[queue] = max(self._next[queue], offset + 1)
        ended = self._ended[queue]
        ended.append((offset, at_s))
        while at_s - ended[0][1] > 10 * SAVED_S:
            ended.popleft()

    def _begin(self, one: Handled) -> Iterator[str]:
        """A process begins in a queue."""
        due = self._next[one.queue]
        if one.offset > due:
            yield f"{one.process} began at {one.queue}/{one.offset}, and {due} to {one.offset - 1} were not handled"
        if one.offset >= due:
            return
        self._found.counts["handled again"] += due - one.offset
        again = [at_s for offset, at_s in self._ended[one.queue] if offset >= one.offset]
        if self._from_s is None:
            yield f"{one.process} began at {one.queue}/{one.offset}, though {due} was due and the process before had ended in order"
        elif len(again) < due - one.offset or min(again) < self._from_s - SAVED_S:
            yield f"{one.process} began at {one.queue}/{one.offset}, though what was before {due} had long been handled"

    def losses(self, ends: Mapping[int, int]) -> Iterator[str]:
        """When all processes have ended and everything was handled."""
        for queue, end in ends.items():
            if self._next[queue] != end:
                yield f"{self._name} came to {self._next[queue]} of queue {queue}, which ends at {end}"


class Standing:
    """How far members are while they run, by what their journals show. Told each record once."""

    def __init__(self) -> None:
        self._next: dict[str, Counter[int]] = defaultdict(Counter)

    def add(self, member: str, one: Handled) -> None:
        """A handler's end."""
        if one.what is not What.START:
            self._next[member][one.queue] = max(self._next[member][one.queue], one.offset + 1)

    def through(self, member: str) -> int:
        """Messages."""
        return self._next[member].total()

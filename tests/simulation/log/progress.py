"""I13 as it happens: whether a send waits for ever in a process that runs. Looked at whenever nothing is ready and time is about to pass.

At such a moment all that could be called was called. So an append that nobody takes turns for, and a message whose time to gather is long
over, wait until something else happens to wake them; once they are told of, at the deadline of the send, nobody would see why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.log.lake import LogLake
from penstock.log.produce.accumulator import BatchBuilder, linger_s
from tests.simulation.process import SimProcess

if TYPE_CHECKING:
    from penstock.log.produce.producer import Producer

SLACK_S = 1.0
"""A process that slept wakes to timers that slept with it."""


class Standing:
    """Watches the lakes that processes open."""

    def __init__(self) -> None:
        self._open: list[tuple[SimProcess, LogLake]] = []
        self._since: dict[int, tuple[BatchBuilder, float]] = {}
        """The builder at the head of each producer that waits too long, and since when, by its process's own time."""

        self._latest_s: dict[str, float] = {}

    def opened(self, process: SimProcess, lake: LogLake) -> None:
        self._open.append((process, lake))

    def still(self, now_s: float) -> Iterator[str]:
        """What stands still, in words."""
        self._open = [(process, lake) for process, lake in self._open if not process.crashed and not _is_closed(lake)]
        for process, lake in self._open:
            if process.stopped:
                continue
            for appender in _appenders(lake):
                waiting = appender._in_flight.open
                if waiting and not appender._closing and (appender._task is None or appender._task.done()):
                    yield f"I13 {process.name}: nobody takes turns for {len(waiting)} appends, the first of {waiting[0].batch}"
            # A machine that is suspended while it is suspended has timers that sleep for both.
            awake_s = self._latest_s[process.name] = max(
                (now_s - process.asleep_s) * process.rate, self._latest_s.get(process.name, 0.0)
            )
            for producer in lake._producers:
                if self._waits_too_long(producer, awake_s):
                    yield f"I13 {process.name}: {producer.id} waits beside {self._since[id(producer)][0].count} messages"

    def _waits_too_long(self, producer: Producer, awake_s: float) -> bool:
        head = producer._accumulator.head()
        if head is None or producer._task.done() or producer._on_its_way is not None:
            self._since.pop(id(producer), None)
            return False
        since_s = awake_s
        if (known := self._since.get(id(producer))) is not None and known[0] is head:
            since_s = known[1]
        self._since[id(producer)] = (head, since_s)
        return awake_s - since_s > linger_s(producer._options, producer._accumulator.bytes_per_s) + SLACK_S


def _is_closed(lake: LogLake) -> bool:
    return lake._closing is not None and lake._closing.done()


def _appenders(lake: LogLake) -> list[Any]:
    done = [task for task in lake._opened.values() if task.done() and not task.cancelled() and task.exception() is None]
    return [topic._appender for topic in (task.result() for task in done) if topic._appender is not None]

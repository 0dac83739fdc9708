"""Gives the runs of one consumer's queues to the executor.

Given-up handlers may still run. In an ORDERLY group, nothing of their message groups is started in this process before they have returned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from ...log.message.message import MessageView
from ..handlers.executor import Executor
from ..schedule.lanes import LaneRun

if TYPE_CHECKING:
    from .push_processor import PushProcessor

_Lanes: TypeAlias = frozenset[tuple[str, int, str | None]]
_ANY_QUEUE = -1


class Dispatcher:
    """Gives the runs of one consumer's queues to its executor."""

    def __init__(self, executor: Executor, *, orderly: bool) -> None:
        self.executor = executor
        self.orderly = orderly
        self._running: dict[LaneRun, tuple[PushProcessor, _Lanes]] = {}
        """Handlers whose results no longer count."""
        self._held: list[tuple[PushProcessor, LaneRun]] = []

    @property
    def hung(self) -> int:
        return sum(run.timed_out_at is not None for run in self._running)

    @property
    def is_waiting(self) -> bool:
        """Whether message groups wait here for older handlers, so that none may wait together with others."""
        return bool(self._running) and self.orderly

    def start(self, processor: PushProcessor, runs: Iterable[LaneRun]) -> None:
        """Start these runs, each once no older handler runs for its message groups."""
        if not self._running or not self.orderly:
            self.executor.start(processor, runs)
            return
        busy = frozenset[tuple[str, int, str | None]]().union(*(lanes for _, lanes in self._running.values()))
        for run in runs:
            if busy.isdisjoint(_lanes_of(processor, run.messages)):
                self.executor.start(processor, (run,))
            else:
                self._held.append((processor, run))

    def abandon(self, processor: PushProcessor, runs: Iterable[LaneRun]) -> None:
        held = {run for _, run in self._held}
        for run in runs:
            if not run.ended and run not in held:
                self._running[run] = (processor, _lanes_of(processor, run.delivered()))

    def time_out(self, processors: Iterable[PushProcessor], before_s: float, reason: str) -> None:
        """Time out older handlers too. Cancelled runs stop waiting."""
        if any(run.cancelled for _, run in self._held):
            cancelled = [(processor, run) for processor, run in self._held if run.cancelled]
            self._held = [(processor, run) for processor, run in self._held if not run.cancelled]
            for processor, run in cancelled:
                self.executor.start(processor, (run,))
        for run, (processor, _) in self._running.items():
            if run.is_late(before_s):
                processor.give_up(run, reason)
                self.executor.gave_up(run)
        for processor in processors:
            late = processor.time_out(before_s, reason)
            self.abandon(processor, late)
            for run in late:
                self.executor.gave_up(run)

    def ended(self, runs: Iterable[LaneRun]) -> None:
        older = [run for run in runs if run in self._running] if self._running else []
        if not older:
            return
        for run in older:
            del self._running[run]
        held, self._held = self._held, []
        for processor, waiting in held:
            self.start(processor, (waiting,))


def _lanes_of(processor: PushProcessor, messages: Iterable[MessageView]) -> _Lanes:
    """A message group is one lane in all queues that it has and had."""
    groups = {message.message_group for message in messages}
    return frozenset((processor.topic, processor.queue if group is None else _ANY_QUEUE, group) for group in groups)

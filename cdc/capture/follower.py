"""The loop of captures that keep their place in the lake: changes go into the topic, and the place to go on into the state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

from .errors import CaptureRetry
from .options import SourceCaptureOptions
from .progress import ProgressListener
from .record_sender import RecordSender
from .records import ChangeRecord, heartbeat
from .resources import CaptureResources
from .state import S, SourceStateStore

SAVE_S = 1.0
_REPORT_S, _SIGNALS_S = 1.0, 5.0

B = TypeVar("B")


class SourceFollower(ABC, Generic[S, B]):
    """Follows a log until it is stopped. A subclass reads what comes, and adds its records to the sender."""

    _rest_s: ClassVar[float] = SAVE_S
    """The age of a stored place before it is renewed without events."""

    def __init__(
        self,
        resources: CaptureResources[SourceStateStore[S]],
        options: SourceCaptureOptions,
        *,
        whole_from: int,
        on_progress: ProgressListener,
    ) -> None:
        """``whole_from``: the number of a place not before the last snapshot of rows."""
        self._states, self._clock, self._reached = resources.states, resources.clock, resources.reached
        self._name, self._snapshot, self._on_progress = options.name, resources.snapshot, on_progress
        self._sender = RecordSender(
            resources.producer, whole_from=whole_from, heartbeat=self._heartbeat if options.heartbeat else None
        )
        self._state: S
        self._saved_s = self._reported_s = self._clock.monotonic_s()
        self._signals_s = self._saved_s - _SIGNALS_S
        self._saved_events = 0
        self._reported = (0, 0)

    @abstractmethod
    def _next(self) -> B | None:
        """What comes next, waited for shortly."""

    @abstractmethod
    def _take(self, batch: B | None, now_s: float) -> bool:
        """Add its records to the sender. Returns whether the end is reached."""

    @abstractmethod
    def _flush(self, now_s: float) -> None:
        """Send what is gathered, as this follower ends."""

    @property
    @abstractmethod
    def _needs_rows(self) -> bool:
        """Whether rows have to be read before anything later is sent."""

    @abstractmethod
    def _state_at(self, offset: str) -> S:
        """The state with the place to go on from."""

    @abstractmethod
    def _with_pending(self, state: S, signalled: list[str]) -> S:
        """The state with the tables to read next: those of signals, and those that ``_needs_rows`` is about."""

    def _follow(self, state: S, stopped: Callable[[], bool]) -> tuple[S, bool]:
        """Follow until ``stopped()``, to the end, or until rows have to be read. Everything before the stored place is durable
        then. Returns the state, and whether rows have to be read.
        """
        self._state = state
        signals: dict[str, tuple[str, ...]] = {}
        try:
            while not (stopped() or signals or self._needs_rows):
                batch = self._next()
                now_s = self._clock.monotonic_s()
                is_end = self._take(batch, now_s)
                if self._sender.tick(now_s):
                    self._reached("batch sent")
                self._sender.settle()
                if now_s - self._saved_s >= (SAVE_S if self._events != self._saved_events else self._rest_s):
                    self._save(now_s)
                if now_s - self._reported_s >= _REPORT_S:
                    self._reported_s = now_s
                    self._report()
                if now_s - self._signals_s >= _SIGNALS_S:
                    self._signals_s = now_s
                    signals = self._states.signals()
                if is_end:
                    break
            now_s = self._clock.monotonic_s()
            self._flush(now_s)
            self._sender.settle(wait=True)
        except CaptureRetry:
            self._sender.settle(wait=True)  # the next life has to know what is there
            raise
        needs_rows = bool(signals) or self._needs_rows
        if needs_rows:
            signalled = dict.fromkeys(table for key in sorted(signals) for table in signals[key])
            self._state = self._with_pending(self._placed(), [*signalled])
            self._states.save(self._state)  # at once: a place behind a table that has to be read says that it was
            self._reached("signal taken")
            self._states.forget_signals(signals)
        else:
            self._save(now_s)
        self._report()
        return self._state, needs_rows

    def _heartbeat(self, number: int) -> ChangeRecord:
        return heartbeat(self._name, number, self._clock.wall_ms())

    @property
    def _events(self) -> int:
        return self._sender.events + self._sender.duplicates

    def _placed(self) -> S:
        return self._state if self._sender.offset is None else self._state_at(self._sender.offset)

    def _save(self, now_s: float) -> None:
        if (placed := self._placed()) != self._state:
            self._reached("batch durable")
            self._states.save(placed)
            self._state, self._saved_s, self._saved_events = placed, now_s, self._events
            self._reached("place saved")

    def _report(self) -> None:
        sender, (events, duplicates) = self._sender, self._reported
        self._reported = sender.events, sender.duplicates
        position = None if sender.offset is None else replace(self._state, offset=sender.offset).place
        self._on_progress(events=sender.events - events, duplicates=sender.duplicates - duplicates, position=position)

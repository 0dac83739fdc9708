"""A run of a sync: a driver in its own thread, which takes a lost lease again."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from ...coordinator.lakes import lakes
from ...coordinator.queues.keeper import OwnershipLost
from ...coordinator.workers.worker import LeaseLost
from ...log.errors import PenstockError, RetryError, UnknownOutcome
from ...log.limits import WAIT_MAX, Duration, optional_duration
from ..cuts.cut import Cut
from .backends.backend import BackendOf
from .engine import SyncEngine
from .lease import SyncInUse
from .options import BatchReport
from .plan import SyncPlan
from .record import TableStop

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger("penstock.cdc")

_POLL_S = 0.1
_LOSSES_MAX = 5
"""The losses of the lease in a row, without an applied batch, that a run survives."""
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """The state of a run."""

    running: bool
    batches: int
    events: int
    """Events taken by this run."""
    offsets: Mapping[int, int]
    """The next event to apply, by queue."""
    stopped: Mapping[str, tuple[TableStop, ...]]
    """Tables that stand still, with the events that cannot be applied."""
    last: BatchReport | None
    unmatched: tuple[str, ...] = ()
    """Named tables and columns (``table.column``) without an event so far: to come, or misspelt."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Events not applied by this run, by table. The side table has them."""
    nulled: Mapping[str, int] = field(default_factory=dict)
    """Values that this run replaced by NULL, by table. The side table has them."""
    cut: Cut | None = None
    """The newest recorded cut."""


class SyncRun:
    """A sync in its own thread. Leaving its context stops it."""

    def __init__(
        self,
        plan: SyncPlan,
        backend_of: BackendOf,
        *,
        listener: Callable[[BatchReport], None] | None = None,
    ) -> None:
        """Begin. Raises the errors of `SyncEngine.open`."""
        pause = plan.options.interval
        self._plan, self._backend_of = plan, backend_of
        self._engine = self._opened()
        self._pause_s = None if pause is None else max(_POLL_S, pause.total_seconds())
        self._listener = listener
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._batches = self._events = self._losses = 0
        self._ends: Mapping[int, int] | None = None
        """The queues' ends at the run's beginning, if it ends by itself."""
        self._last: BatchReport | None = None
        self._rejected, self._nulled = Counter[str](), Counter[str]()
        self._thread = threading.Thread(target=self._run, name="penstock-sync", daemon=True)
        self._thread.start()

    def await_termination(self, timeout: Duration | None = None) -> bool:
        """Wait for the end, at most ``timeout`` (a `timedelta` or seconds). Returns whether it has ended. Raises the error that
        ended it.
        """
        wait = optional_duration("timeout", timeout, most=WAIT_MAX, operation="await_termination")
        self._thread.join(None if wait is None else wait.total_seconds())
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        """End after the current batch, and wait for it. An earlier error is left to `await_termination`.

        Inside the listener it only requests the end.
        """
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def stopped(self) -> dict[str, tuple[TableStop, ...]]:
        """Tables that stand still, with the events that cannot be applied; the next run tries them again."""
        return self._engine.catalog.stopped.named

    @property
    def status(self) -> SyncStatus:
        """The state of the run."""
        engine = self._engine
        return SyncStatus(
            self._thread.is_alive(),
            self._batches,
            self._events,
            engine.position,
            engine.catalog.stopped.named,
            self._last,
            engine.catalog.unmatched,
            dict(self._rejected),
            dict(self._nulled),
            engine.newest_cut,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _opened(self, halved: int = 0) -> SyncEngine:
        engine = SyncEngine(self._plan, self._backend_of(self._plan))
        engine.open(halved=halved)
        return engine

    def _run(self) -> None:
        try:
            self._engine.look()
            self._ends = self._engine.ends() if self._pause_s is None else None
            self._apply()
        except BaseException as error:  # noqa: BLE001 - raised by await_termination
            self._error = error
        finally:
            try:
                self._engine.close()
            except Exception as error:  # noqa: BLE001 - the same; what came first is what matters
                self._error = self._error or error

    def _apply(self) -> None:
        while True:
            try:
                self._apply_held()
            except (LeaseLost, OwnershipLost) as lost:
                self._begin_again(lost)
            except MemoryError as error:
                if not self._engine.halving.can_be_smaller:
                    raise
                log.warning("sync %s ran out of memory and goes on with smaller batches: %s", self._plan.name, error)
                self._engine.close()
                self._engine = self._opened(self._engine.halving.times)
            else:
                return

    def _begin_again(self, lost: PenstockError) -> None:
        """Begin again as a new driver. Raises `SyncInUse`, and the loss after too many in a row."""
        clock = lakes.open(self._plan.place).lake.runtime.clock
        name, lost_s = self._plan.name, clock.monotonic_s()
        while not self._stop.is_set():
            self._losses += 1
            if self._losses > _LOSSES_MAX:
                raise lost
            log.warning("sync %s lost its lease, commits nothing more under it, and takes it again: %s", name, lost)
            try:
                self._engine.close()
                self._engine = self._opened()
            except SyncInUse as held:
                raise SyncInUse(
                    "another driver took the sync over, after this one had lost its lease",
                    operation="sync",
                    object=held.object,
                    observed=held.observed,
                    hint="that one goes on from what the targets have; run one driver of a sync at a time",
                ) from lost
            except (RetryError, UnknownOutcome, LeaseLost, OwnershipLost) as error:
                lost = error
                self._stop.wait(_AGAIN_S)
            else:
                without_s = clock.monotonic_s() - lost_s
                log.warning(
                    "sync %s has its lease again after %.1f s; it goes on under epoch %d", name, without_s, self._engine.epoch
                )
                return

    def _is_before(self, ends: Mapping[int, int]) -> bool:
        position = self._engine.position
        return any(position[queue] < end for queue, end in ends.items())

    def _warn(self, batch: BatchReport) -> None:
        before = self._last.behind if self._last is not None else {}
        if tables := sorted(batch.behind.keys() - before.keys()):
            log.warning(
                "events of %s lie behind what was told before, by the source's positions, and change no newer row: a connector begins again, or "
                "the source has moved to another server (docs/0010, Limits)",
                ", ".join(tables),
            )

    def _apply_held(self) -> None:
        engine, ends = self._engine, self._ends
        position: dict[int, int] | None = None
        while not self._stop.is_set():
            batch = engine.step(ends)
            if batch is not None:
                self._losses = 0
                batch = replace(batch, number=self._batches + 1)
                self._warn(batch)
                self._batches, self._events, self._last = batch.number, self._events + batch.events, batch
                self._rejected.update(batch.rejected)
                self._nulled.update(batch.nulled)
                if self._listener is not None:
                    self._listener(batch)
                if batch.lag and (ends is None or self._is_before(ends)):
                    continue
            if self._pause_s is None:
                if batch is None and ends is not None and engine.position != position and self._is_before(ends):
                    position = engine.position  # a cut was due: what lies behind it is the next one's
                    engine.look()
                    continue
                return
            if not self._stop.wait(self._pause_s):
                engine.look()

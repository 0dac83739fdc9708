"""A run of a sync: a driver in a thread of its own, which takes its lease again when it loses it."""

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
from .backend import BackendOf
from .engine import SyncEngine
from .lease import SyncInUse, TableStop
from .options import BatchReport
from .plan import SyncPlan

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger("penstock.cdc")

_POLL_S = 0.1
"""The least time between two looks at the topic."""
_LOSSES_MAX = 5
"""The most leases lost one after the other before a batch was applied under one of them. With the next loss the run ends."""
_AGAIN_S = 1.0
"""The pause after a lease could not be taken again."""


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """The state of a run."""

    running: bool
    batches: int
    events: int
    """The number of events taken by this run."""
    offsets: Mapping[int, int]
    """The next event to be applied, by queue."""
    stopped: Mapping[str, tuple[TableStop, ...]]
    """Tables that stand still, and the events that cannot be applied."""
    last: BatchReport | None
    unmatched: tuple[str, ...] = ()
    """Tables and columns (``table.column``) that the options name and no event has had yet. They may still come, or are misspelt."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """The number of events by table that this run did not apply, and wrote to the side table."""
    nulled: Mapping[str, int] = field(default_factory=dict)
    """The number of values by table in whose place this run put NULL. The side table has them too."""
    cut: Cut | None = None
    """The newest cut that is recorded."""


class SyncRun:
    """A sync that runs in a thread of its own. Leaving its context stops it."""

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
        """Where every queue ended when the run began; None: the run does not end by itself."""
        self._last: BatchReport | None = None
        self._rejected, self._nulled = Counter[str](), Counter[str]()
        self._thread = threading.Thread(target=self._run, name="penstock-sync", daemon=True)
        self._thread.start()

    def await_termination(self, timeout: Duration | None = None) -> bool:
        """Wait for its end, at most ``timeout``: a `timedelta` or a number of seconds. Returns whether it has ended. Raises the error that
        ended it; `stop` is none.
        """
        wait = optional_duration("timeout", timeout, most=WAIT_MAX, operation="await_termination")
        self._thread.join(None if wait is None else wait.total_seconds())
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        """End it in order, after the batch under way, and wait for that. An earlier error is left to `await_termination`.

        Inside the listener it only requests the end, and does not wait.
        """
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def stopped(self) -> dict[str, tuple[TableStop, ...]]:
        """Tables that stand still, and the events that cannot be applied; they are tried again by the next run."""
        return self._engine.catalog.stopped.named

    @property
    def status(self) -> SyncStatus:
        """The state of the run now."""
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
        """Apply batches until there is nothing more to do, under one lease after the other."""
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
        """Begin again like a driver that is started anew. Raises `SyncInUse`, and the loss if there were too many, one after the other."""
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

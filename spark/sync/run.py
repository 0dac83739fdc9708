"""`penstock.spark.sync`: change events of a topic into Delta tables, exactly once."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, get_args

from ...cdc.fold import Truncates
from ...cdc.reading import Reading, UnfitTimes
from ...cdc.targets import Declared, check_into
from ...cdc.unavailable import Unavailable
from ...coordinator.queues.keeper import OwnershipLost
from ...coordinator.workers.worker import LeaseLost
from ...log.errors import InvalidArgument, NotSupported, PenstockError, RetryError, UnknownOutcome
from ...log.limits import MIB
from ..lakes import LakeLike, LakePlace, lakes
from .engine import Engine
from .lease import Stop, SyncInUse
from .options import Batch, Options
from .steps import NO_STEPS, Steps
from .unmatched import unmatched

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

log = logging.getLogger("penstock.spark")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_POLL_S = 0.1
"""The least time between two looks at the topic."""
_LOSSES_MAX = 5
"""The most leases lost one after the other before a batch was applied under one of them. With the next loss the run ends."""
_AGAIN_S = 1.0
"""The pause after a lease could not be taken again."""


def sync(
    spark: SparkSession | None,
    lake: LakeLike,
    topic: str,
    *,
    into: str | os.PathLike[str],
    name: str | None = None,
    tables: Collection[str] | None = None,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    history: bool | Collection[str] = False,
    trigger: Literal["available_now"] | timedelta = "available_now",
    max_events_per_batch: int = 100_000,
    max_bytes_per_batch: int = 256 * MIB,
    events_in_driver: int = 50_000,
    guard: Literal["position", "offset"] = "position",
    truncates: Truncates = "ordered",
    unfit_times: UnfitTimes = "stop",
    unavailable_value: str | Collection[str] = (),
    adopt: bool = False,
    coordination: str | None = None,
    listener: Callable[[Batch], None] | None = None,
    steps: Steps = NO_STEPS,
) -> SyncRun:
    """Apply the change events of ``topic`` to the Delta tables ``<into>/<table>``, each event exactly once. Returns at once.

    Events are Debezium's envelopes as JSON. Missing tables are made, and get columns that appear on the way. Wherever a driver ends,
    another one with the same ``name`` (default: the topic's) goes on from the targets' progress.

    - ``spark``: the session; None: without Spark, in this process and by deltalake (the extra ``delta``), with the same guarantees. For small
      targets: a batch costs little, and one core does all the work. History needs Spark. Either engine goes on where the other ended.
    - ``tables``: only these, as ``table`` or ``schema.table``.
    - ``columns``: types of columns by table, as Spark SQL names them; else they come from the target, the events' own schema, or JSON. How events
      without a schema write them may follow: ``timestamp from milliseconds`` (or seconds, microseconds, nanoseconds), ``decimal(12,2) from base64``
      (or text), ``binary from hex`` (or base64, base64-url-safe).
    - ``keys``: key columns by table, in place of the events' key.
    - ``history``: keep every version of a row (SCD type 2), in all tables or in these.
    - ``trigger``: ``"available_now"`` ends with what is stored now; a duration goes on, with at least that time from batch to batch.
    - ``max_events_per_batch``, ``max_bytes_per_batch`` (of the events' bodies): the most that a batch has; one event is always taken. A batch
      that ran out of memory, or whose driver died, is taken again smaller, and batches grow again from there.
    - ``events_in_driver``: batches of at most this many events are folded in this process, which is quicker than starting tasks; 0: all by tasks.
    - ``guard``: ``"position"`` passes over events older than the row they meet, by the source's position, which targets keep in
      ``__position``; ``"offset"`` trusts the topic's order.
    - ``truncates``: ``"ordered"`` applies those that have a position, and all where the topic has one queue. Another one stops its table, as
      nothing says which rows of other queues it removes. ``"queue"`` applies them too, for tables whose events all come by one queue;
      ``"ignore"`` applies none.
    - ``unfit_times``: infinite times, those before the year 1 or after 9999, and nanoseconds fit no column of a time: ``"stop"`` their table, or
      ``"null"``. A column that is declared as string holds them as text.
    - ``unavailable_value``: the connector's ``unavailable.value.placeholder`` where it is not Debezium's own; several if it was changed.
    - ``adopt``: write to targets that something else has written.
    - ``listener``: called with every batch that was applied, in the run's own thread.

    An event that cannot be applied stops its table, and no other: `SyncRun.stopped` names it. Raises `SyncInUse` when another driver runs a
    sync of this name and stays alive, `TopicNotFound`, `InvalidArgument`, and the lake's errors. `SyncRun.await_termination` raises later
    errors.

    A run may lose its lease, because its machine stood still or its table did not answer. Then it commits nothing more under that lease. It
    takes the lease again and goes on from the targets' progress, with a warning in the log (`penstock.spark`). It ends with `SyncInUse` if
    another driver has taken over and stays alive, and with `LeaseLost` after 6 losses without a batch between.
    """
    place = LakePlace.of(lake, coordination=coordination)
    name = topic.replace("%", "") if name is None else name
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            "bad name of a sync", operation="sync", object=name, expected="letters, digits, '_', '-' and '.', at most 100"
        )
    if trigger != "available_now" and not isinstance(trigger, timedelta):
        raise InvalidArgument("bad trigger", operation="sync", expected="'available_now' or a timedelta", observed=repr(trigger))
    if guard not in ("position", "offset"):
        raise InvalidArgument("bad guard", operation="sync", expected="'position' or 'offset'", observed=repr(guard))
    if truncates not in get_args(Truncates):
        raise InvalidArgument(
            "bad truncates", operation="sync", expected="'ordered', 'queue' or 'ignore'", observed=repr(truncates)
        )
    for limit, value in (("max_events_per_batch", max_events_per_batch), ("max_bytes_per_batch", max_bytes_per_batch)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidArgument(f"bad {limit}", operation="sync", expected="a whole number of 1 or more", observed=repr(value))
    if unfit_times not in get_args(UnfitTimes):
        raise InvalidArgument("bad unfit_times", operation="sync", expected="'stop' or 'null'", observed=repr(unfit_times))
    if spark is not None and "://" in os.fspath(into) and "?" in os.fspath(into):
        raise InvalidArgument(
            "Spark's session knows where its stores are, not the URL of a folder",
            operation="sync",
            object="into",
            expected=os.fspath(into).partition("?")[0],
            observed=os.fspath(into),
            hint="session(s3=S3(endpoint=…, region=…)); `penstock sync` does that by itself",
        )
    if spark is None and history:
        raise NotSupported("the sync without Spark keeps no history", operation="sync", object=name, hint="give it a Spark session")
    declared = Declared.of(columns, keys)
    options = Options(
        place=place,
        topic=topic,
        into=_folder(into),
        name=name,
        tables=None if tables is None else frozenset(tables),
        history=history if isinstance(history, bool) else frozenset(history),
        declared=declared,
        reading=Reading(
            Unavailable.of([unavailable_value] if isinstance(unavailable_value, str) else unavailable_value),
            unfit_times,
            declared.forms,
        ),
        max_events_per_batch=max_events_per_batch,
        max_bytes_per_batch=max_bytes_per_batch,
        guard=guard == "position",
        truncates=truncates,
        adopt=adopt,
        events_in_driver=events_in_driver,
        tasks=1 if spark is None else max(1, spark.sparkContext.defaultParallelism),
        steps=steps,
    )
    return SyncRun(spark, options, trigger=None if isinstance(trigger, str) else trigger, listener=listener)


def _folder(into: str | os.PathLike[str]) -> str:
    folder = os.fspath(into)
    check_into(folder.partition("?")[0] if "://" in folder else folder)
    return folder if "://" in folder else str(Path(folder).expanduser().absolute())


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """The state of a run."""

    running: bool
    batches: int
    events: int
    """The number of events taken by this run."""
    offsets: Mapping[int, int]
    """The next event to be applied, by queue."""
    stopped: Mapping[str, tuple[Stop, ...]]
    """Tables that stand still, and the events that cannot be applied."""
    last: Batch | None
    unmatched: tuple[str, ...] = ()
    """Tables and columns (``table.column``) that ``tables``, ``columns``, ``keys`` or ``history`` name and no event has had yet. They may
    still come, or are misspelt.
    """


class SyncRun:
    """A sync that runs in a thread of its own. Leaving its context stops it."""

    def __init__(
        self,
        spark: SparkSession | None,
        options: Options,
        *,
        trigger: timedelta | None = None,
        listener: Callable[[Batch], None] | None = None,
    ) -> None:
        """Begin; without a ``trigger`` it ends with what is stored now. Raises the errors of `Engine.open`."""
        self._spark, self._options = spark, options
        self._engine = self._opened()
        self._pause_s = None if trigger is None else max(_POLL_S, trigger.total_seconds())
        self._listener = listener
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._batches = self._events = self._losses = 0
        self._ends: Mapping[int, int] | None = None
        """Where every queue ended when the run began; None: the run does not end by itself."""
        self._last: Batch | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-sync", daemon=True)
        self._thread.start()

    def await_termination(self, timeout: timedelta | None = None) -> bool:
        """Wait for its end, at most ``timeout``. Returns whether it has ended. Raises the error that ended it; `stop` is none."""
        self._thread.join(None if timeout is None else timeout.total_seconds())
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
    def stopped(self) -> dict[str, tuple[Stop, ...]]:
        """Tables that stand still, and the events that cannot be applied; they are tried again by the next run."""
        return self._engine.stopped

    @property
    def status(self) -> SyncStatus:
        """The state of the run now."""
        engine = self._engine
        missing = unmatched(self._options, engine.known)
        return SyncStatus(
            self._thread.is_alive(), self._batches, self._events, engine.position, engine.stopped, self._last, missing
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _opened(self, halved: int = 0) -> Engine:
        engine = Engine(self._spark, self._options)
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
                if not self._engine.can_be_smaller:
                    raise
                log.warning("sync %s ran out of memory and goes on with smaller batches: %s", self._options.name, error)
                self._engine.close()
                self._engine = self._opened(self._engine.halved)
            else:
                return

    def _begin_again(self, lost: PenstockError) -> None:
        """Begin again like a driver that is started anew. Raises `SyncInUse`, and the loss if there were too many, one after the other."""
        clock = lakes.open(self._options.place).lake.runtime.clock
        name, lost_s = self._options.name, clock.monotonic_s()
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

    def _warn(self, batch: Batch) -> None:
        before = self._last.behind if self._last is not None else {}
        if tables := sorted(batch.behind.keys() - before.keys()):
            log.warning(
                "events of %s lie behind what was told before, by the source's positions, and change no newer row: a connector begins again, or "
                "the source has moved to another server (docs/0010, Limits)",
                ", ".join(tables),
            )

    def _apply_held(self) -> None:
        engine, ends = self._engine, self._ends
        while not self._stop.is_set():
            batch = engine.step(ends)
            if batch is not None:
                self._losses = 0
                batch = replace(batch, number=self._batches + 1)
                self._warn(batch)
                self._batches, self._events, self._last = batch.number, self._events + batch.events, batch
                if self._listener is not None:
                    self._listener(batch)
                if batch.lag and (ends is None or any(engine.position[queue] < end for queue, end in ends.items())):
                    continue
            if self._pause_s is None:
                return
            if not self._stop.wait(self._pause_s):
                engine.look()

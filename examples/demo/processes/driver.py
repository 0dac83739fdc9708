"""The demo's Spark driver as a process of its own: ``python -m examples.demo.processes.driver``. Its parent tells it what to sync.

It is a process of its own because Spark takes over the signals of its process, and writes much; and because one driver is killed.
"""

from __future__ import annotations

import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock import SyncOptions, sync
from penstock.cdc.scratch import scratch_folder
from penstock.cdc.sync.options import NO_STEPS
from penstock.log.errors import PenstockError
from penstock.spark import S3, session
from penstock.spark.warm_up import train

from .child import Parent
from .reports import DriverTask, Failed, Halted, Synced, Syncing

if TYPE_CHECKING:
    from penstock.cdc.sync.options import BatchReport
    from penstock.cdc.sync.run import SyncRun


class Halt:
    """Stops for good right behind the first commit of a batch once ``events`` events are applied. The other targets still lack their
    commits then.
    """

    def __init__(self, parent: Parent, events: int) -> None:
        self._parent = parent
        self._events = events
        self._applied = self._batches = 0

    def note(self, batch: BatchReport) -> None:
        """Note that a batch was applied as a whole."""
        self._applied += batch.events
        self._batches += 1

    def reached(self, step: str, moment: Literal["before", "in", "after"], what: str = "") -> None:
        if self._applied >= self._events and (step, moment) == ("merge", "after"):
            self._parent.tell(Halted(what, self._batches))
            threading.Event().wait()

    def __reduce__(self) -> str | tuple[Any, ...]:
        return _no_steps, ()  # in a task nothing halts


def _no_steps() -> object:
    return NO_STEPS


def main() -> int:
    """Sync until the word ``finish``, then apply what is left, and tell the parent."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    parent = Parent()
    task = DriverTask(**parent.task())
    try:
        with scratch_folder("penstock-demo-") as scratch:
            _sync(parent, task, scratch)
    except (PySparkException, Py4JError, PenstockError) as error:
        parent.tell(Failed(str(error).strip().partition("\n")[0][:500]))
        return 1
    return 0


def _sync(parent: Parent, task: DriverTask, scratch: str) -> None:
    # Spark makes a warehouse for tables without a path, which would lie in the user's folder.
    conf = {"spark.sql.warehouse.dir": scratch}
    spark = session("penstock-demo", s3=S3(**task.s3) if task.s3 else None, conf=conf, source=False)
    halt = None if task.halt_at is None else Halt(parent, task.halt_at)
    if task.warm_up:
        train(spark, Path(scratch))  # a sync that has run for a while is warm

    def begin(trigger: timedelta | Literal["available_now"]) -> SyncRun:
        return sync(
            task.lake,
            task.topic,
            SyncOptions(into=task.into, columns=task.columns, trigger=trigger, max_events=task.events_per_batch),
            spark=spark,
            listener=halt.note if halt else None,
            steps=halt or NO_STEPS,
        )

    following = begin(timedelta(0))
    parent.hear(lambda word: following.stop())
    parent.tell(Syncing())
    following.await_termination()
    rest = begin("available_now")
    rest.await_termination()
    stops = [f"{table}: {stop.reason}" for table, stopped in rest.stopped.items() for stop in stopped]
    spark.stop()
    parent.tell(Synced(stops))


if __name__ == "__main__":
    sys.exit(main())

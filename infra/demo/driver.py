"""The demo's Spark driver as a process of its own: ``python -m penstock.infra.demo.driver``, told by its parent what to sync.

Of its own, because Spark takes over the signals of the process it runs in, and what it has to say at length; and because one is killed.
"""

from __future__ import annotations

import sys
import threading
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from ...log.errors import PenstockError
from ...spark import S3, session, sync
from ...spark.sync.steps import NO_STEPS
from .child import Parent
from .reports import DriverTask, Failed, Halted, Synced, Syncing

if TYPE_CHECKING:
    from ...spark.sync.run import SyncRun

# So short a job is over before the second compiler would pay off: this halves its time.
_QUICK_START = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_HALT_IN_BATCH = 2


class Halt:
    """Stops for good right behind the first commit of the second batch, where the other targets still lack theirs."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self.applied = 0
        """Batches."""

    def reached(self, step: str, moment: Literal["before", "in", "after"], what: str = "") -> None:
        if self.applied + 1 >= _HALT_IN_BATCH and (step, moment) == ("merge", "after"):
            self._parent.tell(Halted(what, self.applied))
            threading.Event().wait()

    def __reduce__(self) -> str | tuple[Any, ...]:
        return _no_steps, ()  # tasks go on


def _no_steps() -> object:
    return NO_STEPS


def main() -> int:
    """Sync until the word ``finish``, then what is left, and tell the parent."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    parent = Parent()
    task = DriverTask(**parent.task())
    try:
        with TemporaryDirectory(prefix="penstock-demo-") as scratch:
            _sync(parent, task, scratch)
    except (PySparkException, Py4JError, PenstockError) as error:
        parent.tell(Failed(str(error).strip().partition("\n")[0][:500]))
        return 1
    return 0


def _sync(parent: Parent, task: DriverTask, scratch: str) -> None:
    # Spark makes a warehouse for tables without a path, which would lie in the user's folder.
    conf = {**_QUICK_START, "spark.sql.warehouse.dir": scratch}
    spark = session("penstock-demo", s3=S3(**task.s3) if task.s3 else None, conf=conf)
    halt = Halt(parent)

    def begin(trigger: timedelta | Literal["available_now"]) -> SyncRun:
        def count(_: object) -> None:
            halt.applied += 1

        return sync(
            spark,
            task.lake,
            task.topic,
            into=task.into,
            columns=task.columns,
            trigger=trigger,
            max_events_per_batch=task.events_per_batch,
            listener=count,
            steps=halt if task.halt else NO_STEPS,
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

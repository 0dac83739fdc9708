"""A driver that can be killed, and executors under it: ``python -m tests.spark.sync.driver LIFE``, with a `Life` as JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock import SyncOptions, sync
from penstock.cdc.choice.tables import Policy
from penstock.cdc.delta import deltalake_targets as delta
from penstock.cdc.delta.compaction import TargetCompactionResult
from penstock.cdc.sync.options import Moment, SyncSteps
from penstock.spark import session
from penstock.spark.sync.tables import SparkTargets
from tests.cdc.sync.crashes import BATCH, CrashAt, Done, Each, Loss, Victims
from tests.cdc.sync.streams import TOPIC
from tests.spark import quick
from tests.tree import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "local-cluster[1,2,1024]"
"""An executor in a process of its own."""


@dataclass(frozen=True, kw_only=True)
class Life:
    """What a driver does, until it ends or is killed."""

    lake: str
    into: str
    name: str = "s"
    engine: Literal["spark", "deltalake"] = "spark"
    master: str = "local[2,4]"
    tables: tuple[str, ...] | None = None
    history: tuple[str, ...] = ()
    batch: int = BATCH
    events_in_driver: int = 10_000
    target_bytes_in_driver: int = 10_000_000
    policy: Policy = "stop"
    compact_every: int = 100
    follow: bool = False
    """Go on for ever; else end with what is there."""
    dies: tuple[str, Moment, int] | None = None
    """Step, moment and the how manyeth."""
    losses: tuple[tuple[str, Moment, Victims], ...] = ()
    """What is killed under it, once each."""
    marks: str = ""
    """The folder for files that say which of them happened, and how many batches were done."""

    def encoded(self) -> str:
        return json.dumps(asdict(self))

    @property
    def steps(self) -> SyncSteps:
        """In the driver's process."""
        dies = [] if self.dies is None else [CrashAt(*self.dies, kill=os.getpgrp())]
        done = [Done(self.marks)] if self.marks else []
        return Each([*done, *(Loss(*loss, self.marks) for loss in self.losses), *dies])


def decoded(text: str) -> Life:
    found: dict[str, Any] = json.loads(text)
    for name in ("tables", "history", "dies"):
        found[name] = None if found[name] is None else tuple(found[name])
    found["losses"] = tuple(map(tuple, found["losses"]))
    return Life(**found)


def tell_compactions(steps: SyncSteps) -> None:
    """Let steps know of them, and have them put together even two files: targets of a campaign have few."""
    vars(delta)["FILES_MIN"] = 2

    def telling(
        compact: Callable[[Any, str], TargetCompactionResult | None],
    ) -> Callable[[Any, str], TargetCompactionResult | None]:
        def told(self: Any, name: str) -> TargetCompactionResult | None:
            steps.reached("compact", "before", name)
            done = compact(self, name)
            if done is not None:
                steps.reached("compact", "after", name)
            return done

        return told

    for kind in (delta.DeltalakeTargets, SparkTargets):
        kind.compact = telling(kind.compact)  # type: ignore[method-assign, assignment]


def end_of(life: Life) -> int:
    """The exit code of a driver that is a process group of its own."""
    program = [sys.executable, "-m", "tests.spark.sync.driver", life.encoded()]
    with subprocess.Popen(program, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE) as process:
        try:
            _, told = process.communicate(timeout=480)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode in (0, -signal.SIGKILL), told.decode()[-3000:]
    return process.returncode


def main(life: Life) -> None:
    with ExitStack() as cleanup:
        if life.compact_every < 100:
            tell_compactions(life.steps)
        spark: SparkSession | None = None
        if life.engine == "spark":
            spark = _spark(life)
            cleanup.callback(spark.stop)
        run = sync(
            life.lake,
            TOPIC,
            SyncOptions(
                into=life.into,
                name=life.name,
                tables=life.tables,
                history=life.history,
                trigger=timedelta(0) if life.follow else "available_now",
                max_events=life.batch,
                events_in_driver=life.events_in_driver,
                target_bytes_in_driver=life.target_bytes_in_driver,
                policy=life.policy,
                compact_every=life.compact_every,
            ),
            spark=spark,
            steps=life.steps,
        )
        run.await_termination()
        assert not run.stopped, run.stopped


def _spark(life: Life) -> SparkSession:
    conf = dict(quick.QUERIES)
    if not life.master.startswith("local["):
        _home(Path(life.marks).with_name("spark"))
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        conf |= {
            "spark.executor.defaultJavaOptions": quick.JVM,
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.sql.shuffle.partitions": "2",
        }
    return session("penstock-killed", master=life.master, conf=conf)


def _home(folder: Path) -> None:
    """Spark's, by links: executors of a local cluster work below it."""
    import pyspark

    os.environ["SPARK_HOME"] = str(folder)
    if folder.exists():
        return
    folder.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (folder / entry.name).symlink_to(entry)


if __name__ == "__main__":
    main(decoded(sys.argv[1]))

"""Two syncs of a topic that grows, one with history, whose drivers, executors, workers and producer are killed; engines take turns."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import psutil

import penstock
from penstock.cdc.sync.options import Moment
from tests.cdc.sync.crashes import ASIDE_POINTS, COMPACT_POINTS, DONE, POINTS, VERSIONED, Victims, kill_under
from tests.cdc.sync.judging import Check, Told
from tests.cdc.sync.streams import TOPIC
from tests.processes.syncing import producer
from tests.processes.syncing.producer import changes
from tests.servers import die_with_parent
from tests.spark.sync import driver
from tests.spark.sync.driver import CLUSTER, Life
from tests.spark.sync.engines import WAYS
from tests.tree import ROOT
from tests.waiting import wait_until

QUEUES = 2
PATIENCE_S = 900.0
FOR_EVER, PAUSE_S = 10**9, 1.0
AT_LAST = 50
"""Events that the producer sends when nobody is killed any more."""
STEP_S = {"deltalake": 15.0, "spark": 60.0}
"""For a step to be reached; not every one comes again, as a batch may need no new table."""
LOSS_S = 60.0
LOSSES = 3
"""Of executors or workers under one driver."""
RARE = ("create", "add columns", "set aside", "compact")
COMPACT_EVERY = 3
ANY = "any moment"
KEPT = ("a", VERSIONED)
"""Tables of the sync that keeps history."""

SparkRound = Literal["driver", "driver, history", "executors", "executors, history", "workers", "workers, history"]
SPARK_ROUNDS: tuple[SparkRound, ...] = (
    "driver",
    "driver",
    "driver, history",
    "workers",
    "driver",
    "driver",
    "executors, history",
    "driver",
    "driver, history",
    "driver",
    "workers, history",
    "executors",
)
Point = tuple[str, Moment] | None


class Deck:
    """Points in an order by chance, each as often as any other; None: any moment."""

    def __init__(self, chance: random.Random, anywhere: int) -> None:
        self._chance, self._cards = chance, [*POINTS, *ASIDE_POINTS, *COMPACT_POINTS, *([None] * anywhere)]
        self._left: list[Point] = []

    def draw(self) -> Point:
        if not self._left:
            self._left = self._chance.sample(self._cards, len(self._cards))
        return self._left.pop()


@dataclass
class Syncs:
    """One campaign, in a folder."""

    folder: Path
    kills: int
    """Of drivers."""
    spark: int
    """Of these by Spark, together with executors and workers."""
    chance: random.Random
    minutes: float | None = None
    """After so long no other driver is killed."""
    slow: float = 1.0
    """How many times as long as on a quiet machine a step is waited for."""
    killed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By process and point."""
    checks: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        self.marks = self.folder / "marks"
        self.told = Told(str(self.folder / "lake"))
        self.plain = Check(self.folder / "targets", self.told.messages, rejects=True)
        self.versioned = Check(self.folder / "versions", self.told.messages, history=KEPT, only=KEPT, rejects=True)
        self._points = {"deltalake": Deck(self.chance, 4), "spark": Deck(self.chance, 1), "executors": Deck(self.chance, 0)}

    def run(self) -> None:
        """Raises `AssertionError` at the first row that is wrong."""
        with penstock.connect(self.told.lake, maintenance=False) as lake:
            lake.create_topic(TOPIC, queues=QUEUES, message_type="FIFO")
        of_spark = dict(zip(sorted(self.chance.sample(range(self.kills), self.spark)), self._spark_rounds(), strict=False))
        sending = self._producer(FOR_EVER, PAUSE_S)
        until_s = math.inf if self.minutes is None else time.monotonic() + self.minutes * 60
        try:
            for number in range(self.kills):
                if time.monotonic() > until_s:
                    break
                sending = self._producer_again(sending)
                if number in of_spark:
                    self._spark_round(of_spark[number])
                else:
                    self._kill_driver(self._life("deltalake", history=False), self._points["deltalake"].draw())
                self._check()
                print(f"  {number + 1} of {self.kills} drivers, {self.rows:,} rows compared", flush=True)
            sending.kill()
            sending.wait()
            events = len(self.told.read_on()) + AT_LAST
            sending = self._producer(events, 0.0)
            assert sending.wait(PATIENCE_S) == 0, self.said()
        finally:
            sending.kill()
            sending.wait()
        sent = Counter(json.dumps(one) for one in islice(changes(), events))
        assert Counter(one.body.decode() for one in self.told.read_on()) == sent, "the producer's events are there, each once"
        self._finish()

    def _finish(self) -> None:
        for engine in ("deltalake", "spark") if self.spark else ("deltalake",):
            for history in (False, True) if engine == "spark" else (False,):
                with self._driver(self._life(engine, history=history, follow=False, batch=10_000)) as running:
                    assert running.wait(PATIENCE_S) == 0, self.said()
            self.rows += self.plain(complete=True)
        if self.spark:
            self.rows += self.versioned(complete=True)

    def _check(self) -> None:
        self.told.read_on()
        self.rows += self.plain()
        self.rows += self.versioned()
        self.checks += 1

    # --- Drivers ----------------------------------------------------------------------------------------------------------------

    def _spark_rounds(self) -> Iterator[SparkRound]:
        while True:
            yield from SPARK_ROUNDS

    def _spark_round(self, kind: SparkRound) -> None:
        victims, _, rest = kind.partition(", ")
        history = rest == "history"
        match victims:
            case "executors":
                self._kill_under(self._life("spark", history=history, master=CLUSTER, events_in_driver=0), "executors")
            case "workers":
                self._kill_under(self._life("spark", history=history, events_in_driver=0), "workers")
            case _:
                way = self.chance.choice([*WAYS])
                life = self._life("spark", history=history, **WAYS[way])
                self._kill_driver(life, self._points["spark"].draw(), "history" if history else way)

    def _kill_driver(self, life: Life, point: Point, way: str = "") -> None:
        who = f"driver, {life.engine}" + (f", {way}" if way else "")
        patience_s = STEP_S[life.engine] * self.slow
        if point is None:
            with self._driver(life) as running:
                # Time passes while it works: what it is in the middle of is chance's.
                with suppress(subprocess.TimeoutExpired):
                    running.wait(self.chance.uniform(1, patience_s))
                assert running.returncode is None, f"the driver ended by itself: {running.returncode}\n{self.said()}"
                self._end(running)
            self.killed[who, ANY] += 1
            return
        step, moment = point
        nth = 1 if step in RARE else self.chance.randint(1, 3)
        with self._driver(life, dies=(step, moment, nth)) as running:
            try:
                assert running.wait(patience_s) == -signal.SIGKILL, f"the driver ended by itself\n{self.said()}"
                self.killed[who, f"{moment} {step}"] += 1
            except subprocess.TimeoutExpired:
                self._end(running)
                self.killed[who, ANY] += 1

    def _kill_under(self, life: Life, victims: Victims) -> None:
        """Kill what works for a driver that goes on; in the end the driver."""
        points = [point for point in (self._points["executors"].draw() for _ in range(LOSSES)) if point is not None]
        with self._driver(life, losses=tuple((*point, victims) for point in points)) as running:
            for step, moment in points:
                happened = partial(self._happened, running, f"{victims}: {moment} {step}")
                with suppress(AssertionError):  # not every step comes again
                    wait_until(happened, "the step is reached", timeout_s=LOSS_S * self.slow)
                    self.killed[victims, f"{moment} {step}"] += 1
            self._goes_on(running)
            wait_until(lambda: self._lives(running) and kill_under(running.pid, victims), "one works", timeout_s=PATIENCE_S)
            self.killed[victims, ANY] += 1
            self._goes_on(running)
            self._end(running)
        self.killed["driver, spark, " + ("history" if life.history else "by tasks"), ANY] += 1

    def _goes_on(self, running: subprocess.Popen[bytes]) -> None:
        done = self._done()
        wait_until(lambda: self._lives(running) and self._done() > done + 1, "the driver goes on", timeout_s=PATIENCE_S)

    def _happened(self, running: subprocess.Popen[bytes], mark: str) -> bool:
        return self._lives(running) and (self.marks / mark).exists()

    def _lives(self, running: subprocess.Popen[bytes]) -> bool:
        if running.poll() is not None:
            raise RuntimeError(f"the driver ended by itself: {running.returncode}\n{self.said()}")
        return True

    def _done(self) -> int:
        path = self.marks / DONE
        return len(path.read_text().splitlines()) if path.exists() else 0

    # --- Processes --------------------------------------------------------------------------------------------------------------

    def _life(
        self, engine: Literal["spark", "deltalake"], *, history: bool, follow: bool = True, batch: int = 0, **more: object
    ) -> Life:
        check = self.versioned if history else self.plain
        return Life(
            lake=self.told.lake,
            into=str(check.into),
            name="versions" if history else "s",
            engine=engine,
            tables=KEPT if history else None,
            history=KEPT if history else (),
            policy="reject",
            compact_every=COMPACT_EVERY,
            batch=batch or self.chance.choice([3, 12, 100] if engine == "deltalake" else [12, 40, 200]),
            follow=follow,
            **more,  # type: ignore[arg-type]
        )

    @contextmanager
    def _driver(self, life: Life, **more: object) -> Iterator[subprocess.Popen[bytes]]:
        """A driver, which is gone afterwards, and all that it started."""
        self.marks.mkdir(exist_ok=True)
        for path in self.marks.iterdir():
            path.unlink()
        marks = str(self.marks) if "losses" in more else ""
        running = self._start(driver.__name__, Life(**{**asdict(life), **more, "marks": marks}).encoded())
        try:
            yield running
        finally:
            self._end(running)
            wait_until(lambda: not _of_session(running.pid), "the end of the JVM, executors and workers", timeout_s=120.0)

    @staticmethod
    def _end(running: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait(PATIENCE_S)

    def _producer(self, events: int, pause_s: float) -> subprocess.Popen[bytes]:
        return self._start(producer.__name__, self.told.lake, events, pause_s)

    def _producer_again(self, sending: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Kill it in every other round."""
        if self.chance.random() < 0.5:
            sending.kill()
            sending.wait()
            self.killed["producer", ANY] += 1
            return self._producer(FOR_EVER, PAUSE_S)
        return sending

    def _start(self, module: str, *arguments: object) -> subprocess.Popen[bytes]:
        with (self.folder / "errors.txt").open("ab") as errors:
            command = [*die_with_parent(), sys.executable, "-m", module, *map(str, arguments)]
            return subprocess.Popen(command, cwd=ROOT, stdout=errors, stderr=errors, start_new_session=True)

    def said(self) -> str:
        """By drivers and producers, at the end."""
        return (self.folder / "errors.txt").read_text()[-3000:]


def _of_session(number: int) -> list[int]:
    """The processes that a driver left."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == number and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found

"""How fresh targets are at a steady rate: from an event's append to the commit of its target that shows it, while a sync follows the topic.

One process sends the shop's change events at a steady pace, another runs the sync into three targets, as Spark's or without it. The times are
read off what is stored, afterwards: the topic's append times, and the targets' commits, which say how far each is. The first batch, which
makes the targets and starts Spark's workers, is over before the steady events begin, and is told apart.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from examples.demo.shipped import PACKED, unpacked
from penstock import SyncOptions, sync
from penstock.cdc.delta.freshness import commits_of, freshness, stored_ms, visible_ms
from penstock.cdc.sync.options import NO_STEPS, Moment, SyncSteps
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.sessions import cpu_s, spark_session
from tests.benchmarks.spark_sync import QUEUES, TABLES, TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.cdc.sync.options import BatchReport

Engine = Literal["spark", "deltalake"]
_ROWS: tuple[tuple[Engine, int, float, float], ...] = (
    ("spark", 1_000, 2.5, 5),
    ("deltalake", 1_000, 0.5, 1.5),
    ("deltalake", 5_000, 0.5, 1.5),
)
"""Engine, events a second, and the targets for the median and the 99th percentile, in seconds."""
_EVENTS = 63_000
_FIRST = 3_000
"""Events of the first batch: the first that have all tables among them."""
_TICK_S = 0.01
_LOOK_S = 0.5
_PATIENCE_S = 300.0


def measure(options: Options) -> Iterator[Figure]:
    events = options.scaled(_EVENTS, 600)
    lines = list(unpacked(PACKED.read_bytes()))
    lines = lines[:: len(lines) // events] if options.small else lines[:events]  # of all three tables
    for engine, rate_per_s, p50_s, p99_s in _ROWS[:2] if options.small else _ROWS:
        rate = options.scaled(rate_per_s, 200)
        ages_ms, synced = _run(engine, lines, rate, short=options.small)
        yield from _figures(
            f"freshness, {engine}, {rate:,}/s",
            ages_ms,
            synced,
            f"{len(ages_ms):,} events of three tables; local files",
            (p50_s, p99_s),
        )


@dataclass(frozen=True, kw_only=True)
class _Synced:
    """What the syncing process saw."""

    batches: Sequence[BatchReport]
    steps_s: Sequence[Mapping[str, float]]
    """Of each batch, the time of each step, for all targets."""
    processor_s: float
    """From the first batch on, of the process and all that it started, with those of them that have ended."""
    memory_bytes: int
    """The most that these had in memory at one time."""


def _figures(name: str, ages_ms: np.ndarray, synced: _Synced, note: str, targets_s: tuple[float, float]) -> Iterator[Figure]:
    first, *batches = synced.batches
    of_steps = synced.steps_s[1:]
    events = sum(batch.events for batch in batches)
    p50_s, p99_s = (float(np.percentile(ages_ms, percent)) / 1000 for percent in (50, 99))
    yield Figure(name=f"{name}: p50", unit="s", values=[p50_s], note=note, target=targets_s[0])
    yield Figure(name=f"{name}: p99", unit="s", values=[p99_s], note=note, target=targets_s[1])
    yield Figure(name=f"{name}: the first batch, before", unit="s", values=[first.seconds], note="makes the targets; Spark is up")
    sizes = f"{len(batches)}, of {np.median([batch.events for batch in batches]):,.0f} events (median)"
    yield Figure(name=f"{name}: a batch", unit="s", values=[batch.seconds for batch in batches], note=sizes)
    for step in ("fold", "merge", "progress"):
        yield Figure(name=f"{name}: of a batch, {step}", unit="s", values=[steps.get(step, 0.0) for steps in of_steps])
    cost_us = 1e6 * synced.processor_s / events
    yield Figure(name=f"{name}: processor time an event", unit="µs", values=[cost_us], note="all processes of the sync")
    memory = synced.memory_bytes / 2**20
    yield Figure(name=f"{name}: memory", unit="MiB", values=[memory], note="RSS of all processes of the sync, at most")


def _run(engine: Engine, lines: Sequence[bytes], rate: int, *, short: bool = False) -> tuple[np.ndarray, _Synced]:
    """The ages in ms of the steady events, and how the sync was."""
    first = min(len(lines) // 5, _FIRST)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        lake, into = str(Path(folder) / "lake"), str(Path(folder) / "targets")
        with penstock.connect(lake) as opened:
            opened.create_topic(TOPIC, queues=QUEUES, message_type="FIFO")
            with opened.producer(TOPIC) as producer:
                producer.send_batch([_message(line) for line in lines[:first]])
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe()
        syncing = spawn.Process(target=_sync, args=(engine, lake, into, len(lines), there, short))
        sending = spawn.Process(target=_send, args=(lake, list(lines[first:]), rate))
        syncing.start()
        try:
            _heard(here, syncing)
            sending.start()
            sending.join()
            if sending.exitcode:
                raise RuntimeError("the producer failed")
            synced = _heard(here, syncing)
            syncing.join()
        finally:
            for process in (sending, syncing):
                if process.is_alive():
                    process.terminate()
                    process.join()
        assert isinstance(synced, _Synced)
        return _ages_ms(lake, into), synced


def _heard(child: Connection, process: BaseProcess) -> object:
    ready = wait([child, process.sentinel], _PATIENCE_S)
    if child not in ready and not child.poll():
        raise RuntimeError(f"the sync says nothing; exit code {process.exitcode}")
    return child.recv()


def _send(lake: str, lines: Sequence[bytes], rate: float) -> None:
    """Send them as steadily as a clock allows."""
    messages = [_message(line) for line in lines]
    with penstock.connect(lake) as opened, opened.producer(TOPIC) as producer:
        begun_s, sent = time.monotonic(), 0
        while sent < len(messages):
            due = min(len(messages), int((time.monotonic() - begun_s) * rate) + 1)
            for message in messages[sent:due]:
                producer.send(message)
            sent = due
            time.sleep(_TICK_S)


def _message(line: bytes) -> penstock.Message:
    event = json.loads(line)
    table = event["value"]["source"]["table"]
    return penstock.Message(body=line, message_group=f"{table} {json.dumps(event['key'])}", tag=table)


def _sync(engine: Engine, lake: str, into: str, events: int, parent: Connection, short: bool) -> None:
    """Follow the topic until so many events are applied; then tell the batches, processor time and memory."""
    if engine == "spark":
        with spark_session(short=short) as spark:
            _follow(spark, lake, into, events, parent)
    else:
        _follow(None, lake, into, events, parent)


def _follow(spark: SparkSession | None, lake: str, into: str, events: int, parent: Connection) -> None:
    batches: list[BatchReport] = []
    costs_s: list[float] = []
    times = _StepTimes()
    enough = threading.Event()

    def heard(batch: BatchReport) -> None:
        batches.append(batch)
        costs_s.append(cpu_s())
        times.next_batch()
        if len(batches) == 1:
            parent.send("it follows the topic")
        if sum(one.events for one in batches) >= events:
            enough.set()

    columns = {table: types for table, (_, types) in TABLES.items()}
    memory_bytes = 0
    with sync(
        lake, TOPIC, SyncOptions(into=into, columns=columns, trigger=timedelta(0)), spark=spark, listener=heard, steps=times
    ) as run:
        while not enough.wait(_LOOK_S):
            memory_bytes = max(memory_bytes, _memory_bytes())
            run.await_termination(timedelta(0))  # raises what has ended it
    parent.send(_Synced(batches=batches, steps_s=times.of_batches, processor_s=costs_s[-1] - costs_s[0], memory_bytes=memory_bytes))


class _StepTimes:
    """The time from the first beginning of a step in a batch to its last end. Tasks, to which it travels, tell it nothing."""

    def __init__(self) -> None:
        self.of_batches: list[dict[str, float]] = []
        self._spans: dict[str, tuple[float, float]] = {}

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        now_s = time.perf_counter()
        begun_s, _ = self._spans.get(step, (now_s, now_s))
        self._spans[step] = begun_s, now_s

    def next_batch(self) -> None:
        self.of_batches.append({step: end_s - begun_s for step, (begun_s, end_s) in self._spans.items()})
        self._spans = {}

    def __reduce__(self) -> str | tuple[object, ...]:
        return _no_steps, ()


def _no_steps() -> SyncSteps:
    return NO_STEPS


def _memory_bytes() -> int:
    total = 0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def _ages_ms(lake: str, into: str) -> np.ndarray:
    """Of each event that was appended after every target had its first commit, the time from that to the commit that shows it."""
    with penstock.connect(lake, read_only=True) as opened, opened.reader(TOPIC) as reader:
        events: pa.Table = reader.to_arrow(columns=["queue", "offset", "tag", "store_timestamp"])
    of_tables = [events.filter(pc.equal(events["tag"], table)) for table in TABLES]
    visible = [visible_ms(mine, commits_of(f"{into}/{table}")) for table, mine in zip(TABLES, of_tables, strict=True)]
    stored_at, visible_at = np.concatenate([stored_ms(mine) for mine in of_tables]), np.concatenate(visible)
    if waiting := freshness(stored_at, visible_at).waiting:
        raise RuntimeError(f"{waiting} events are not visible")
    steady = stored_at >= max(times.min() for times in visible)
    return np.maximum(visible_at[steady] - stored_at[steady], 0)

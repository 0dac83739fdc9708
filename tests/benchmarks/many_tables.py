"""A hundred tables in one sync without Spark, at a steady rate: how fresh their targets are, what the sync holds in memory, and what it asks for
while nothing happens.

One process sends generated change events at a steady pace, to all tables alike or nine of ten of them to three; another follows with the sync.
Ages are read off what is stored, afterwards. Then nothing is sent, and the sync's requests to the lake's store are counted.
"""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from penstock import SyncOptions, sync
from penstock.cdc.delta.freshness import commits_of, freshness, stored_ms, visible_ms
from penstock.coordinator.lakes import LakePlace, lakes
from penstock.log.stores.counting import CountingStore
from tests.benchmarks.figures import Figure, Options

if TYPE_CHECKING:
    from penstock.cdc.sync.options import BatchReport

TOPIC, QUEUES = "changes", 16
_TICK_S = 0.02
_LOOK_S = 0.5
_PATIENCE_S = 600.0
_ROWS = 5_000
"""The rows of a table."""


def measure(options: Options) -> Iterator[Figure]:
    tables, rate, seconds = options.scaled(100, 5), options.scaled(10_000, 200), options.scaled(120, 2)
    idle_s = options.scaled(30, 1)
    for name, hot in (("all hot", tables), ("three hot", 3)):
        ages_ms, synced = _run(tables, hot, rate, seconds, idle_s)
        note = f"{tables} tables, {rate:,} events/s for {seconds} s; local files, cells in the lake"
        p50_s, p99_s = (float(np.percentile(ages_ms, percent)) / 1000 for percent in (50, 99))
        yield Figure(name=f"many tables, {name}: p50", unit="s", values=[p50_s], note=note)
        yield Figure(name=f"many tables, {name}: p99", unit="s", values=[p99_s], note=note)
        batches = synced.batches[1:]
        sizes = f"{len(batches)}, of {np.median([one.events for one in batches]):,.0f} events and"
        sizes += f" {np.median([len(one.merged) for one in batches]):,.0f} tables (median)"
        yield Figure(name=f"many tables, {name}: a batch", unit="s", values=[one.seconds for one in batches], note=sizes)
        yield Figure(name=f"many tables, {name}: memory", unit="MiB", values=[synced.memory_bytes / 2**20], note="RSS, at most")
        cost_us = 1e6 * synced.processor_s / sum(one.events for one in batches)
        yield Figure(
            name=f"many tables, {name}: processor time an event", unit="µs", values=[cost_us], note="the process of the sync"
        )
        yield Figure(
            name=f"many tables, {name}: idle",
            unit="requests/min",
            values=[synced.idle_requests * 60 / idle_s],
            note="to the lake's store",
        )


@dataclass(frozen=True, kw_only=True)
class _Synced:
    """What the syncing process saw."""

    batches: Sequence[BatchReport]
    processor_s: float
    """From the first batch on."""
    memory_bytes: int
    idle_requests: int


def _run(tables: int, hot: int, rate: int, seconds: int, idle_s: float) -> tuple[np.ndarray, _Synced]:
    events = rate * seconds
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        lake, into = str(Path(folder) / "lake"), str(Path(folder) / "targets")
        with penstock.connect(lake) as opened:
            opened.create_topic(TOPIC, queues=QUEUES, message_type="FIFO")
            with opened.producer(
                TOPIC
            ) as producer:  # of every table one, so that all targets are made before the steady events begin
                producer.send_batch([message(number, 0, number) for number in range(tables)])
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe()
        syncing = spawn.Process(target=_sync, args=(lake, into, events + tables, idle_s, there))
        sending = spawn.Process(target=_send, args=(lake, tables, hot, rate, events))
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
        return _ages_ms(lake, into, tables), synced


def _heard(child: Connection, process: BaseProcess) -> object:
    ready = wait([child, process.sentinel], _PATIENCE_S)
    if child not in ready and not child.poll():
        raise RuntimeError(f"the sync says nothing; exit code {process.exitcode}")
    return child.recv()


def message(table: int, row: int, position: int) -> penstock.Message:
    """A change of a row of a generated table, at a position of the source's log."""
    columns = ",".join(f'"c{column}":{position + column}' for column in range(table % 8))
    after = f'{{"id":{row},"name":"row {row} of table {table}"{columns and ","}{columns}}}'
    sequence = f'"[\\"{position * 8}\\",\\"{position * 8}\\"]"'
    source = f'{{"connector":"postgresql","db":"shop","schema":"public","table":"t{table}","sequence":{sequence}}}'
    value = f'{{"op":"u","before":null,"after":{after},"source":{source},"transaction":{{"id":"1","total_order":1}}}}'
    body = f'{{"key":{{"id":{row}}},"value":{value}}}'.encode()
    return penstock.Message(body, message_group=f"t{table}-{row}", tag=f"t{table}")


def _send(lake: str, tables: int, hot: int, rate: float, events: int) -> None:
    """Send them as steadily as a clock allows."""
    chance = random.Random(7)
    with penstock.connect(lake) as opened, opened.producer(TOPIC) as producer:
        begun_s, sent = time.monotonic(), 0
        while sent < events:
            due = min(events, int((time.monotonic() - begun_s) * rate) + 1)
            for number in range(sent, due):
                of_all = hot == tables or chance.random() < 0.1
                producer.send(message(chance.randrange(tables if of_all else hot), chance.randrange(_ROWS), tables + number))
            sent = due
            time.sleep(_TICK_S)


def _sync(lake: str, into: str, events: int, idle_s: float, parent: Connection) -> None:
    """Follow the topic until so many events are applied, and for a while after that; then tell how it was."""
    batches: list[BatchReport] = []
    costs_s: list[float] = []
    enough = threading.Event()

    def heard(batch: BatchReport) -> None:
        batches.append(batch)
        costs_s.append(time.process_time())
        if len(batches) == 1:
            parent.send("it follows the topic")
        if sum(one.events for one in batches) >= events:
            enough.set()

    memory_bytes = 0
    counted = [_counted(lake, read_only=read_only) for read_only in (False, True)]
    with closing(parent), sync(lake, TOPIC, SyncOptions(into=into, trigger=timedelta(0)), listener=heard) as run:
        while not enough.wait(_LOOK_S):
            memory_bytes = max(memory_bytes, psutil.Process().memory_info().rss)
            run.await_termination(timedelta(0))  # raises what has ended it
        before = sum(one.statistics().requests for one in counted)
        run.await_termination(timedelta(seconds=idle_s))
        idle = sum(one.statistics().requests for one in counted) - before
        parent.send(_Synced(batches=batches, processor_s=costs_s[-1] - costs_s[0], memory_bytes=memory_bytes, idle_requests=idle))


def _counted(lake: str, *, read_only: bool) -> CountingStore:
    """Let what the sync asks of the lake be counted."""
    opened = lakes.open(LakePlace.of(lake, read_only=read_only)).lake
    opened.store = CountingStore(opened.store)
    return opened.store


def _ages_ms(lake: str, into: str, tables: int) -> np.ndarray:
    """Of each event behind the first ones, the time from its append to the commit that shows it."""
    with penstock.connect(lake, read_only=True) as opened, opened.reader(TOPIC) as reader:
        events: pa.Table = reader.to_arrow(columns=["queue", "offset", "tag", "store_timestamp"])
    ages = []
    for table in range(tables):
        mine = events.filter(pc.equal(events["tag"], f"t{table}"))
        stored_at, visible_at = stored_ms(mine), visible_ms(mine, commits_of(f"{into}/t{table}"))
        if waiting := freshness(stored_at, visible_at).waiting:
            raise RuntimeError(f"{waiting} events of table {table} are not visible")
        steady = stored_at > visible_at.min()
        ages.append(np.maximum(visible_at[steady] - stored_at[steady], 0))
    return np.concatenate(ages)

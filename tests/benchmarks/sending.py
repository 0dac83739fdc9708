"""How fast one process sends to local files, beside a raw Parquet write and flush of the same rows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import penstock
from penstock.log.stores.counting import CountingStore, StoreStatistics
from penstock.log.stores.local import LocalStore
from tests.benchmarks.figures import Figure, Options, by_verb
from tests.benchmarks.rows import BODY, GROUPS, arrow_rows, log_rows, write_raw

QUEUES = 8


@dataclass
class _Timed:
    wall_s: float
    cpu_s: float
    sender_s: float
    """Processor time of the thread that sends."""
    requests: StoreStatistics


def measure(options: Options) -> Iterator[Figure]:
    count = options.scaled(1_000_000, 5_000)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        for name, send in (("send, 100 B", _send_prepared), ("send, 100 B, building the Message", _send_built)):
            runs = _repeat(folder, send, count, options.repeats)
            yield _rate(name, count, runs, target=500_000)
            yield _cpu(name, count, runs)
        data = arrow_rows(count)
        rows = log_rows(data, QUEUES)
        runs, raw, defaults = [], [], []
        for _ in range(options.repeats):  # in turns, so that a busy neighbour hits all alike
            runs += _repeat(folder, lambda producer, _: producer.send_batch(data), count, 1)
            raw.append(_raw(folder, rows, defaults=False))
            defaults.append(_raw(folder, rows, defaults=True))
        yield _rate("send_batch of Arrow rows, 100 B", count, runs)
        yield _cpu("send_batch of Arrow rows, 100 B", count, runs)
        yield _rate("raw Parquet write + fsync of the same rows", count, raw)
        yield _cpu("raw Parquet write + fsync of the same rows", count, raw)
        yield _rate("raw Parquet write + fsync, pyarrow's defaults", count, defaults)
        shares = [100 * other.wall_s / run.wall_s for run, other in zip(runs, raw, strict=True)]
        yield Figure(name="send_batch beside raw", unit="%", better="higher", values=shares, target=80)
        shares = [100 * other.cpu_s / run.cpu_s for run, other in zip(runs, raw, strict=True)]
        note = "ours also checks, routes, sorts and makes ids; on two cores"
        yield Figure(name="send_batch beside raw, by processor time", unit="%", better="higher", values=shares, note=note)


def _send_prepared(producer: penstock.Producer, count: int) -> None:
    messages = [penstock.Message(BODY, group) for group in GROUPS]
    send, groups = producer.send, len(GROUPS)
    for number in range(count):
        send(messages[number % groups])


def _send_built(producer: penstock.Producer, count: int) -> None:
    send, groups = producer.send, len(GROUPS)
    for number in range(count):
        send(penstock.Message(BODY, GROUPS[number % groups]))


def _repeat(folder: str, send: Callable[[penstock.Producer, int], object], count: int, repeats: int) -> list[_Timed]:
    """Each from the first call to the last acknowledgement, the first (which warms up) left out."""
    with tempfile.TemporaryDirectory(dir=folder) as root:
        store = CountingStore(LocalStore(root))
        with penstock.connect(store=store, maintenance=False) as lake:
            lake.create_topic("bench", message_type="FIFO", queues=QUEUES)
            with lake.producer("bench") as producer:
                send(producer, min(count, 20_000))
                producer.flush()
                runs = []
                for _ in range(repeats):
                    before, wall_s, cpu_s = store.statistics(), time.perf_counter(), time.process_time()
                    thread_s = time.thread_time()
                    send(producer, count)
                    sender_s = time.thread_time() - thread_s
                    producer.flush()
                    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
                    runs.append(_Timed(wall_s, cpu_s, sender_s, store.statistics() - before))
                return runs


def _raw(folder: str, rows: pa.Table, *, defaults: bool) -> _Timed:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    write_raw(rows, Path(folder) / "raw.parquet", defaults=defaults)
    return _Timed(time.perf_counter() - wall_s, time.process_time() - cpu_s, 0.0, StoreStatistics())


def _rate(name: str, count: int, runs: list[_Timed], target: float | None = None) -> Figure:
    requests = by_verb(runs[-1].requests, count / 1_000_000)
    rates = [count / run.wall_s for run in runs]
    return Figure(name=name, unit="messages/s", better="higher", values=rates, target=target, requests=requests, per="a million")


def _cpu(name: str, count: int, runs: list[_Timed]) -> Figure:
    values = [1e6 * run.cpu_s / count for run in runs]
    sender = 1e6 * min(run.sender_s for run in runs) / count
    note = f"of it {sender:.2f} in the thread that sends" if sender else ""
    return Figure(name=f"{name}: processor time, all threads", unit="µs/message", values=values, note=note)

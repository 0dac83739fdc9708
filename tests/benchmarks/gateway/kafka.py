"""What a record costs a gateway of Kafka's protocol: librdkafka in a process of its own, records of 100 random bytes with keys.

Rates a core are 1 over the processor time of a record in the gateway's process.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.gateway.kafka_idle import measure_commits, measure_idle
from tests.benchmarks.gateway.serving import Served, folder_of_slow_store, served

PARTITIONS = 4
_BODY_BYTES = 100
_BODIES = 4_096
_KEYS = 10_000
_TIMEOUT_S = 120.0
_PER_SECOND = 200
_SENT_AT = Struct("d")
_TARGET_BOTH = 300_000.0
_TARGET_OLD = 500_000.0


def measure(options: Options) -> Iterator[Figure]:
    records = options.scaled(500_000, 2_000)  # which the cache of new batches holds
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        lake = Path(folder)
        both, produced, consumed = [], [], []
        with served(lake, "--kafka") as server:
            for repeat in range(options.repeats):
                start_s = server.used().cpu_s
                produced.append(_run(server, "produce", f"bench-{repeat}", records))
                consumed.append(_run(server, "consume", f"bench-{repeat}", records))
                both.append(records / (server.used().cpu_s - start_s))
        yield Figure(
            name="Kafka: in and out, fetched while it is new",
            unit="records/s and core of the gateway",
            better="higher",
            values=both,
            target=_TARGET_BOTH,
            note=f"by the clock {_rates(produced)}/s in, {_rates(consumed)}/s out, the client on the same machine",
        )
        old = []
        for _ in range(options.repeats):
            with served(lake, "--kafka") as server:  # which has nothing at hand
                start_s = server.used().cpu_s
                _run(server, "consume", "bench-0", records)
                old.append(records / (server.used().cpu_s - start_s))
        yield Figure(
            name="Kafka: out, read from the log",
            unit="records/s and core of the gateway",
            better="higher",
            values=old,
            target=_TARGET_OLD,
        )
    yield from _latencies(options)
    yield from _ends_to_ends(options)
    yield from measure_idle(options)
    yield from measure_commits(options)


def _rates(rates: list[float]) -> str:
    return ", ".join(f"{rate:,.0f}" for rate in sorted(rates))


def _run(server: Served, what: str, topic: str, count: int) -> float:
    """The rate by the clock, of a client in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.gateway.kafka", what, server.endpoints, topic, str(count)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _latencies(options: Options) -> Iterator[Figure]:
    """One record a request on the S3 profile, by the real clock."""
    with folder_of_slow_store() as folder, served(folder, "--kafka", "--s3") as server:
        runs = [_latency(server, f"single-{repeat}", options.scaled(2_000, 20)) for repeat in range(options.repeats)]
    for name, at, target in (("p50", 0.5, 60.0), ("p99", 0.99, 150.0)):
        values = [1000 * run[int(at * (len(run) - 1))] for run in runs]
        yield Figure(
            name=f"Kafka: one record a request, {_PER_SECOND}/s, S3 profile, acknowledged, {name}",
            unit="ms",
            values=values,
            target=target,
        )


def _latency(server: Served, topic: str, count: int) -> list[float]:
    """Seconds from produce to acknowledgement, sorted."""
    took_s: list[float] = []
    made = Producer({"bootstrap.servers": server.endpoints, "linger.ms": 0, "batch.num.messages": 1, "max.in.flight": 1_000})
    made.list_topics(topic, timeout=_TIMEOUT_S)
    for _ in _paced(made, count):
        sent_s = time.perf_counter()
        made.produce(topic, bytes(_BODY_BYTES), on_delivery=lambda *_, sent_s=sent_s: took_s.append(time.perf_counter() - sent_s))
    _flushed(made)
    return sorted(took_s)


def _ends_to_ends(options: Options) -> Iterator[Figure]:
    """From a program's produce to another one's consume on the S3 profile, by the real clock."""
    with folder_of_slow_store() as folder, served(folder, "--kafka", "--s3") as server:
        runs = [_end_to_end(server, f"ends-{repeat}", options.scaled(2_000, 20)) for repeat in range(options.repeats)]
    yield Figure(
        name=f"Kafka: end to end, {_PER_SECOND}/s, linger 5 ms, S3 profile, p50",
        unit="ms",
        values=[1000 * statistics.median(run) for run in runs],
        target=110.0,
        note=f"p99 {', '.join(f'{1000 * run[int(0.99 * (len(run) - 1))]:.0f}' for run in runs)} ms",
    )


def _end_to_end(server: Served, topic: str, count: int) -> list[float]:
    """Seconds from produce to consume, sorted. One process has both clients, so one clock."""
    took_s: list[float] = []
    made = Producer({"bootstrap.servers": server.endpoints, "linger.ms": 5})
    made.list_topics(topic, timeout=_TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": server.endpoints, "group.id": "bench"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def consume() -> None:
        while len(took_s) < count:
            record = consumer.poll(_TIMEOUT_S)
            if record is None or record.error() or (value := record.value()) is None:
                raise RuntimeError(f"{len(took_s)} of {count} records came")
            (sent_s,) = _SENT_AT.unpack_from(value)
            took_s.append(time.perf_counter() - sent_s)

    with ThreadPoolExecutor(1) as threads:
        consuming = threads.submit(consume)
        for _ in _paced(made, count):
            made.produce(topic, _SENT_AT.pack(time.perf_counter()).ljust(_BODY_BYTES))
        _flushed(made)
        consuming.result()
    consumer.close()
    return sorted(took_s)


def _paced(made: Producer, count: int) -> Iterator[int]:
    """Numbers, each when it is its time."""
    start_s = time.perf_counter()
    for number in range(count):
        due_s = start_s + number / _PER_SECOND
        while (left_s := due_s - time.perf_counter()) > 0:
            made.poll(left_s)
        yield number


def _produce(endpoints: str, topic: str, count: int) -> float:
    admin = AdminClient({"bootstrap.servers": endpoints})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(_TIMEOUT_S)
    noise = os.urandom(_BODIES * _BODY_BYTES)
    bodies = [noise[start : start + _BODY_BYTES] for start in range(0, len(noise), _BODY_BYTES)]
    keys = [b"key-%d" % number for number in range(_KEYS)]
    settings = {"linger.ms": 50, "batch.size": 1_000_000, "queue.buffering.max.messages": 10_000_000}
    made = Producer({"bootstrap.servers": endpoints, **settings})
    start_s = time.perf_counter()
    for number in range(count):
        made.produce(topic, bodies[number % _BODIES], keys[number % _KEYS])
        if number % 10_000 == 0:
            made.poll(0)
    _flushed(made)
    return count / (time.perf_counter() - start_s)


def _flushed(made: Producer) -> None:
    if left := made.flush(_TIMEOUT_S):
        raise RuntimeError(f"{left} records were not acknowledged")


def _consume(endpoints: str, topic: str, count: int) -> float:
    made = Consumer({"bootstrap.servers": endpoints, "group.id": "bench", "fetch.message.max.bytes": 4_000_000})
    made.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    taken, start_s = 0, time.perf_counter()
    while taken < count:
        records = made.consume(min(10_000, count - taken), _TIMEOUT_S)
        if not records or any(record.error() for record in records):
            raise RuntimeError(f"{taken} of {count} records came")
        taken += len(records)
    rate = count / (time.perf_counter() - start_s)
    made.close()
    return rate


if __name__ == "__main__":
    _, asked, place, of_topic, how_many = sys.argv
    print({"produce": _produce, "consume": _consume}[asked](place, of_topic, int(how_many)))

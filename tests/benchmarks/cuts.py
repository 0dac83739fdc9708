"""What cuts cost a sync without Spark: the time of small batches with and without, and the requests for them."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

import penstock
from penstock.cdc.cuts.log import open_cuts
from penstock.cdc.postgres.positions import base_of, split
from penstock.cdc.sync import cut_recorder
from penstock.cdc.sync.backends.local import LocalBackend
from penstock.cdc.sync.engine import SyncEngine
from penstock.cdc.sync.options import SyncOptions
from penstock.cdc.sync.plan import SyncPlan
from penstock.coordinator.lakes import LakePlace
from penstock.log.stores.counting import CountingStore
from tests.benchmarks.figures import Figure, Options, by_verb

TOPIC = "shop"
_BYTES = 64
"""Of the source's log, that a transaction takes."""


def measure(options: Options) -> Iterator[Figure]:
    batches = options.scaled(50, 3)
    for tables in (3, options.scaled(20, 4)):
        seconds = {cuts: _batches(tables, batches, cuts=cuts) for cuts in (False, True)}
        for cuts, (times, _) in seconds.items():
            yield Figure(
                name=f"cuts: a batch of {tables} tables, {'with' if cuts else 'without'}",
                unit="ms",
                values=[1000 * statistics.median(times)],
                note=f"median of {batches}, each of one transaction; local files",
            )
        counted = seconds[True][1]
        assert counted is not None
        yield Figure(
            name=f"cuts: what {tables} tables take",
            unit="bytes/cut",
            values=[counted.statistics().put.bytes / batches],
            requests=by_verb(counted.statistics(), batches),
            per="cut",
        )
    yield from _large(options.scaled(1000, 10), options.scaled(200, 3))


def _batches(tables: int, batches: int, *, cuts: bool) -> tuple[list[float], CountingStore | None]:
    counted: list[CountingStore] = []

    def counting(into: str, **given: object) -> CountingStore:
        counted.append(CountingStore(open_cuts(into)))
        return counted[-1]

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, patch.object(cut_recorder, "open_cuts", counting):
        lake, into = str(Path(folder) / "lake"), str(Path(folder) / "targets")
        with penstock.connect(lake) as opened:
            opened.create_topic(TOPIC, queues=4, message_type="FIFO")
            with opened.producer(TOPIC, name="postgres/bench") as producer:
                place = LakePlace.of(lake)
                engine = SyncEngine(plan := SyncPlan.of(place, TOPIC, SyncOptions(into=into, cuts=cuts)), LocalBackend(plan))
                _send(producer, 0, tables)
                engine.open()
                try:
                    times = []
                    for number in range(batches + 1):
                        if number:
                            _send(producer, number, tables)
                        begun_s = time.perf_counter()
                        engine.look()
                        assert engine.step() is not None
                        times.append(time.perf_counter() - begun_s)
                finally:
                    engine.close()
    return times[1:], counted[0] if counted else None


def _send(producer: penstock.Producer, number: int, tables: int) -> None:
    """One transaction that changes a row of every table."""
    first = base_of(800 + _BYTES * number) + 1
    rows = []
    for table in range(tables):
        lsn, order = split(first + table)
        source = {
            "connector": "postgresql",
            "schema": "public",
            "table": f"t{table}",
            "ts_ms": lsn,
            "sequence": f'["{lsn}","{lsn}"]',
        }
        value = {
            "op": "u",
            "after": {"id": number % 100, "v": number},
            "source": source,
            "transaction": {"id": "1", "total_order": order},
        }
        body = json.dumps({"key": {"id": number % 100}, "value": value}).encode()
        rows.append({"body": body, "message_group": f"t{table}-{number % 100}", "sequence": first + table})
    producer.send_batch(pa.Table.from_pylist(rows), through=base_of(800 + _BYTES * (number + 1))).result()


def _large(tables: int, cuts: int) -> Iterator[Figure]:
    """Cuts of many tables, of which three change each time."""
    import asyncio

    from penstock.cdc.cuts.cut import Cut, TableVersion
    from penstock.cdc.cuts.log import CutLog

    async def play(folder: str) -> tuple[list[float], CountingStore]:
        store = CountingStore(open_cuts(folder))
        log = CutLog(store, topic=TOPIC, sync=TOPIC, keep_ms=1 << 50, name=folder)
        await log.load()
        versions = {f"table_{number}": TableVersion(1, 1, f"{number:032x}") for number in range(tables)}
        times = []
        for number in range(cuts):
            for table in range(3):
                versions[f"table_{(3 * number + table) % tables}"] = TableVersion(
                    number + 2, number + 2, f"{(3 * number + table) % tables:032x}"
                )
            cut = Cut(0, 1, number + 1, 0, {0: number + 1}, {"postgres/bench": base_of(800 + 8 * number)}, dict(versions))
            begun_s = time.perf_counter()
            await log.add(cut)
            times.append(time.perf_counter() - begun_s)
        return times, store

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        times, store = asyncio.run(play(folder))
    statistics_ = store.statistics()
    yield Figure(
        name=f"cuts: to record one of {tables:,} tables",
        unit="ms",
        values=[1000 * statistics.median(times)],
        requests=by_verb(statistics_, cuts),
        per="cut",
        note=f"{statistics_.put.bytes / cuts / 1024:,.0f} KiB a cut, three tables changed; local files",
    )

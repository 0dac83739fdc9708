"""Replay from the table, beside raw pyarrow on the same files."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from penstock.log import LogLake
from penstock.log.stores.counting import CountingStore, StoreStatistics
from penstock.log.stores.local import LocalStore
from tests.benchmarks.figures import Figure, Options, by_verb
from tests.benchmarks.rows import arrow_rows
from tests.benchmarks.topics import TOPIC, create, fill, publish, table_files

QUEUES = 8


def measure(options: Options) -> Iterator[Figure]:
    rows = options.scaled(2_000_000, 20_000)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder)
        return iter(asyncio.run(_measure(root, rows, options.repeats)))


async def _measure(root: Path, rows: int, repeats: int) -> list[Figure]:
    store = CountingStore(LocalStore(root))
    async with LogLake(store) as lake:
        topic = await create(lake, QUEUES)
        await fill(lake, arrow_rows(rows // 4), 4)
        await publish(topic)
        reader = await lake.reader(TOPIC)
        ours, ours_cpu, messages, raw, raw_cpu = [], [], [], [], []
        requests = StoreStatistics()
        before = requests = store.statistics()
        for repeat in range(repeats):
            start_s, start_cpu_s = time.perf_counter(), time.process_time()
            read = 0
            async for batch in reader.read():
                read += batch.num_rows
            ours.append(read / (time.perf_counter() - start_s))
            ours_cpu.append(1e6 * (time.process_time() - start_cpu_s) / read)
            assert read == rows, f"{read} of {rows} rows"
            if repeat == 0:
                requests = store.statistics() - before  # of one pass
            start_s, start_cpu_s = time.perf_counter(), time.process_time()
            read = sum(_read_raw(path) for path in table_files(root))
            raw.append(rows / (time.perf_counter() - start_s))
            raw_cpu.append(1e6 * (time.process_time() - start_cpu_s) / rows)
            start_s, read = time.perf_counter(), 0
            async for _ in reader.messages(queue=0):
                read += 1
            messages.append(read / (time.perf_counter() - start_s))
        files = len(table_files(root))
    note = f"{rows:,} rows of 100 B in {files} files"
    shares = [100 * one / other for one, other in zip(ours, raw, strict=True)]
    cpu = [100 * other / one for one, other in zip(ours_cpu, raw_cpu, strict=True)]
    per = "in all"
    return [
        Figure(name="replay, Arrow batches", unit="rows/s", better="higher", values=ours, requests=by_verb(requests, 1), per=per),
        Figure(name="raw pyarrow, same files", unit="rows/s", better="higher", values=raw, note=note),
        Figure(name="replay beside raw", unit="%", better="higher", values=shares, target=80),
        Figure(name="replay beside raw, by processor time", unit="%", better="higher", values=cpu, target=80),
        Figure(name="replay, messages one by one", unit="messages/s", better="higher", values=messages),
    ]


def _read_raw(path: Path) -> int:
    """As ours reads: row group by row group, with checksums, in the file's types."""
    file = pq.ParquetFile(path, page_checksum_verification=True)
    return sum(file.read_row_group(group).num_rows for group in range(file.num_row_groups))

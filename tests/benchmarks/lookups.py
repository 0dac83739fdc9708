"""How much of a large table a lookup by id or key reads."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.log import LogLake
from penstock.log.stores.counting import CountingStore
from penstock.log.stores.local import LocalStore
from tests.benchmarks.figures import Figure, Options, by_verb
from tests.benchmarks.rows import arrow_rows
from tests.benchmarks.topics import TOPIC, create, publish, table_files

QUEUES = 4


def measure(options: Options) -> Iterator[Figure]:
    rows = options.scaled(10_000_000, 40_000)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        return iter(asyncio.run(_measure(Path(folder), rows, options)))


async def _measure(root: Path, rows: int, options: Options) -> list[Figure]:
    store = CountingStore(LocalStore(root))
    figures = []
    async with LogLake(store) as lake:
        topic = await create(lake, QUEUES)
        producer = await lake.producer(TOPIC)
        chunk = rows // 10
        for first in range(0, rows, chunk):
            await producer.send_batch(_keyed(chunk, first))
            await publish(topic, compact=False)
        await producer.close()
        await publish(topic)
        reader = await lake.reader(TOPIC)
        await reader.offsets()
        total = sum(path.stat().st_size for path in table_files(root))
        wanted = await reader.lookup(key=f"order-{rows // 2}")
        for name, where in (("key", {"key": f"order-{rows // 3}"}), ("message id", {"message_id": wanted[0].message_id})):
            before, start_s = store.statistics(), time.perf_counter()
            found = await reader.lookup(**where)
            took_s = time.perf_counter() - start_s
            assert len(found) == 1, found
            requests = store.statistics() - before
            figures.append(
                Figure(
                    name=f"lookup by {name} in {rows:,} rows",
                    unit="% of the table's bytes",
                    values=[100 * requests.get.bytes / total],
                    target=None if options.small else 5,
                    requests=by_verb(requests, 1),
                    per="a lookup",
                    note=f"{took_s * 1000:.0f} ms on local files; table {total / 2**20:.0f} MiB in {len(table_files(root))} files",
                )
            )
    return figures


def _keyed(count: int, first: int) -> pa.Table:
    """Rows with a key of their own each."""
    numbers = pc.cast(pa.array(np.arange(first, first + count)), pa.string())
    keys = pc.binary_join_element_wise("order", numbers, "-")
    return arrow_rows(count).append_column("keys", pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), keys))

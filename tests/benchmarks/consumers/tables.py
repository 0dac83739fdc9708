"""Tables of cells side by side: one write and one read after another, and how many writes a second 16 cells take.

All are real, and flush to the disk before they answer: SQLite in a file, PostgreSQL with its defaults, and dynoxide and versitygw where they were
built. They take turns, as neighbours on the machine slow one down as the next.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from penstock.coordinator.tables import CellTable, CellVersion, create_table, open_table
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import open_store
from tests.benchmarks.figures import Figure, Options
from tests.postgres_server import find_postgres, postgres_server
from tests.servers import DYNOXIDE, VERSITYGW, dynoxide_server, versitygw_server

_BYTES = 1_000
_TOGETHER = 16
Opener = Callable[[], CellTable]


def measure(options: Options) -> Iterator[Figure]:
    found: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        tables = _tables(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-"))), stack)
        for repeat in range(options.repeats):
            for name, opener in tables.items():
                for what, value in asyncio.run(_measured(opener, f"{repeat}", options)).items():
                    found[f"{name}, {what}"].append(value)
    for name, values in found.items():
        rate = name.endswith("side by side")
        yield Figure(name=name, unit="/s" if rate else "ms", values=values, better="higher" if rate else "lower")


def _tables(folder: Path, stack: ExitStack) -> dict[str, Opener]:
    """What opens each kind that is there."""
    lake = open_store(folder / "lake")

    def at(url: str, options: dict[str, str] | None = None) -> Opener:
        return lambda: open_table(url, store=lake, runtime=Runtime(), options=options)

    tables = {"SQLite": at(f"sqlite://{folder}/cells.db")}
    if find_postgres().exists():
        server = stack.enter_context(postgres_server(fsync="on"))
        tables["PostgreSQL"] = at(f"{server.dsn}?timeout_s=60")
    if DYNOXIDE.exists():
        dynamodb = stack.enter_context(dynoxide_server(folder / "dynoxide"))
        url = dynamodb.url("cells").replace("timeout_s=10", "timeout_s=60")
        asyncio.run(create_table(url, options=dynamodb.credentials))
        tables["dynoxide"] = at(url, dynamodb.credentials)
    if VERSITYGW.exists():
        s3 = stack.enter_context(versitygw_server(folder / "versitygw"))
        bucket = open_store(s3.url("lake"), options=s3.credentials)
        tables["versitygw"] = lambda: open_table("store", store=bucket, runtime=Runtime())
    return tables


async def _measured(opener: Opener, name: str, options: Options) -> dict[str, float]:
    table, body = opener(), os.urandom(_BYTES)
    try:
        version = await table.put(f"{name}/alone", body, expected=None)
        writes, reads = list[float](), list[float]()
        for _ in range(options.scaled(200, 3)):
            began_s = time.perf_counter()
            version = await table.put(f"{name}/alone", body, expected=version)
            writes.append(time.perf_counter() - began_s)
        for _ in range(options.scaled(200, 3)):
            began_s = time.perf_counter()
            assert await table.get(f"{name}/alone") is not None
            reads.append(time.perf_counter() - began_s)
        each = options.scaled(100, 2)
        began_s = time.perf_counter()
        await asyncio.gather(*(_write(table, f"{name}/{number}", body, each) for number in range(_TOGETHER)))
        rate = _TOGETHER * (each + 1) / (time.perf_counter() - began_s)
    finally:
        await table.close()
    return {
        "a write": 1000 * statistics.median(writes),
        "a read": 1000 * statistics.median(reads),
        "writes of 16 cells side by side": rate,
    }


async def _write(table: CellTable, key: str, body: bytes, times: int) -> None:
    version: CellVersion | None = None
    for _ in range(times + 1):
        version = await table.put(key, body, expected=version)

"""The table in a SQLite file: files that come, go and are others', locks, and machines that fail it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.coordinator.tables import SqliteTable
from penstock.log.runtime import Runtime

THREADS = 6


def test_a_file_that_is_being_made_is_empty_or_whole(tmp_path: Path) -> None:
    """Read by some while another makes it, again and again: nobody takes it for somebody else's."""

    async def use(number: int, path: Path) -> bytes | None:
        table = SqliteTable(path, runtime=Runtime())
        try:
            if number == 0:
                await table.put("k", b"made", expected=None)
            for _ in range(20):
                if (found := await table.get("k")) is not None:
                    return found.data
            return None
        finally:
            await table.close()

    with ThreadPoolExecutor(THREADS) as pool:
        for file in range(30):
            path = tmp_path / f"{file}.db"
            seen = list(pool.map(lambda number, path=path: asyncio.run(use(number, path)), range(THREADS)))
            assert seen[0] == b"made"
            assert {*seen} <= {None, b"made"}

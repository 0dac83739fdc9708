"""The table in a SQLite file on a machine that fails it: full disks, read-only ones, kills in the middle of a write."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.coordinator.limits import CELL_BYTES_MAX
from penstock.coordinator.tables import CellVersion, SqliteTable
from penstock.log.errors import PermissionDenied, StorageFull, StoreUnavailable
from penstock.log.runtime.runtime import Runtime
from tests.log.stores.test_local_faults import full_disk

ROOM = "filler"


def test_a_full_disk_is_said_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    async def use(folder: Path) -> None:
        table = SqliteTable(folder / "cells.db", runtime=Runtime())
        acknowledged: dict[str, CellVersion] = {}

        async def fill() -> None:
            for number in range(50):
                acknowledged[f"k/{number}"] = await table.put(f"k/{number}", os.urandom(CELL_BYTES_MAX), expected=None)

        with pytest.raises(StorageFull, match=r"no room left.*cells.db.*Free some space"):
            await fill()
        assert acknowledged
        for key, version in acknowledged.items():
            found = await table.get(key)
            assert found is not None
            assert found.version == version
        os.unlink(folder / ROOM)
        await table.put("k/0", b"small", expected=acknowledged["k/0"])
        await table.close()

    with full_disk(tmp_path / "small") as folder:
        (folder / ROOM).write_bytes(bytes(300_000))
        asyncio.run(use(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a read-only file system")
def test_a_read_only_disk_is_said(tmp_path: Path) -> None:
    async def use(folder: Path) -> None:
        table = SqliteTable(folder / "cells.db", runtime=Runtime())
        version = await table.put("k", b"one", expected=None)
        await table.close()
        await asyncio.to_thread(remount, folder, "remount,ro")
        table = SqliteTable(folder / "cells.db", runtime=Runtime())
        with pytest.raises(PermissionDenied, match=r"may not be written.*operation: put.*cells.db.*Check owner and mode"):
            await table.put("k", b"two", expected=version)
        await asyncio.to_thread(remount, folder, "remount,rw")
        found = await table.get("k")
        assert found is not None
        assert (found.data, found.version) == (b"one", version)
        await table.put("k", b"two", expected=version)
        await table.close()

    with full_disk(tmp_path / "small") as folder:
        if not os.path.ismount(folder):
            pytest.skip("nothing may be mounted here")
        asyncio.run(use(folder))


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", options, folder], check=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_file_that_may_not_be_written_is_said(tmp_path: Path) -> None:
    table = SqliteTable(tmp_path / "cells.db", runtime=Runtime())
    version = await table.put("k", b"one", expected=None)
    await table.close()
    os.chmod(tmp_path / "cells.db", 0o400)
    table = SqliteTable(tmp_path / "cells.db", runtime=Runtime())
    with pytest.raises(PermissionDenied, match="may not be written"):
        await table.put("k", b"two", expected=version)
    await table.close()


KILLED = """
import asyncio, sys
from penstock.coordinator.tables import SqliteTable
from penstock.log.runtime.runtime import Runtime

async def main():
    table = SqliteTable(sys.argv[1], runtime=Runtime())
    async def write(worker):
        version = None
        for number in range(10**6):
            version = await table.put(f"k/{worker}", f"{number:016}".encode() * 1000, expected=version)
            sys.stdout.write(f"{worker} {number}\\n"); sys.stdout.flush()
    await asyncio.gather(*map(write, range(4)))

asyncio.run(main())
"""


@pytest.mark.processes
@pytest.mark.parametrize("acknowledgements", [1, 50, 400])
def test_a_killed_writer_loses_nothing_acknowledged_and_blocks_nobody(tmp_path: Path, acknowledgements: int) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "cells.db"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(acknowledgements)]
        child.kill()
        told += child.stdout.readlines()
    last = {worker: int(number) for worker, _, number in (line.strip().partition(" ") for line in told if line.endswith("\n"))}

    async def check() -> None:
        table = SqliteTable(tmp_path / "cells.db", runtime=Runtime())
        for worker, number in last.items():
            found = await table.get(f"k/{worker}")
            assert found is not None
            stored = int(found.data[:16])
            assert found.data == f"{stored:016}".encode() * 1000, "torn"
            assert stored in {number, number + 1}, "only what was on its way may be there too"
            await table.put(f"k/{worker}", b"next", expected=found.version)
        await table.close()

    asyncio.run(check())


async def test_a_file_system_that_fails_is_an_unknown_outcome(tmp_path: Path) -> None:
    """Where the write-ahead log cannot be, as its name is taken by a folder, SQLite knows no more than we."""
    (tmp_path / "cells.db-wal").mkdir()
    table = SqliteTable(tmp_path / "cells.db", runtime=Runtime())
    with pytest.raises(StoreUnavailable, match=r"the file system failed under the coordination database.*SQLITE_IOERR"):
        await table.put("k", b"one", expected=None)
    (tmp_path / "cells.db-wal").rmdir()
    await table.put("k", b"one", expected=None)
    await table.close()

"""Several processes of one gateway: started again when they die, and ended when their standard input is."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.gateway.server.processes import supervise
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]

WORKER = """
import os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
(folder / f"begun-{os.getpid()}").touch()
sys.stdin.read()
(folder / f"ended-{os.getpid()}").touch()
"""


async def appear(folder: Path, pattern: str, count: int) -> list[int]:
    """The processes that left such a file, once there are so many."""
    loop = asyncio.get_running_loop()

    def found() -> list[int]:
        return wait_until(
            lambda: names if len(names := [int(one.name.partition("-")[2]) for one in folder.glob(pattern)]) >= count else [],
            f"{count} files {pattern}",
        )

    return await loop.run_in_executor(None, found)


async def test_a_process_that_dies_is_started_again_and_all_end_in_order(tmp_path: Path) -> None:
    stop = asyncio.Event()
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    supervising = asyncio.ensure_future(supervise([command, command], stop, drain=timedelta(seconds=1)))
    first, second = await appear(tmp_path, "begun-*", 2)
    os.kill(first, signal.SIGKILL)
    begun = await appear(tmp_path, "begun-*", 3)
    stop.set()
    await supervising
    ended = await appear(tmp_path, "ended-*", 2)
    assert set(ended) == set(begun) - {first}
    assert second in ended

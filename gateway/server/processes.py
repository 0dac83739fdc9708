"""Several processes of one gateway, as Python runs in one core each.

All listen at the shared port, and each at its own, which routes name. Each ends with its standard input, so with its parent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

log = logging.getLogger("penstock.gateway")

_AGAIN_S: Final = 1.0
"""The pause before an ended process is started again."""
_PATIENCE: Final = timedelta(seconds=30)
"""The time beside the drain before a process is killed."""
_STDIN: Final = 0


async def supervise(commands: Sequence[Sequence[str]], stop: asyncio.Event, *, drain: timedelta) -> None:
    """Keep one process of each command running until ``stop`` is set."""
    await asyncio.gather(*(_keep(command, stop, drain) for command in commands))


async def _keep(command: Sequence[str], stop: asyncio.Event, drain: timedelta) -> None:
    while not stop.is_set():
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=DEVNULL, start_new_session=True)
        stopped, ended = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(process.wait())
        await asyncio.wait((stopped, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            await _end(process, ended, drain)
            stopped.cancel()
            return
        log.error("a process of the gateway ended by itself with exit code %d, and is started again", ended.result())
        with suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_S):
                await stopped


async def _end(process: Process, ended: asyncio.Future[int], drain: timedelta) -> None:
    assert process.stdin is not None, "it was asked for"
    process.stdin.close()
    done, _ = await asyncio.wait((ended,), timeout=(drain + _PATIENCE).total_seconds())
    if not done:
        log.error("a process of the gateway did not end in time, and is killed")
        process.kill()
        await ended


def end_with_parent(stop: Callable[[], None]) -> None:
    """Call ``stop`` when this process's standard input ends."""

    def watch() -> None:
        while os.read(_STDIN, 1024):
            pass
        stop()

    threading.Thread(target=watch, name="penstock-parent", daemon=True).start()

"""A parent and real worker processes: started, replaced, reloaded and ended, and what it does when they cannot start."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.infra.pool.pool import Pool
from tests.waiting import until

pytestmark = pytest.mark.processes

WORKER = """
import json, os, pathlib, signal, sys
folder = pathlib.Path(sys.argv[1])
number, channel = map(int, sys.argv[-1].split(":"))
me = f"{number}-{os.getpid()}"

def say(**what):
    os.write(channel, json.dumps(what).encode() + b"\\n")

(folder / f"started-{me}").touch()
if (folder / "broken").exists():
    sys.exit(int((folder / "broken").read_text()))
heard = signal.SIGTERM, signal.SIGINT
signal.pthread_sigmask(signal.SIG_BLOCK, heard)
say(said="ready")
(folder / f"works-{me}").touch()
if (folder / "done").exists():
    say(said="finished")
    sys.exit()
if (folder / "asked").exists():
    question = json.loads(os.read(channel, 1000))
    say(said="metrics", id=question["id"], text=f"of {number}")
signal.sigwait({signal.SIGTERM} if not (folder / "stubborn").exists() else {signal.SIGINT})
(folder / f"ended-{me}").touch()
"""


class Name(NamedTuple):
    number: int
    process: int


def left(folder: Path, what: str) -> list[Name]:
    """The workers that left such a file."""
    return [Name(*map(int, one.name.split("-")[1:])) for one in folder.glob(f"{what}-*")]


async def found(folder: Path, what: str, count: int) -> list[Name]:
    """The workers that left such a file, once there are so many."""

    async def look() -> list[Name]:
        return sorted(left(folder, what))

    return await until(look, lambda names: len(names) >= count, f"{count} files {what}")


def pool_of(folder: Path, count: int, *, outlives_failure: bool = False) -> Pool:
    command = [sys.executable, "-c", WORKER, str(folder)]
    return Pool(command, count, outlives_failure=outlives_failure, first_pause=timedelta(milliseconds=10))


async def running(pool: Pool, play: Callable[[], Awaitable[object]]) -> int:
    """The pool's exit code, with ``play`` beside it."""
    ending = asyncio.ensure_future(pool.run())
    await play()
    return await ending


async def test_a_worker_that_dies_is_replaced_at_its_place_and_all_end_in_order(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, 3)

    async def play() -> None:
        works = await found(tmp_path, "works", 3)
        assert [one.number for one in works] == [1, 2, 3]
        os.kill(works[1].process, signal.SIGKILL)
        works = await found(tmp_path, "works", 4)
        assert [one.number for one in works] == [1, 2, 2, 3]
        pool.end()

    assert await running(pool, play) == 0
    assert pool.starts == 4
    assert [one.number for one in await found(tmp_path, "ended", 3)] == [1, 2, 3]


async def test_a_wrong_call_is_told_by_one_worker_and_no_other_starts(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("2")
    pool = pool_of(tmp_path, 4)
    assert await pool.run() == 2
    assert [one.number for one in await found(tmp_path, "started", 1)] == [1]


async def test_a_worker_that_never_works_ends_the_pool_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("3")
    pool = pool_of(tmp_path, 2)
    assert await pool.run() == 3
    assert [one.number for one in await found(tmp_path, "started", 5)] == [1] * 5


async def test_a_program_that_breaks_later_ends_the_pool_with_the_others_in_order(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, 2)

    async def play() -> None:
        works = await found(tmp_path, "works", 2)
        (tmp_path / "broken").write_text("1")
        os.kill(works[0].process, signal.SIGKILL)

    assert await running(pool, play) == 1
    assert [one.number for one in await found(tmp_path, "ended", 1)] == [2]


async def test_workers_that_have_finished_are_not_replaced_and_the_pool_ends_well(tmp_path: Path) -> None:
    (tmp_path / "done").touch()
    pool = pool_of(tmp_path, 2)
    assert await pool.run() == 0
    assert pool.starts == 2


async def test_a_reload_starts_the_first_alone_and_a_broken_program_waits_for_the_next(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, 2, outlives_failure=True)

    async def play() -> None:
        await found(tmp_path, "works", 2)
        (tmp_path / "broken").write_text("2")
        pool.reload()
        await found(tmp_path, "ended", 2)
        assert [one.number for one in await found(tmp_path, "started", 3)] == [1, 1, 2]
        (tmp_path / "broken").unlink()
        pool.reload()
        works = await found(tmp_path, "works", 4)
        assert [one.number for one in works] == [1, 1, 2, 2]
        pool.end()

    assert await running(pool, play) == 0
    assert len(await found(tmp_path, "ended", 4)) == 4
    assert pool.starts == 5


async def test_a_cancelled_pool_does_not_wait_for_what_workers_run(tmp_path: Path) -> None:
    (tmp_path / "stubborn").touch()
    pool = pool_of(tmp_path, 2)
    ending = asyncio.ensure_future(pool.run())
    await found(tmp_path, "works", 2)
    pool.end()
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert len(await found(tmp_path, "ended", 2)) == 2, "they heard SIGINT"


async def test_a_worker_that_does_not_end_in_its_time_is_killed(tmp_path: Path) -> None:
    (tmp_path / "stubborn").touch()
    pool = Pool([sys.executable, "-c", WORKER, str(tmp_path)], 1, patience=timedelta(milliseconds=50))

    async def play() -> None:
        await found(tmp_path, "works", 1)
        pool.end()

    assert await running(pool, play) == 0
    assert not left(tmp_path, "ended")


async def test_each_worker_tells_its_metrics_and_one_that_ends_instead_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "asked").touch()
    pool = pool_of(tmp_path, 2)

    async def play() -> None:
        works = await found(tmp_path, "works", 2)
        await until(ready, lambda count: count == 2, "two workers are ready")
        assert await pool.metrics() == {1: "of 1", 2: "of 2"}
        asking = asyncio.ensure_future(pool.metrics())
        for one in works:
            os.kill(one.process, signal.SIGKILL)
        assert await asking == {}
        pool.end()

    async def ready() -> int:
        return pool.ready

    await running(pool, play)

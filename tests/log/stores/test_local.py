"""What is particular to the local store: versions, durability, full disks, kills, folders of 100,000 files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.log.errors import ClosedError, InvalidArgument, PermissionDenied, StorageFull, StoreUnavailable
from penstock.log.runtime import Runtime
from penstock.log.stores import Conflict, IfMatch, LocalStore, Put
from penstock.log.stores.keys import HIDDEN_FOLDER

BODY_BYTES = 256 * 1024


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "locks" not in path.parts)


def test_equal_bytes_written_again_are_another_version(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path)
        versions = [await store.put("k", b"same", mode=Put.CREATE)]
        for _ in range(50):
            versions.append(await store.put("k", b"same", mode=Put.REPLACE))
            versions.append(await store.put("k", b"same", mode=IfMatch(versions[-1])))
        assert len(set(versions)) == len(versions)
        for stale in versions[:-1]:
            with pytest.raises(Conflict):
                await store.put("k", b"same", mode=IfMatch(stale))

    asyncio.run(run())


def test_a_version_moves_on_when_the_kernels_clock_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inode that is freed is used again at once; so within one tick only the time that we set tells two writes apart."""
    real, still_ns = os.utime, time.time_ns()
    monkeypatch.setattr(os, "utime", lambda path, ns: real(path, ns=(ns[0], ns[1] if isinstance(path, str) else still_ns)))

    async def run() -> None:
        store = LocalStore(tmp_path)
        versions = {await store.put("k", b"same", mode=Put.REPLACE) for _ in range(50)}
        assert len(versions) == 50

    asyncio.run(run())


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path / "deep" / "lake")
        assert await store.list("") == []
        assert await store.list_folders("") == []
        await store.delete("k")
        assert not (tmp_path / "deep").exists()
        await store.put("k", b"", mode=Put.CREATE)
        assert (tmp_path / "deep" / "lake" / "k").exists()

    asyncio.run(run())


def test_bytes_are_flushed_before_they_are_visible_and_the_name_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def traced(name: str) -> None:
        real = getattr(os, name)

        def step(*args: object, **kwargs: object) -> object:
            is_folder = name == "fsync" and os.path.isdir(f"/proc/self/fd/{args[0]}")
            steps.append(name + (" folder" if is_folder else ""))
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, step)

    async def run() -> None:
        store = LocalStore(tmp_path)
        await store.put("a/b/k", b"", mode=Put.REPLACE)
        await store.delete("a/b/k")
        await store.put("a/b/warm", b"", mode=Put.CREATE)
        for name in ("fsync", "link", "replace"):
            traced(name)
        version = await store.put("a/b/k", b"1", mode=Put.CREATE)
        assert steps == ["fsync", "link", "fsync folder"]
        steps.clear()
        await store.put("a/b/k", b"2", mode=IfMatch(version))
        assert steps == ["fsync", "replace", "fsync folder"]
        steps.clear()
        await store.put("a/c/d/k", b"1", mode=Put.CREATE)
        assert steps == ["fsync", "fsync folder", "fsync folder", "link", "fsync folder"], "new folders are flushed too"

    asyncio.run(run())


def test_a_lost_create_writes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path)
        await store.put("k", b"one", mode=Put.CREATE)
        with pytest.raises(Conflict):
            await store.put("k", b"two", mode=Put.CREATE)
        assert files_below(tmp_path) == ["k"]

    asyncio.run(run())


def test_drafts_and_locks_are_never_listed_and_cannot_be_named(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path)
        await store.put("k", b"one", mode=Put.REPLACE)
        (tmp_path / HIDDEN_FOLDER / "drafts" / "left").write_bytes(b"half")
        assert [info.key for info in await store.list("")] == ["k"]
        assert [info.key for info in await store.list(".")] == []
        assert await store.list_folders("") == []
        for key in (f"{HIDDEN_FOLDER}/drafts/left", "../k", "a/../../k", "/k", "a//b", "a/", "", "a/./b", "a\0b"):
            with pytest.raises(InvalidArgument, match="bad key"):
                await store.put(key, b"", mode=Put.CREATE)

    asyncio.run(run())


def test_drafts_of_the_killed_are_swept_a_day_later(tmp_path: Path) -> None:
    drafts = tmp_path / HIDDEN_FOLDER / "drafts"
    drafts.mkdir(parents=True)
    for name, age_s in (("old", 25 * 3600), ("young", 23 * 3600)):
        (drafts / name).write_bytes(b"half")
        then = (drafts / name).stat().st_mtime - age_s
        os.utime(drafts / name, (then, then))
    asyncio.run(LocalStore(tmp_path).put("k", b"", mode=Put.CREATE))
    assert files_below(drafts) == ["young"]


def test_an_empty_folder_goes_with_its_last_object_and_comes_back(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path)
        for _ in range(3):
            await store.put("a/b/k", b"", mode=Put.CREATE)
            await store.delete("a/b/k")
            assert not (tmp_path / "a").exists()

    asyncio.run(run())


def test_puts_survive_folders_that_come_and_go(tmp_path: Path) -> None:
    async def churn(store: LocalStore, name: str) -> None:
        for _ in range(40):
            await store.put(f"a/b/{name}", b"x", mode=Put.CREATE)
            assert (await store.get(f"a/b/{name}")).data == b"x"
            await store.delete(f"a/b/{name}")

    async def run() -> None:
        stores = [LocalStore(tmp_path) for _ in range(4)]
        await asyncio.gather(*(churn(store, str(number)) for number, store in enumerate(stores)))

    asyncio.run(run())


def test_a_key_that_is_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        store = LocalStore(tmp_path)
        await store.put("a/b", b"", mode=Put.CREATE)
        for mode in Put:
            with pytest.raises(InvalidArgument, match="folder of other objects"):
                await store.put("a", b"", mode=mode)
            with pytest.raises(InvalidArgument, match="cannot be a file"):
                await store.put("a/b/c", b"", mode=mode)
            with pytest.raises(InvalidArgument, match="cannot be a file"):
                await store.put("x" * 256, b"", mode=mode)
        await store.delete("a")
        assert [info.key for info in await store.list("")] == ["a/b"]

    asyncio.run(run())


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[Path]:
    """A file system of 1 MiB where this user may mount one; else a limit of that size on every file."""
    folder.mkdir()
    if (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
        ).returncode
    ):
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", folder], check=True)
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * 1024, hard))
    try:
        yield folder
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_shows_nothing_half_written(tmp_path: Path) -> None:
    async def run(root: Path) -> None:
        store = LocalStore(root)
        version = await store.put("k", b"kept", mode=Put.CREATE)
        big = [b"x" * 100_000] * 20
        for mode, key in ((Put.CREATE, "big"), (Put.REPLACE, "k"), (IfMatch(version), "k")):
            with pytest.raises(StorageFull, match="no room left"):
                await store.put(key, big, mode=mode)
        with pytest.raises(StorageFull):
            await store.put_large("big", big)
        assert files_below(root) == ["k"], "the failed drafts are gone, and their room is free again"
        assert (await store.get("k")).data == b"kept"
        await store.put("small", b"x" * 1000, mode=Put.CREATE)

    with full_disk(tmp_path / "small") as root:
        asyncio.run(run(root))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_is_full_when_flushing_or_linking_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    async def run(step: str) -> None:
        store = LocalStore(tmp_path)
        await store.put("warm", b"", mode=Put.REPLACE)
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fail)
            with pytest.raises(StorageFull):
                await store.put("k", b"body", mode=Put.CREATE)
        assert files_below(tmp_path) == ["warm"]

    for step in ("fsync", "link"):
        asyncio.run(run(step))


def test_a_visible_object_whose_folder_cannot_be_flushed_is_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fail(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, "no space")
        real(handle)

    async def run() -> None:
        store = LocalStore(tmp_path)
        await store.put("warm", b"", mode=Put.CREATE)
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(StoreUnavailable):
            await store.put("k", b"body", mode=Put.CREATE)
        assert (await store.get("k")).data == b"body"

    asyncio.run(run())


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_what_may_not_be_written_is_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """By an injected error: for root no folder is closed."""

    def fail(*_args: object) -> None:
        raise OSError(number, os.strerror(number))

    async def run() -> None:
        store = LocalStore(tmp_path)
        await store.put("k", b"1", mode=Put.CREATE)
        monkeypatch.setattr(os, "write", fail)
        with pytest.raises(PermissionDenied, match="Check the folder's owner and mode"):
            await store.put("other", b"body", mode=Put.CREATE)
        assert (await store.get("k")).data == b"1"

    asyncio.run(run())


KILLED = """
import asyncio, sys
from penstock.log.stores import LocalStore, Put

async def main():
    store = LocalStore(sys.argv[1])
    async def write(worker):
        for number in range(10**6):
            key, mode = (f"o/{worker}-{number}", Put.CREATE) if number % 2 else (f"r/{worker}", Put.REPLACE)
            await store.put(key, f"{number:016}".encode() * (256 * 1024 // 16), mode=mode)
            sys.stdout.write(key + "\\n"); sys.stdout.flush()
    await asyncio.gather(*map(write, range(4)))

asyncio.run(main())
"""


@pytest.mark.processes
@pytest.mark.parametrize("acknowledgements", [1, 17, 40])
def test_a_killed_writer_leaves_no_torn_object(tmp_path: Path, acknowledgements: int) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(acknowledgements)]
        child.kill()
        told += child.stdout.readlines()

    async def check() -> None:
        store = LocalStore(tmp_path)
        listed = await store.list("")
        assert {info.key for info in listed} >= {line.strip() for line in told if line.endswith("\n")}
        for info in listed:
            data = (await store.get(info.key)).data
            assert info.size_bytes == BODY_BYTES
            assert data == data[:16] * (BODY_BYTES // 16), f"{info.key} is torn"

    asyncio.run(check())


def test_a_paused_holder_of_a_lock_is_waited_for_then_reported(tmp_path: Path) -> None:
    """The store's clock jumps past the time-out, so nobody waits."""

    class Jumping:
        now_s = 0.0

        def wall_ms(self) -> int:
            return 0

        def monotonic_s(self) -> float:
            self.now_s += 6.0
            return self.now_s

    async def run() -> None:
        store = LocalStore(tmp_path, runtime=Runtime(clock=Jumping()))
        await store.put("k", b"1", mode=Put.REPLACE)
        handles = [os.open(path, os.O_RDWR) for path in (tmp_path / HIDDEN_FOLDER / "locks").iterdir()]
        for handle in handles:
            fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="holds the key's lock"):
            await store.put("k", b"2", mode=Put.REPLACE)
        for handle in handles:
            os.close(handle)
        await store.put("k", b"3", mode=Put.REPLACE)

    asyncio.run(run())


def test_a_forked_child_works_with_threads_of_its_own(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    asyncio.run(store.put("parent", b"p", mode=Put.CREATE))
    child = multiprocessing.get_context("fork").Process(
        target=lambda: asyncio.run(store.put("child", b"c", mode=Put.CREATE)), daemon=True
    )
    child.start()
    child.join(20)
    assert child.exitcode == 0
    assert (tmp_path / "child").read_bytes() == b"c"


def test_close_ends_the_threads_and_refuses_calls(tmp_path: Path) -> None:
    async def run() -> None:
        before = set(threading.enumerate())
        store = LocalStore(tmp_path)
        await store.put("k", b"", mode=Put.CREATE)
        mine = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("penstock-local")]
        assert mine
        await store.close()
        await store.close()
        for thread in mine:
            thread.join(10)
            assert not thread.is_alive()
        with pytest.raises(ClosedError):
            await store.get("k")

    asyncio.run(run())


def test_a_list_after_a_key_looks_only_at_what_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 names: the folder is read once, files are looked at only for the answer, other folders not at all."""
    folder = tmp_path / "log"
    folder.mkdir()
    (tmp_path / "log.d").mkdir()
    handle = os.open(folder, os.O_RDONLY)
    os.close(os.open("source", os.O_CREAT, dir_fd=handle))
    for number in range(100_000):
        if number % 50_000 == 0:  # file systems bound the links of a file
            os.close(os.open(f"source-{number}", os.O_CREAT, dir_fd=handle))
        os.link(f"source-{number // 50_000 * 50_000}", f"{number:020}", src_dir_fd=handle, dst_dir_fd=handle)
    os.close(handle)
    looked: list[str] = []
    opened: list[str] = []
    real_stat, real_scandir = os.stat, os.scandir

    def stat(path: str) -> os.stat_result:
        looked.append(path)
        return real_stat(path)

    def scandir(path: str) -> Any:
        opened.append(path)
        return real_scandir(path)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os, "scandir", scandir)

    async def run() -> None:
        store = LocalStore(tmp_path)
        started_s = time.monotonic()
        found = await store.list("log/0", after=f"log/{99_989:020}")
        assert [info.key for info in found] == [f"log/{number:020}" for number in range(99_990, 100_000)]
        assert len(await store.list("", after=f"log/{99_989:020}", max_keys=3)) == 3
        assert len(await store.list("log/", max_keys=5)) == 5
        assert time.monotonic() - started_s < 5
        assert len(looked) == 10 + 3 + 5
        assert [Path(path).name for path in opened] == ["log", tmp_path.name, "log", "log"]

    asyncio.run(run())

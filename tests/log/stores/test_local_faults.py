"""The local store on a machine that fails it: full disks, refusals, kills, paused holders of a lock."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.log.errors import ClosedError, PermissionDenied, StorageFull, StoreUnavailable, UnsafeStoreError
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import IfMatch, LocalStore, Put
from penstock.log.stores.protocol import HIDDEN_FOLDER
from tests.log.stores.test_local import files_below

BODY_BYTES = 256 * 1024


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


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_hard_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_args: object) -> None:
        raise OSError(number, os.strerror(number))

    async def run() -> None:
        store = LocalStore(tmp_path)
        monkeypatch.setattr(os, "link", fail)
        with pytest.raises(UnsafeStoreError, match="Use a file system with hard links"):
            await store.put("k", b"body", mode=Put.CREATE)
        assert files_below(tmp_path) == []

    asyncio.run(run())


def test_who_waits_for_a_lock_when_the_store_is_closed_gives_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test closes the store when the waiter has found the lock taken, and counts how often it looks afterwards."""
    looks = []
    found_taken = threading.Event()
    real = fcntl.flock

    def counted(handle: int, operation: int) -> None:
        looks.append(operation)
        try:
            real(handle, operation)
        except BlockingIOError:
            found_taken.set()
            raise

    async def run() -> None:
        store = LocalStore(tmp_path)
        await store.put("k", b"1", mode=Put.REPLACE)
        handles = [os.open(path, os.O_RDWR) for path in (tmp_path / HIDDEN_FOLDER / "locks").iterdir()]
        for handle in handles:
            fcntl.flock(handle, fcntl.LOCK_EX)
        monkeypatch.setattr(fcntl, "flock", counted)
        waiting = asyncio.create_task(store.put("k", b"2", mode=Put.REPLACE))
        await asyncio.to_thread(found_taken.wait, 10)
        await store.close()
        looks.clear()
        with pytest.raises(ClosedError):
            await waiting
        assert len(looks) <= 1
        for handle in handles:
            os.close(handle)
        assert (await LocalStore(tmp_path).get("k")).data == b"1"

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

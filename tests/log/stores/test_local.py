"""What is particular to the local store: versions, durability, hidden files, folders that come and go or hold 100,000 files."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.log.errors import ClosedError, InvalidArgument
from penstock.log.stores import Conflict, IfMatch, LocalStore, Put
from penstock.log.stores.protocol import HIDDEN_FOLDER


def files_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "locks" not in path.parts)


async def test_equal_bytes_written_again_are_another_version(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    versions = [await store.put("k", b"same", mode=Put.CREATE)]
    for _ in range(50):
        versions.append(await store.put("k", b"same", mode=Put.REPLACE))
        versions.append(await store.put("k", b"same", mode=IfMatch(versions[-1])))
    assert len(set(versions)) == len(versions)
    for stale in versions[:-1]:
        with pytest.raises(Conflict):
            await store.put("k", b"same", mode=IfMatch(stale))


async def test_a_version_moves_on_when_the_kernels_clock_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An inode that is freed is used again at once; so within one tick only the time that we set tells two writes apart."""
    real, still_ns = os.utime, time.time_ns()
    monkeypatch.setattr(os, "utime", lambda path, ns: real(path, ns=(ns[0], ns[1] if isinstance(path, str) else still_ns)))
    store = LocalStore(tmp_path)
    versions = {await store.put("k", b"same", mode=Put.REPLACE) for _ in range(50)}
    assert len(versions) == 50


async def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "deep" / "lake")
    assert await store.list("") == []
    assert await store.list_folders("") == []
    await store.delete("k")
    assert not (tmp_path / "deep").exists()
    await store.put("k", b"", mode=Put.CREATE)
    assert (tmp_path / "deep" / "lake" / "k").exists()


async def test_bytes_are_flushed_before_they_are_visible_and_the_name_before_the_answer(
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


async def test_a_lost_create_writes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("k", b"one", mode=Put.CREATE)
    with pytest.raises(Conflict):
        await store.put("k", b"two", mode=Put.CREATE)
    assert files_below(tmp_path) == ["k"]


async def test_drafts_and_locks_are_never_listed_and_cannot_be_named(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("k", b"one", mode=Put.REPLACE)
    (tmp_path / HIDDEN_FOLDER / "drafts" / "left").write_bytes(b"half")
    assert [info.key for info in await store.list("")] == ["k"]
    assert [info.key for info in await store.list(".")] == []
    assert await store.list_folders("") == []
    for key in (f"{HIDDEN_FOLDER}/drafts/left", "../k", "a/../../k", "/k", "a//b", "a/", "", "a/./b", "a\0b"):
        with pytest.raises(InvalidArgument, match="bad key"):
            await store.put(key, b"", mode=Put.CREATE)


def test_drafts_of_the_killed_are_swept_a_day_later(tmp_path: Path) -> None:
    drafts = tmp_path / HIDDEN_FOLDER / "drafts"
    drafts.mkdir(parents=True)
    for name, age_s in (("old", 25 * 3600), ("young", 23 * 3600)):
        (drafts / name).write_bytes(b"half")
        then = (drafts / name).stat().st_mtime - age_s
        os.utime(drafts / name, (then, then))
    asyncio.run(LocalStore(tmp_path).put("k", b"", mode=Put.CREATE))
    assert files_below(drafts) == ["young"]


async def test_an_empty_folder_goes_with_its_last_object_and_comes_back(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for _ in range(3):
        await store.put("a/b/k", b"", mode=Put.CREATE)
        await store.delete("a/b/k")
        assert not (tmp_path / "a").exists()


async def test_puts_survive_folders_that_come_and_go(tmp_path: Path) -> None:
    async def churn(store: LocalStore, name: str) -> None:
        for _ in range(40):
            await store.put(f"a/b/{name}", b"x", mode=Put.CREATE)
            assert (await store.get(f"a/b/{name}")).data == b"x"
            await store.delete(f"a/b/{name}")

    stores = [LocalStore(tmp_path) for _ in range(4)]
    await asyncio.gather(*(churn(store, str(number)) for number, store in enumerate(stores)))


async def test_a_key_that_is_a_folder_of_others_is_refused(tmp_path: Path) -> None:
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


def test_a_forked_child_works_with_threads_of_its_own(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    asyncio.run(store.put("parent", b"p", mode=Put.CREATE))
    child = multiprocessing.get_context("fork").Process(
        target=lambda: asyncio.run(store.put("child", b"c", mode=Put.CREATE)), daemon=True
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert (tmp_path / "child").read_bytes() == b"c"


async def test_close_ends_the_threads_and_refuses_calls(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = LocalStore(tmp_path)
    await store.put("k", b"", mode=Put.CREATE)
    mine = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("penstock-local")]
    assert mine
    await store.close()
    await store.close()
    for thread in mine:
        thread.join(60)
        assert not thread.is_alive()
    with pytest.raises(ClosedError):
        await store.get("k")


async def test_a_list_after_a_key_looks_only_at_what_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    store = LocalStore(tmp_path)
    started_s = time.process_time()
    found = await store.list("log/0", after=f"log/{99_989:020}")
    assert [info.key for info in found] == [f"log/{number:020}" for number in range(99_990, 100_000)]
    assert len(await store.list("", after=f"log/{99_989:020}", max_keys=3)) == 3
    assert len(await store.list("log/", max_keys=5)) == 5
    assert time.process_time() - started_s < 5
    assert len(looked) == 10 + 3 + 5
    assert [Path(path).name for path in opened] == ["log", tmp_path.name, "log", "log"]

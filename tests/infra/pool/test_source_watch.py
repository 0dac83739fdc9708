"""Which changes of files are seen, and when they are told."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from penstock.infra.pool.source_watch import SourceWatch


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("1")
    (tmp_path / "parts").mkdir()
    return tmp_path


def test_files_that_are_written_added_and_removed_are_seen_once(folder: Path) -> None:
    watch = SourceWatch([Path()])
    assert watch.changed() == []
    (folder / "app.py").write_text("22")
    (folder / "parts/one.py").write_text("")
    assert watch.changed() == ["app.py", "parts/one.py"]
    (folder / "parts/one.py").unlink()
    assert watch.changed() == ["parts/one.py"]
    assert watch.changed() == []


def test_a_file_of_the_same_size_is_seen_by_its_time(folder: Path) -> None:
    watch = SourceWatch([Path()])
    (folder / "app.py").write_text("2")
    os.utime(folder / "app.py", ns=(1, 1))
    assert watch.changed() == ["app.py"]


@pytest.mark.parametrize("name", [".git", "__pycache__", "node_modules", "venv", "lake"])
def test_what_is_no_program_is_passed_over(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    if name == "venv":
        (folder / name / "pyvenv.cfg").touch()
    watch = SourceWatch([Path()], passed_over=[Path("lake")])
    (folder / name / "other.py").touch()
    (folder / "notes.txt").touch()
    assert watch.changed() == []


def test_a_folder_elsewhere_and_one_that_goes_are_seen(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "lib.py").touch()
    watch = SourceWatch([folder, other])
    (other / "lib.py").unlink()
    other.rmdir()
    assert watch.changed() == [os.path.relpath(other / "lib.py")]


async def test_changes_are_told_together_once_nothing_more_changes(folder: Path) -> None:
    looks: list[list[str]] = [["a.py"], ["b.py"], [], []]
    watch = SourceWatch([Path()], pause_s=0)
    watch.changed = lambda: looks.pop(0)  # type: ignore[method-assign]
    told: list[list[str]] = []
    following = asyncio.ensure_future(watch.follow(told.append))
    with pytest.raises(IndexError):  # behind the last look
        await following
    assert told == [["a.py", "b.py"]]

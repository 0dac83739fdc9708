"""Folders of processes: gone with them, or with the next process where they were killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cdc.scratch import scratch_folder
from tests.servers import die_with_parent

PREFIX = "penstock-test-"


def _child(temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a folder, and waits."""
    program = f"import sys; from penstock.cdc.scratch import scratch_folder as s\nwith s({PREFIX!r}) as f: print(f, flush=True); sys.stdin.read()"
    command = [*die_with_parent(), sys.executable, "-c", program]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    return child, Path(child.stdout.readline().strip())


def test_what_somebody_else_s_process_has_left_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, left = _child(tmp_path)
    with killed, monkeypatch.context() as others:
        killed.kill()
        killed.wait()
        others.setattr("os.getuid", lambda: left.stat().st_uid + 1)
        with scratch_folder(PREFIX):
            assert left.is_dir()


def test_what_a_killed_process_has_left_goes_with_the_next_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, left = _child(tmp_path)
    living, used = _child(tmp_path)
    (left / "data").write_text("x")
    other = tmp_path / f"{PREFIX}of-others"
    other.mkdir()
    link = tmp_path / f"{PREFIX}link"
    link.symlink_to(other)
    with killed, living:
        killed.kill()
        killed.wait()
        assert left.is_dir()
        with scratch_folder(PREFIX) as folder:
            assert Path(folder).is_dir()
            assert not left.exists()
            assert used.is_dir(), "its process lives"
            assert other.is_dir(), "it is of no such process"
            assert link.is_symlink()
        living.communicate("")
    assert not used.exists()
    assert not Path(folder).exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted((other.name, link.name))

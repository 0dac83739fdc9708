"""A test is run again only if it failed while its process stood still."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import stalls
from tests.stalls import STALL_S, Stalls, stall_between
from tests.tree import ROOT

HALTED = f"""
import os, subprocess

def test_halted(tmp_path_factory, made):
    pid = os.getpid()
    if len(made) == 1:
        subprocess.run(["sh", "-c", f"(sleep {STALL_S + 1}; kill -CONT {{pid}}) & kill -STOP {{pid}}"], check=True)
    assert len(made) > 1, "the first run fails"
"""
DISK_HALTED = f"""
import time

from tests import stalls

def test_disk_halted(made, monkeypatch):
    flushed = []

    def slow(descriptor):
        flushed.append(time.sleep({STALL_S + 1}))

    if len(made) == 1:
        monkeypatch.setattr(stalls, "fsync", slow)
        while not flushed:
            time.sleep(0.1)
        time.sleep(0.5)  # so that who flushed has looked at the clock
    assert len(made) > 1, "the first run fails"
"""
FAILS = """
def test_fails(made):
    assert len(made) > 1
"""
FIXTURE = """
import pytest
RUNS = []

@pytest.fixture
def made():
    RUNS.append(1)
    return RUNS
"""


def run_pytest(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_sample.py").write_text(FIXTURE + test)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml")]
    return subprocess.run(
        [*command, "--rootdir", str(folder), "-p", "no:cacheprovider", str(folder / "test_sample.py")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_test_whose_disk_was_halted_is_run_again_and_named(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, DISK_HALTED)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "run again: its process or its disk had stood still" in run.stdout


@pytest.mark.slow
def test_a_test_whose_process_was_halted_is_run_again_and_named(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, HALTED)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
    assert "run again: its process or its disk had stood still" in run.stdout
    assert "test_sample.py::test_halted" in run.stdout


@pytest.mark.slow
def test_a_test_that_just_fails_is_not(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, FAILS)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed" in run.stdout
    assert "run again" not in run.stdout


def test_what_a_test_makes_of_flushing_is_nothing_to_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it counts in a test that counts flushes, and ends in one that fails them."""
    watch, flushed = Stalls(), list[object]()

    def flush(descriptor: int) -> None:
        os.fstat(descriptor)
        watch.pytest_sessionfinish()

    monkeypatch.setattr(stalls, "_DISK_TICK_S", 0.001)
    monkeypatch.setattr(stalls, "fsync", flush)
    monkeypatch.setattr(os, "fsync", flushed.append)
    watch._watch_disk()
    assert flushed == []


def test_who_was_busy_did_not_stand_still() -> None:
    assert stall_between(10.0, 14.0, cpu_s=0.2) is not None
    assert stall_between(10.0, 14.0, cpu_s=3.9) is None
    assert stall_between(10.0, 11.0, cpu_s=0.0) is None

"""A test is run again only if it failed while its process stood still."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests import stalls
from tests.stalls import STALL_S, Stalls, is_read, stall_between
from tests.tree import ROOT

HALTED = f"""
import os, subprocess

def test_halted(tmp_path_factory, made):
    pid = os.getpid()
    if made == 1:
        subprocess.run(["sh", "-c", f"(sleep {STALL_S + 1}; kill -CONT {{pid}}) & kill -STOP {{pid}}"], check=True)
    assert made > 1, "the first run fails"
"""
DISK_HALTED = f"""
import time

from tests import stalls

def test_disk_halted(made, monkeypatch):
    flushed = []

    def slow(descriptor):
        flushed.append(time.sleep({STALL_S + 1}))

    if made == 1:
        monkeypatch.setattr(stalls, "fsync", slow)
        while not flushed:
            time.sleep(0.1)
        time.sleep(0.5)  # so that who flushed has looked at the clock
    assert made > 1, "the first run fails"
"""
FAILS = """
def test_fails(made):
    assert made > 1
"""
FIXTURE = """
from collections import Counter

import pytest
RUNS = Counter()

@pytest.fixture
def made(request):
    RUNS[request.node.name] += 1
    return RUNS[request.node.name]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """All of them in one run."""
    folder = tmp_path_factory.mktemp("stalls")
    (folder / "test_sample.py").write_text(FIXTURE + HALTED + DISK_HALTED + FAILS)
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


def said_of(run: subprocess.CompletedProcess[str], test: str) -> str:
    """The line that tells that a test was run again."""
    told = run.stdout.partition("run again: its process or its disk had stood still")[2]
    return next((line for line in told.splitlines() if f"test_sample.py::{test}" in line and "FAILED" not in line), "")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("test", ["test_halted", "test_disk_halted"])
def test_a_test_whose_process_or_disk_was_halted_is_run_again_and_named(run: subprocess.CompletedProcess[str], test: str) -> None:
    assert "1 failed, 2 passed" in run.stdout, run.stdout + run.stderr
    assert said_of(run, test), run.stdout


@pytest.mark.slow
def test_a_test_that_just_fails_is_not(run: subprocess.CompletedProcess[str]) -> None:
    assert run.returncode == 1, run.stdout + run.stderr
    assert "FAILED" in run.stdout
    assert not said_of(run, "test_fails"), run.stdout


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


def test_of_what_comes_before_and_after_a_test_only_what_somebody_reads_is_told() -> None:
    def report(when: Any, outcome: Any = "passed", duration: float = 0.001, sections: Any = ()) -> pytest.TestReport:
        return pytest.TestReport("test_a.py::test_it", ("test_a.py", 1, "test_it"), {}, outcome, None, when, sections, duration)

    assert is_read(report("call"))
    assert not is_read(report("setup"))
    assert not is_read(report("teardown"))
    assert is_read(report("setup", "skipped"))
    assert is_read(report("teardown", "failed"))
    assert is_read(report("setup", sections=[("Captured stdout setup", "said")]))
    assert is_read(report("teardown", duration=0.01))

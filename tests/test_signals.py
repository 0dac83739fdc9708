"""Tests that send signals are the same tests wherever they are started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.tree import ROOT

TEST = """
import signal, subprocess, sys

def test_child():
    child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.pthread_sigmask(0, ()))"
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
    assert done.stdout == "True set()\\n", done.stdout
"""


def test_a_shell_that_ignores_signals_changes_no_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "conftest.py").write_text("from tests.signals import take_own_dispositions as pytest_sessionstart\n")

    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, preexec_fn=ignore, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

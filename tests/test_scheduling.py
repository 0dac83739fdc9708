"""A test that ends its worker fails alone, and the run goes on to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.tree import ROOT

CONFTEST = """
from tests.scheduling import Scheduling

def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log, lambda test, file: file)
"""
FINE = "def test_fine(): pass\ndef test_as_fine(): pass\n"
FATAL = "import os\ndef test_fine(): pass\ndef test_fatal(): os._exit(3)\ndef test_behind(): pass\n"


def test_a_test_that_ends_its_worker_fails_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(12):
        (tmp_path / f"test_{number:02}.py").write_text(FATAL if number == 5 else FINE)
    environment = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "1 failed, 24 passed" in run.stdout, run.stdout
    assert "crashed while running 'test_05.py::test_fatal'" in run.stdout

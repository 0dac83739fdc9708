"""The demo of the console fills its shop, shows every page, and ends in order."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.infra.web.views.pages import PAGES
from tests.tree import ROOT

SCRIPT = ROOT / "examples" / "console" / "shop.py"
pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.mark.thorough
def test_every_page_of_the_demo_is_fetched(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--once", "--port", "0", "--orders", "40", "--lake", str(tmp_path / "lake")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(rf"{len(PAGES)} of {len(PAGES)} kinds of pages, 0 failed\n", run.stdout), run.stdout
    assert "✓ 200" in run.stdout
    assert not run.stderr


@pytest.mark.thorough
def test_the_demo_ends_at_once_when_it_is_told_to(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--no-browser", "--port", "0", "--orders", "30", "--lake", str(tmp_path / "lake")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "its console at http://127.0.0.1:" in process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "\nThe shop is closed.\n")

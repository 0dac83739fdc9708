"""CI fails when it skips what it could run; elsewhere a skip is only counted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT

TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.versitygw
def test_real_server(): pass
"""
JOURNEY = """
import pytest

@pytest.mark.chromium
def test_journey(): pass
"""


def run_pytest(
    folder: Path, *, ci: bool, go: bool, options: tuple[str, ...] = (), tests: str = TESTS
) -> subprocess.CompletedProcess[str]:
    """The tests where neither versitygw nor Chromium is there, under this repository's settings and conftest."""
    (folder / "bin").mkdir()
    if go:
        (folder / "bin" / "go").symlink_to(sys.executable)
    (folder / "test_sample.py").write_text(tests)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "PENSTOCK_CHROMIUM") and not name.startswith("PYTEST")
    }
    environment |= {"PATH": str(folder / "bin"), "PENSTOCK_CACHE": str(folder)} | ({"CI": "true"} if ci else {})
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml")]
    return subprocess.run(
        [*command, "--rootdir", str(folder), "-p", "no:cacheprovider", *options, str(folder / "test_sample.py")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [pytest.param((), id="alone", marks=pytest.mark.thorough), pytest.param(("-n", "1"), id="xdist")]
)
def test_ci_fails_on_a_skip_where_the_compiler_is(tmp_path: Path, options: tuple[str, ...]) -> None:
    run = run_pytest(tmp_path, ci=True, go=True, options=options)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "test_sample.py::test_real_server (there is go)" in run.stdout
    assert re.search(r"1 passed, 1 skipped", run.stdout)


@pytest.mark.slow
def test_in_ci_a_skip_without_the_compiler_is_counted(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, ci=True, go=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"1 passed, 1 skipped", run.stdout)
    assert "versitygw is not built" in run.stdout


@pytest.mark.slow
def test_elsewhere_every_skip_is_counted(tmp_path: Path) -> None:
    """Where the compiler is there, and a browser is not."""
    run = run_pytest(tmp_path, ci=False, go=True, options=("-rs",), tests=TESTS + JOURNEY)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"1 passed, 2 skipped", run.stdout)
    assert "versitygw is not built" in run.stdout
    assert "sudo apt-get install chromium" in run.stdout


@pytest.mark.slow
def test_a_journey_without_a_browser_fails_in_ci(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, ci=True, go=False, options=("-rs",), tests=JOURNEY)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 error" in run.stdout
    assert "sudo apt-get install chromium" in run.stdout

"""Set-up finds a Chromium, installs one where it may, or says what to install."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.infra.web.journeys.found import MISSING, NAMES
from tests.tree import ROOT

SCRIPT = ROOT / "infra" / "scripts" / "setup_chromium.sh"


def program(folder: Path, name: str, *lines: str) -> None:
    """A program of the machine on which set-up runs."""
    path = folder / name
    path.write_text("\n".join(("#!/bin/bash", *lines)) + "\n")
    path.chmod(0o755)


def set_up(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script on a machine that has the programs of this folder alone."""
    return subprocess.run(
        ["/bin/bash", str(SCRIPT)], env={"PATH": str(folder), **environment}, capture_output=True, text=True, check=False
    )


def test_the_script_and_the_tests_look_for_the_same_programs() -> None:
    assert re.search(r'^names="([^"]+)"', SCRIPT.read_text(), re.MULTILINE)[1].split() == list(NAMES)  # type: ignore[index]


@pytest.mark.parametrize("name", NAMES)
def test_one_that_is_there_is_taken(tmp_path: Path, name: str) -> None:
    program(tmp_path, name)
    run = set_up(tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"setup: Chromium at {tmp_path / name}\n", "")


@pytest.mark.parametrize("manager", ["apt-get", "dnf"])
def test_root_installs_it(tmp_path: Path, manager: str) -> None:
    program(tmp_path, "id", "echo 0")
    program(tmp_path, manager, f'[ "$1" = install ] || exit 0; echo "#!" > {tmp_path}/chromium; /bin/chmod +x {tmp_path}/chromium')
    run = set_up(tmp_path)
    assert run.returncode == 0
    assert run.stdout.endswith(f"setup: Chromium at {tmp_path / 'chromium'}\n")


@pytest.mark.parametrize("user", [0, 1000])
def test_where_it_cannot_be_installed_set_up_says_what_to_install(tmp_path: Path, user: int) -> None:
    program(tmp_path, "id", f"echo {user}")
    program(tmp_path, "apt-get", "echo no such package >&2; exit 100")
    run = set_up(tmp_path)
    assert run.returncode == 0  # the rest of set-up and of the tests is worth having
    assert "sudo apt-get install chromium" in run.stderr
    assert ("no such package" in run.stderr) == (user == 0)
    assert "sudo apt-get install chromium" in MISSING


def test_a_named_one_that_is_not_there_is_not_replaced(tmp_path: Path) -> None:
    program(tmp_path, "id", "echo 0")
    program(tmp_path, "apt-get", f"echo called >> {tmp_path}/called")
    run = set_up(tmp_path, PENSTOCK_CHROMIUM=str(tmp_path / "none"))
    assert "PENSTOCK_CHROMIUM" in run.stderr
    assert not (tmp_path / "called").exists()

"""The examples run, on a lake in memory and in a folder, and say what they found; each checks itself and ends with an error if it is wrong."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tree import ROOT

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.stem.startswith("spark_"))
"""Those of Spark run in its tests, in their session."""
SAID = {
    "database_sync": "rows equal to the source",
    "order_matching": "all first come, first served",
    "poison_message": "what cid could not do is a dead letter",
    "replay_after_a_fix": "too much was taken back",
}


def main_of(example: Path) -> Callable[[str], None]:
    main: Callable[[str], None] = runpy.run_path(str(example))["main"]
    return main


@pytest.mark.parametrize("place", ["memory", "folder"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main_of(example)("memory://" if place == "memory" else str(tmp_path / "lake"))
    assert SAID[example.stem] in capsys.readouterr().out


def test_an_example_is_a_script(tmp_path: Path) -> None:
    script = ROOT / "examples" / "poison_message.py"
    run = subprocess.run([sys.executable, script, tmp_path / "lake"], check=True, capture_output=True, text=True, cwd=ROOT)
    assert SAID["poison_message"] in run.stdout

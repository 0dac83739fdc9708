"""The examples run, on a lake in memory and in a folder, and say what they found; each checks itself and ends with an error if it is wrong."""

from __future__ import annotations

import itertools
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.tree import ROOT

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.stem.startswith(("spark_", "__")))
"""Those of Spark run in its tests, in their session."""
SAID = {
    "database_sync": "rows equal to the source",
    "exactly_once": "12 orders billed once each",
    "order_matching": "all first come, first served",
    "order_timeout": "orders cancelled after 0:00:01",
    "payment": "2 payments in the books and visible; asked about those who died: p2: COMMIT, p3: ROLLBACK",
    "poison_message": "what cid could not do is a dead letter",
    "replay_after_a_fix": "too much was taken back",
    "typed_topic": "400 orders over 79800: the same for the worker, Polars, DuckDB",
}
ARGUMENTS = {"order_timeout": [timedelta(seconds=1)]}
"""Beside the lake's."""
OF_PROCESSES = ["payment"]
"""Which a lake in memory cannot have."""


def runs() -> Iterator[object]:
    for example, place in itertools.product(EXAMPLES, ("memory", "folder")):
        marks = [pytest.mark.processes] if example.stem in OF_PROCESSES else []
        if not marks or place == "folder":
            yield pytest.param(example, place, marks=marks, id=f"{example.stem}-{place}")


def main_of(example: Path) -> Callable[..., None]:
    main: Callable[..., None] = runpy.run_path(str(example))["main"]
    return main


@pytest.mark.parametrize(("example", "place"), [*runs()])
def test_an_example_runs(example: Path, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = "memory://" if place == "memory" else str(tmp_path / "lake")
    main_of(example)(lake, *ARGUMENTS.get(example.stem, []))
    assert SAID[example.stem] in capsys.readouterr().out


def test_an_example_is_a_script(tmp_path: Path) -> None:
    script = ROOT / "examples" / "poison_message.py"
    run = subprocess.run([sys.executable, script, tmp_path / "lake"], check=True, capture_output=True, text=True, cwd=ROOT)
    assert SAID["poison_message"] in run.stdout

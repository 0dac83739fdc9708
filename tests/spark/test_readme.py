"""The README's example of Spark runs as it stands, and prints what its comments say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_documents import example, readme

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PRINTED = "3 payments\n[Row(id=1, price=4)]\n"


@pytest.mark.usefixtures("spark")
def test_the_readme_s_pipeline_runs(tmp_path: Path) -> None:
    assert readme(2, here=f"{tmp_path}/") == PRINTED


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.usefixtures("java")
def test_it_runs_in_an_empty_folder(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", example(2)], cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False)
    assert (ran.returncode, ran.stdout) == (0, PRINTED), ran.stderr

"""The code of pages that use Spark runs as it stands, and prints what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.versions import STREAM_TRIGGER
from tests.pages import Run, blocks, user_pages
from tests.spark.needs import needs
from tests.test_documents import FEATURES, printed, quick_pages, shown
from tests.tree import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.thorough
@needs(STREAM_TRIGGER)
@pytest.mark.usefixtures("spark")
def test_the_pipeline_of_the_features_runs(tmp_path: Path) -> None:
    assert printed(FEATURES, 1, tmp_path, base=f"{tmp_path}/") == shown(FEATURES, 1)


@needs(STREAM_TRIGGER)
@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.usefixtures("java")
def test_it_runs_in_an_empty_folder(tmp_path: Path) -> None:
    example = [block.code for block in blocks(FEATURES) if block.language == "python"][1]
    ran = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=500, check=False)
    assert (ran.returncode, ran.stdout) == (0, shown(FEATURES, 1)), ran.stderr


def spark_pages() -> list[Path]:
    others = quick_pages()
    return [page for page in user_pages() if page not in others and "def test_" not in page.read_text()]


@pytest.mark.thorough
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", spark_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_s_code_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    with Run(page, tmp_path, base=f"{tmp_path}/") as run:
        run.all()

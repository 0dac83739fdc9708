"""``python -m tests.benchmarks.first_row``: how long it takes from ``pip install`` to the first row of a MariaDB in a Delta table.

python -m tests.benchmarks.first_row [--jars-there]

Builds a wheel first, which does not count. What counts: a new environment, the wheel and all it needs with ``pip``, the engine's JARs, a
capture of a table that has one row, and a sync. Needs a MariaDB, its driver and a Java, as the tests do, and package registries.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mariadb_server import PASSWORD, MariaDBServer, mariadb_server

_ROOT = Path(__file__).parents[2]
_ROW = "import sys, deltalake; print(deltalake.DeltaTable(sys.argv[1]).to_pyarrow_table().to_pylist())"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars-there", action="store_true", help="do not fetch the JARs anew")
    options = parser.parse_args(arguments)
    with mariadb_server() as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server.run("CREATE TABLE shop.items (id INT PRIMARY KEY, article VARCHAR(60))")
        server.run("INSERT INTO shop.items VALUES (1, 'lamp')")
        _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder / "wheel"), str(_ROOT))
        environment = {**os.environ, "PENSTOCK_DATABASE_PASSWORD": PASSWORD}
        if not options.jars_there:
            environment["PENSTOCK_CACHE"] = str(folder / "cache")
            environment["MAVEN_OPTS"] = f"{os.environ.get('MAVEN_OPTS', '')} -Dmaven.repo.local={folder / 'maven'}"
        _measure(server, folder, environment)
    print(f"load {os.getloadavg()[0]:.1f}")


def _measure(server: MariaDBServer, folder: Path, environment: dict[str, str]) -> None:
    began_s = time.monotonic()
    programs = folder / "venv" / "bin"

    def step(what: str, *command: str) -> None:
        at_s = time.monotonic()
        _run(*command, environment=environment)
        print(f"{what}: {time.monotonic() - at_s:.1f} s", flush=True)

    penstock, lake = str(programs / "penstock"), ["--lake", str(folder / "lake")]
    (wheel,) = (folder / "wheel").glob("*.whl")
    step("new environment", sys.executable, "-m", "venv", str(folder / "venv"))
    step("pip install", str(programs / "pip"), "install", "--quiet", "--no-cache-dir", f"{wheel}[debezium,delta]")
    step("JARs", penstock, "capture", "jars")
    step("capture", penstock, "capture", "mariadb", f"{server.url}/shop", "--topic", "items", "--once", *lake)
    tables = str(folder / "tables")
    step("sync", penstock, "sync", "items", "--into", tables, "--engine", "deltalake", "--once", *lake)
    (table,) = (path.parent for path in Path(tables).rglob("_delta_log"))
    step("reading it", str(programs / "python"), "-c", _ROW, str(table))
    print(f"from pip install to the first row: {time.monotonic() - began_s:.1f} s")


def _run(*command: str, environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, check=True, env=environment)


if __name__ == "__main__":
    main()

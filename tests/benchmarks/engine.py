"""``python -m tests.benchmarks.engine``: how fast a MariaDB's changes come into a topic by Debezium's engine, and what an idle capture takes.

python -m tests.benchmarks.engine [--events 300000]

Needs a MariaDB and its driver, as the tests do. The capture is a process of its own; its processor time counts Java's too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.mariadb_server import PASSWORD, MariaDBServer, mariadb_server
from tests.waiting import wait_until

_IDLE_S = 20.0
_TABLE = (
    "CREATE TABLE shop.items ("
    "id INT AUTO_INCREMENT PRIMARY KEY, ordered INT, article VARCHAR(60), amount DECIMAL(12,2), note VARCHAR(60), at DATETIME(6))"
)
_ROWS = (
    "INSERT INTO shop.items (ordered, article, amount, note, at) "
    "SELECT seq, concat('article number ', seq), seq * 1.5, 'none', NOW(6) FROM shop.seq_1_to_{}"
)


def _command(server: MariaDBServer, lake: str, *more: str) -> list[str]:
    where = ["--lake", lake, "--topic", "items", "--json"]
    return [str(Path(sys.executable).with_name("penstock")), "capture", "mariadb", f"{server.url}/shop", *where, *more]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=300_000)
    options = parser.parse_args(arguments)
    environment = {**os.environ, "PENSTOCK_DATABASE_PASSWORD": PASSWORD}
    with mariadb_server() as server, tempfile.TemporaryDirectory() as folder:
        lake = str(Path(folder) / "lake")
        server.run(_TABLE)
        subprocess.run(_command(server, lake, "--once"), check=True, env=environment, stdout=subprocess.DEVNULL)
        with server.connect() as connection, connection.cursor() as cursor:
            for _ in range(options.events // 10):
                cursor.execute(_ROWS.format(10))
        process = subprocess.Popen(
            _command(server, lake), env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            _follow(process, server, Path(lake), options.events)
        finally:
            process.kill()
            process.wait()
    print(f"load {os.getloadavg()[0]:.1f}")


def _follow(process: subprocess.Popen[str], server: MariaDBServer, lake: Path, events: int) -> None:
    usage = psutil.Process(process.pid)
    began_s = time.monotonic()
    places: list[tuple[float, int, float]] = []
    (((_, end, *_),),) = (server.ask("SHOW MASTER STATUS"),)

    def done() -> bool:
        (path,) = lake.glob("captures/*/debezium/penstock/state")
        place = json.loads(json.loads(path.read_text())["offset"])["pos"]
        if not places or places[-1][1] != place:
            times = usage.cpu_times()
            places.append((time.monotonic() - began_s, place, times.user + times.system))
        return bool(place > end - 2000)

    wait_until(done, "all is in the topic", timeout_s=900)
    first, last = places[1], places[-1]
    share = (last[1] - first[1]) / (last[1] - places[0][1])
    print(f"{events:,} events in {last[0]:.1f} s with the start of the process: {events / last[0]:,.0f} events/s")
    print(f"behind the start: {events * share / (last[0] - first[0]):,.0f} events/s")
    half = next(place for place in places[1:] if 2 * place[1] >= first[1] + last[1])
    of_half = events * (last[1] - half[1]) / (last[1] - places[0][1])
    print(
        f"second half: {of_half / (last[0] - half[0]):,.0f} events/s, processor {(last[2] - half[2]) / of_half * 1e6:.0f} us an event"
    )
    print(f"processor: {(last[2] - first[2]) / events / share * 1e6:.0f} us an event, {first[2]:.1f} s to the first")
    before = usage.cpu_times()
    time.sleep(_IDLE_S)
    after = usage.cpu_times()
    print(
        f"idle: {usage.memory_info().rss / 2**20:.0f} MiB, {(after.user + after.system - before.user - before.system) / _IDLE_S:.1%} of a core"
    )
    process.send_signal(signal.SIGTERM)
    process.wait(60)


if __name__ == "__main__":
    main()

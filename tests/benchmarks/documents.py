"""``python -m tests.benchmarks.documents``: how fast a MongoDB's documents and changes come into a topic, and what an idle capture takes.

python -m tests.benchmarks.documents [--events 200000]

Needs a MongoDB, as the tests do. The capture is a process of its own, and its time counts with the start of it.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from tests.mongodb_server import MongoDBServer, mongodb_server
from tests.waiting import wait_until

_CHUNK = 10_000


def _command(server: MongoDBServer, lake: Path, topic: str, *more: str) -> list[str]:
    program = str(Path(sys.executable).with_name("penstock"))
    return [program, "capture", "mongodb", server.url("shop"), "--topic", topic, "--lake", str(lake), "--json", *more]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    events = parser.parse_args(arguments).events
    with mongodb_server() as server, tempfile.TemporaryDirectory(prefix="penstock-documents-") as folder, server.client() as client:
        lake, orders = Path(folder) / "lake", client.shop.orders

        def captured(topic: str) -> float:
            begun_s = time.monotonic()
            subprocess.run(_command(server, lake, topic, "--once"), check=True, stdout=subprocess.DEVNULL)
            return events / (time.monotonic() - begun_s)

        def told(what: str, change: Callable[[], object], topic: str = "shop") -> None:
            change()
            print(f"{what}: {captured(topic):,.0f} a second", flush=True)

        def insert() -> None:
            for first in range(0, events, _CHUNK):
                numbers = range(first, min(first + _CHUNK, events))
                orders.insert_many(
                    [
                        {"_id": one, "customer": f"c{one % 100}", "amount": one * 1.5, "state": "new", "note": "x" * 60}
                        for one in numbers
                    ]
                )

        client.shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
        orders.insert_one({"_id": -1})
        captured("shop")
        told("inserts", insert)
        told("updates with post-images", lambda: orders.update_many({}, {"$set": {"state": "paid"}}))
        client.shop.command({"collMod": "orders", "changeStreamPreAndPostImages": {"enabled": False}})
        told("updates without", lambda: orders.update_many({}, {"$set": {"state": "sent"}}))
        told("documents read", lambda: None, "again")
        with subprocess.Popen(_command(server, lake, "shop"), stdout=subprocess.DEVNULL) as process:
            state = next(lake.glob("captures/shop*/mongodb/penstock/state"))
            before = state.stat().st_mtime_ns
            orders.insert_one({"_id": -2})
            wait_until(lambda: state.stat().st_mtime_ns != before, "the capture follows")
            print(f"idle: {psutil.Process(process.pid).memory_info().rss / 2**20:,.0f} MiB", flush=True)
            process.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    main()

"""``python -m benchmarks.peers``: Kafka's and RocketMQ's send and consume rates on this machine, beside ours."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import reading, sending
from benchmarks.consumers import throughput
from benchmarks.figures import Figure, Options, table
from benchmarks.peers import servers

_HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="Measure beside Kafka and RocketMQ.")
    parser.add_argument("--only", default="ours,kafka,rocketmq", help="comma-separated: ours, kafka, rocketmq")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args(arguments)
    names = given.only.split(",")
    missing = servers.missing_tools()
    if missing and {"kafka", "rocketmq"} & set(names):
        print(f"skipped: the peers need {' and '.join(missing)} (Java 17 and Maven on the path)")
        return 0
    figures: list[Figure] = []
    if "ours" in names:
        options = Options(repeats=given.repeats)
        measured = (*sending.measure(options), *reading.measure(options), *throughput.measure(options, throughput.compared()))
        figures += [figure for figure in measured if figure.unit != "%"]
    with tempfile.TemporaryDirectory(prefix="penstock-peers-", ignore_cleanup_errors=True) as folder:
        if "kafka" in names:
            figures += _kafka(Path(folder), given.repeats)
        if "rocketmq" in names:
            figures += _rocketmq(Path(folder), given.repeats)
    print(table(figures))
    return 0


def _kafka(folder: Path, repeats: int) -> list[Figure]:
    python, home = servers.client_python(), folder / "kafka"
    home.mkdir()
    with servers.kafka(home):
        command = [str(python), str(_HERE / "kafka_client.py"), f"127.0.0.1:{servers.KAFKA_PORT}", "500000", str(repeats)]
        return list(_figures(command, note="acknowledged without a flush to disk"))


def _rocketmq(folder: Path, repeats: int) -> list[Figure]:
    python, home, topic = servers.client_python(), folder / "rocketmq", f"topic-{uuid.uuid4().hex[:12]}"
    home.mkdir()
    with servers.rocketmq(home):
        servers.create_rocketmq_topic(home, topic)
        groups = [f"group-{uuid.uuid4().hex[:12]}" for _ in range(min(3, repeats))]
        for group in groups:
            servers.create_rocketmq_group(home, group)
        command = [
            str(python),
            str(_HERE / "rocketmq_client.py"),
            f"127.0.0.1:{servers.ROCKETMQ_PORT}",
            topic,
            "5000",
            str(repeats),
            *groups,
        ]
        return list(_figures(command, note="acknowledged without a flush to disk"))


def _figures(command: Sequence[str], *, note: str) -> Iterator[Figure]:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            yield Figure(name=found["name"], unit="messages/s", better="higher", values=found["rates"], note=note)
            yield Figure(name=f"{found['name']}: client's processor time", unit="µs/message", values=found["cpu_us"])


if __name__ == "__main__":
    sys.exit(main())

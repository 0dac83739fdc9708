"""``python -m tests.benchmarks.peers``: Kafka's and RocketMQ's send and consume rates on this machine, beside ours.

python -m tests.benchmarks.peers [--only ours,kafka] [--minutes 9 | --thorough] [--repeats 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from tests.benchmarks.figures import Figure
from tests.benchmarks.gateway.serving import served
from tests.benchmarks.peers import servers
from tests.benchmarks.peers.children import documents
from tests.benchmarks.peers.plan import Planned, Step
from tests.benchmarks.peers.run import Doing, Event, StepFailed, run, shown, write
from tests.benchmarks.peers.screen import Screen

_HERE = Path(__file__).parent
_NOTE = "acknowledged without a flush to disk"
_RESULTS = _HERE.parent / "results" / "peers.json"
_SYSTEMS = ("ours", "kafka", "gateway", "rocketmq")
STEPS = (
    Step(
        name="ours: send",
        system="ours",
        about="send and send_batch on local files, beside raw Parquet writes",
        start_s=10,
        repeat_s=25,
    ),
    Step(name="ours: read", system="ours", about="replay of a topic, beside pyarrow on the same files", start_s=3, repeat_s=9),
    Step(name="ours: push single messages", system="ours", about="a PushConsumer settles a backlog", start_s=8, repeat_s=25),
    Step(name="ours: push lists of a group", system="ours", about="the same by lists of a message group", start_s=8, repeat_s=25),
    Step(name="ours: push lists of a queue", system="ours", about="the same by lists of a queue", start_s=8, repeat_s=8),
    Step(name="kafka", system="kafka", about="produce and consume with Kafka's C client", start_s=25, repeat_s=10),
    Step(name="gateway", system="gateway", about="the same client at our gateway of Kafka's protocol", start_s=8, repeat_s=10),
    Step(name="rocketmq", system="rocketmq", about="send, receive and push with RocketMQ's Python client", start_s=70, repeat_s=20),
    Step(
        name="ours: push, other settings",
        system="ours",
        about="the same with 100 message groups, default limits, lists of 100",
        start_s=15,
        repeat_s=50,
        thorough=True,
    ),
)
MINUTES = 9.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers", description="Measure beside Kafka and RocketMQ.")
    parser.add_argument("--only", default=",".join(_SYSTEMS), help=f"comma-separated: {', '.join(_SYSTEMS)}")
    parser.add_argument("--repeats", type=int, default=5, help="at most so many of each measurement (%(default)s)")
    time_given = parser.add_mutually_exclusive_group()
    time_given.add_argument(
        "--minutes", type=float, default=MINUTES, help="measure only what fits in so many minutes (%(default)g)"
    )
    time_given.add_argument("--thorough", action="store_true", help="all repeats and more settings of ours, however long they take")
    parser.add_argument(
        "--json", type=Path, default=_RESULTS, help="write the figures so far to this file after each step (%(default)s)"
    )
    given = parser.parse_args(arguments)
    names = given.only.split(",")
    if unknown := sorted(set(names) - set(_SYSTEMS)):
        parser.error(f"unknown: {', '.join(unknown)}")
    if given.repeats < 1 or given.minutes <= 0:
        parser.error("--repeats and --minutes must be above 0")
    screen = Screen(Console(stderr=True))
    with tempfile.TemporaryDirectory(prefix="penstock-peers-", ignore_cleanup_errors=True) as folder:
        report = run(
            [step for step in STEPS if step.system in names and (given.thorough or not step.thorough)],
            partial(measure, Path(folder)),
            budget_s=None if given.thorough else 60 * given.minutes,
            repeats=given.repeats,
            screen=screen,
            monotonic_s=time.monotonic,
            save=partial(write, path=given.json),
        )
    print(shown(report))
    screen.say(f"figures as JSON: {given.json}")
    return report.exit_code


def measure(folder: Path, planned: Planned, ends_s: float | None) -> Generator[Event]:
    """Measure a step in a fresh folder below ``folder``."""
    if planned.step.system == "ours":
        yield from _ours(folder, planned, ends_s)
        return
    if missing := servers.missing_tools():
        raise StepFailed(f"{' and '.join(missing)} not found; Kafka and RocketMQ need Java 17 and Maven on the path")
    home = folder / planned.step.name
    home.mkdir()
    if planned.step.system == "gateway":
        yield from _gateway(home, planned, ends_s)
        return
    yield from _kafka(home, planned, ends_s) if planned.step.system == "kafka" else _rocketmq(home, planned, ends_s)


def _ours(folder: Path, planned: Planned, ends_s: float | None) -> Generator[Event]:
    part = planned.step.name.removeprefix("ours: ")
    yield Doing("write what is measured, then measure it")
    for document in documents(
        [sys.executable, "-m", "tests.benchmarks.peers.ours", part, str(planned.repeats)], left_s=_left_s(ends_s), folder=folder
    ):
        yield Figure(**document["figure"])


def _kafka(home: Path, planned: Planned, ends_s: float | None) -> Generator[Event]:
    yield Doing("start (the first time, fetch the JARs and the client)")
    python = servers.client_python()
    with servers.kafka(home, start_s=_start_s(servers.START_S, ends_s)):
        command = [str(python), str(_HERE / "kafka_client.py"), f"127.0.0.1:{servers.KAFKA_PORT}", "500000", str(planned.repeats)]
        yield from _measured(command, ends_s, home)


def _gateway(home: Path, planned: Planned, ends_s: float | None) -> Generator[Event]:
    yield Doing("start")
    with served(home / "lake", "--kafka") as server:
        command = [str(servers.client_python()), str(_HERE / "kafka_client.py"), server.endpoints, "500000", str(planned.repeats)]
        yield from _measured([*command, "Kafka's client at our gateway"], ends_s, home, note="acknowledged when it is on the disk")


def _rocketmq(home: Path, planned: Planned, ends_s: float | None) -> Generator[Event]:
    yield Doing("start (the first time, fetch the JARs and the client)")
    python, topic = servers.client_python(), f"topic-{uuid.uuid4().hex[:12]}"
    with servers.rocketmq(home, start_s=_start_s(3 * servers.START_S, ends_s)):
        groups = [f"group-{uuid.uuid4().hex[:12]}" for _ in range(min(3, planned.repeats))]
        yield Doing("create a topic and consumer groups")
        servers.create_rocketmq_topic(home, topic)
        for group in groups:
            servers.create_rocketmq_group(home, group)
        endpoint = f"127.0.0.1:{servers.ROCKETMQ_PORT}"
        command = [str(python), str(_HERE / "rocketmq_client.py"), endpoint, topic, "5000", str(planned.repeats), *groups]
        yield from _measured(command, ends_s, home)


def _measured(command: Sequence[str], ends_s: float | None, home: Path, *, note: str = _NOTE) -> Generator[Event]:
    for document in documents(command, left_s=_left_s(ends_s), folder=home):
        if "doing" in document:
            yield Doing(document["doing"])
        else:
            name = document["name"]
            yield Figure(name=name, unit="messages/s", better="higher", values=[document["rate"]], note=note)
            yield Figure(name=f"{name}: client's processor time", unit="µs/message", values=[document["cpu_us"]])


def _start_s(usual_s: float, ends_s: float | None) -> float:
    left_s = _left_s(ends_s)
    return usual_s if left_s is None else min(usual_s, left_s)


def _left_s(ends_s: float | None) -> float | None:
    return None if ends_s is None else ends_s - time.monotonic()


if __name__ == "__main__":
    sys.exit(main())

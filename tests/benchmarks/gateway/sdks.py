"""RocketMQ's own SDKs for Java and Python at a gateway, or at a RocketMQ: sends, receives with acknowledgements, and FIFO push.

    python -m tests.benchmarks.gateway.sdks [--endpoint HOST:PORT] [--repeats 3] [--count 5000] [--json FILE]

Without `--endpoint` it starts a gateway on a new folder. Of a RocketMQ it needs, made before: the topics `bench-normal` (NORMAL) and
`bench-fifo` (FIFO), 8 queues each, and the groups `bench-fifo-1` and so on, one for each repeat, ORDERLY and never used. `make sdks` gets the
SDKs. Everything runs on one machine, and the clients take most of it: compare systems, and look at the load.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock import aio
from penstock.aio import TopicSettings
from penstock.log import MessageType
from tests.benchmarks.figures import Figure, as_json, table
from tests.benchmarks.gateway.serving import Served, served
from tests.gateway.sdk import Sdk, sdk

NORMAL, FIFO = "bench-normal", "bench-fifo"
_QUEUES = 8
_GROUPS = 1_000
"""Message groups."""
_BODY = "x" * 95
"""With a number behind it."""


@dataclass(frozen=True)
class Target:
    """What the SDKs are pointed at."""

    name: str
    endpoints: str
    server: Served | None
    """The gateway, if it was started here: then its processor time is known."""


def measure(target: Target, repeats: int, count: int) -> Iterator[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        sdk("java", target.endpoints, Path(folder) / "java") as java,
        sdk("python", target.endpoints, Path(folder) / "py") as python,
    ):
        for client in (java, python):
            client.call("producer", name="p", topics=[NORMAL, FIFO])
            _load(client, NORMAL, 100, threads=1)
        steps: list[tuple[str, int, Callable[[int], float]]] = [
            ("Java: send NORMAL, 1 thread", count // 5, lambda _: _load(java, NORMAL, count // 5, threads=1)),
            ("Java: send NORMAL, 32 threads", count, lambda _: _load(java, NORMAL, count, threads=32)),
            ("Python: send NORMAL, 16 threads", count, lambda _: _load(python, NORMAL, count, threads=16)),
            ("Java: send FIFO, 32 threads", count, lambda _: _load(java, FIFO, count, threads=32, groups=_GROUPS)),
            ("Java: receive and ack NORMAL, 32 a receive, 16 threads", count, lambda at: _drain(java, at, count)),
            ("Java: push FIFO, 16 threads", count, lambda at: _push(java, at, count)),
        ]
        for name, messages, step in steps:
            yield from _figures(f"{target.name}, {name}", messages, [_timed(target, step, at + 1) for at in range(repeats)])


@dataclass(frozen=True)
class _Run:
    wall_s: float
    cpu_s: float | None


def _timed(target: Target, step: Callable[[int], float], at: int) -> _Run:
    before = None if target.server is None else target.server.used()
    took_s = step(at)
    return _Run(took_s, None if target.server is None or before is None else target.server.used().since(before).cpu_s)


def _figures(name: str, messages: int, runs: list[_Run]) -> Iterator[Figure]:
    spread = ", ".join(f"{messages / run.wall_s:,.0f}" for run in sorted(runs, key=lambda run: -run.wall_s))
    yield Figure(name=name, unit="messages/s", better="higher", values=[messages / run.wall_s for run in runs], note=spread)
    if used := [1e6 * run.cpu_s / messages for run in runs if run.cpu_s is not None]:
        yield Figure(name=f"{name}: processor time of the gateway", unit="µs/message", values=used)


def _load(client: Sdk, topic: str, count: int, *, threads: int, groups: int = 0) -> float:
    done = client.call("load", name="p", topic=topic, count=count, threads=threads, message_groups=groups, body=_BODY)
    if done["failed"]:
        raise RuntimeError(f"{done['failed']} of {count} sends failed")
    return float(done["seconds"])


def _drain(client: Sdk, at: int, count: int) -> float:
    name = f"drain-{os.getpid()}-{at}"
    client.call("simple", name=name, group=f"bench-normal-{os.getpid()}-{at}", subscriptions={NORMAL: "*"}, await_s=5)
    done = client.call("drain", name=name, count=count, threads=16)
    if done["messages"] < count:
        raise RuntimeError(f"{done['messages']} of {count} messages came")
    return float(done["seconds"]) * count / float(done["messages"])


def _push(client: Sdk, at: int, count: int) -> float:
    """From the first message that a listener was given to the last: a new group's queues have their owner by then."""
    name = f"push-{at}"
    client.start("push", name=name, group=f"{FIFO}-{at}", subscriptions={FIFO: "*"}, threads=16)
    client.event()
    start_s = time.perf_counter()
    for _ in range(count - 1):
        client.event()
    took_s = time.perf_counter() - start_s
    client.start("close", name=name)
    return took_s


@contextmanager
def _gateway(repeats: int) -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder) / "lake"
        asyncio.run(_create(root, repeats))
        with served(root) as server:
            yield Target("gateway", server.endpoints, server)


async def _create(root: Path, repeats: int) -> None:
    async with aio.connect(root, maintenance=False) as lake:
        await lake.create_topic(NORMAL, TopicSettings(queues=_QUEUES))
        await lake.create_topic(FIFO, TopicSettings(message_type=MessageType.FIFO, queues=_QUEUES))
        for at in range(1, repeats + 1):
            await lake.create_group(f"{FIFO}-{at}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gateway.sdks")
    parser.add_argument("--endpoint", help="HOST:PORT of a RocketMQ, or of a gateway that runs")
    parser.add_argument("--name", default="RocketMQ", help="what the figures call it")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures = []
    if given.endpoint:
        found = measure(Target(given.name, given.endpoint, None), given.repeats, given.count)
        figures += list(_told(found))
    else:
        with _gateway(given.repeats) as target:
            figures += list(_told(measure(target, given.repeats, given.count)))
    print(table(figures))
    if given.json:
        given.json.write_text(as_json(figures))


def _told(figures: Iterator[Figure]) -> Iterator[Figure]:
    for figure in figures:
        print(f"{figure.name}: {figure.median:,.0f} {figure.unit}", file=sys.stderr, flush=True)
        yield figure


if __name__ == "__main__":
    main()

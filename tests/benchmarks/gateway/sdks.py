"""RocketMQ's own SDKs for Java and Python at a gateway, alone or in turns with a RocketMQ: sends, receives with acknowledgements, FIFO push.

    python -m tests.benchmarks.gateway.sdks [--rocketmq] [--repeats 3] [--count 5000] [--json FILE]

The gateway serves a new folder. `--rocketmq` starts a RocketMQ whose broker flushes before it acknowledges, as the gateway does (Java 17
and Maven). A step runs once unmeasured at each, so that the clients are warm; then they take turns, and each has the machine to itself.
`make sdks` gets the SDKs. The clients take much of the machine: compare systems, and look at the load.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock import aio
from penstock.aio import TopicSettings
from penstock.log import MessageType
from tests.benchmarks.figures import Figure, as_json, table
from tests.benchmarks.gateway.serving import Served, served
from tests.benchmarks.peers import servers
from tests.gateway.sdk import Sdk, sdk

NORMAL, FIFO = "bench-normal", "bench-fifo"
_QUEUES = 8
_GROUPS = 1_000
"""Message groups."""
_BODY = "x" * 95
"""With a number behind it."""
_AHEAD = 1.5
"""How many times as fast as RocketMQ the gateway is to be, for the SDK for Java."""


@dataclass(frozen=True)
class Target:
    """What the SDKs are pointed at. It has a consumer group with ordered delivery for each run, the unmeasured one included."""

    name: str
    endpoints: str
    server: Served | None
    """The gateway, whose processor time is known."""


@dataclass(frozen=True)
class _Clients:
    """The SDKs at one target."""

    target: Target
    java: Sdk
    python: Sdk


@dataclass(frozen=True)
class _Step:
    name: str
    messages: int
    seconds: Callable[[_Clients, int], float]
    """The time that all messages took, of the run with this number."""
    ahead: float | None = _AHEAD


def steps(count: int) -> list[_Step]:
    few = count // 5
    return [
        _Step("Java: send NORMAL, 1 thread", few, lambda at, _: _load(at.java, NORMAL, few, threads=1)),
        _Step("Java: send NORMAL, 32 threads", count, lambda at, _: _load(at.java, NORMAL, count, threads=32)),
        _Step("Python: send NORMAL, 16 threads", count, lambda at, _: _load(at.python, NORMAL, count, threads=16), ahead=None),
        _Step("Java: send FIFO, 32 threads", count, lambda at, _: _load(at.java, FIFO, count, threads=32, groups=_GROUPS)),
        _Step("Java: receive and ack NORMAL, 32 a receive, 16 threads", count, lambda at, run: _drain(at.java, run, count)),
        _Step("Java: push FIFO, 16 threads", count, lambda at, run: _push(at.java, run, count)),
    ]


def measure(targets: Sequence[Target], repeats: int, count: int) -> Iterator[Figure]:
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        sides = [
            _Clients(
                target,
                java=running.enter_context(sdk("java", target.endpoints, folder / f"java-{target.name}")),
                python=running.enter_context(sdk("python", target.endpoints, folder / f"python-{target.name}")),
            )
            for target in targets
        ]
        for side in sides:
            for client in (side.java, side.python):
                client.call("producer", name="p", topics=[NORMAL, FIFO])
                _load(client, NORMAL, 100, threads=1)
        for step in steps(count):
            runs: dict[str, list[_Run]] = {target.name: [] for target in targets}
            for at in range(repeats + 1):
                for side in sides:
                    run = _timed(side, step, at)
                    if at:
                        runs[side.target.name].append(run)
            yield from _figures(step, runs)


@dataclass(frozen=True)
class _Run:
    wall_s: float
    cpu_s: float | None


def _timed(side: _Clients, step: _Step, at: int) -> _Run:
    server = side.target.server
    before = None if server is None else server.used()
    took_s = step.seconds(side, at)
    return _Run(took_s, None if server is None or before is None else server.used().since(before).cpu_s)


def _figures(step: _Step, runs_by_target: dict[str, list[_Run]]) -> Iterator[Figure]:
    rates = {target: [step.messages / run.wall_s for run in runs] for target, runs in runs_by_target.items()}
    for target, runs in runs_by_target.items():
        name = f"{target}, {step.name}"
        spread = ", ".join(f"{rate:,.0f}" for rate in sorted(rates[target], reverse=True))
        yield Figure(name=name, unit="messages/s", better="higher", values=rates[target], note=spread)
        if used := [1e6 * run.cpu_s / step.messages for run in runs if run.cpu_s is not None]:
            yield Figure(name=f"{name}: processor time of the gateway", unit="µs/message", values=used)
    if len(rates) == 2:
        ours, theirs = rates.values()
        ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
        yield Figure(name=f"{step.name}: {' / '.join(rates)}", unit="×", better="higher", values=ratios, target=step.ahead)


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
def _gateway(runs: int) -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder) / "lake"
        asyncio.run(_create(root, runs))
        with served(root) as server:
            yield Target("gateway", server.endpoints, server)


async def _create(root: Path, runs: int) -> None:
    async with aio.connect(root, maintenance=False) as lake:
        await lake.create_topic(NORMAL, TopicSettings(queues=_QUEUES))
        await lake.create_topic(FIFO, TopicSettings(message_type=MessageType.FIFO, queues=_QUEUES))
        for at in range(runs):
            await lake.create_group(f"{FIFO}-{at}")


@contextmanager
def _rocketmq(runs: int) -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with servers.rocketmq(folder, flush="SYNC_FLUSH"):
            servers.create_rocketmq_topic(folder, NORMAL, message_type="NORMAL")
            servers.create_rocketmq_topic(folder, FIFO)
            for at in range(runs):
                servers.create_rocketmq_group(folder, f"{FIFO}-{at}")
            yield Target("RocketMQ", f"127.0.0.1:{servers.ROCKETMQ_PORT}", None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gateway.sdks")
    parser.add_argument("--rocketmq", action="store_true", help="measure a RocketMQ with SYNC_FLUSH in turns with the gateway")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.rocketmq and (missing := servers.missing_tools()):
        parser.error(f"{' and '.join(missing)} not found; RocketMQ needs Java 17 and Maven on the path")
    runs, figures = given.repeats + 1, []
    with ExitStack() as running:
        targets = [running.enter_context(_gateway(runs))]
        if given.rocketmq:
            targets.append(running.enter_context(_rocketmq(runs)))
        for figure in measure(targets, given.repeats, given.count):
            print(f"{figure.name}: {figure.median:,.3g} {figure.unit}", file=sys.stderr, flush=True)
            figures.append(figure)
    print(table(figures))
    if given.json:
        given.json.write_text(as_json(figures))


if __name__ == "__main__":
    main()

"""Three gateways over one folder, SDKs and plain clients behind proxies, and trouble until all is through; then it is judged.

    python -m tests.gateway.chaos.play --messages 50000 --seed 7

What is done to whom follows from the seed; when it meets which call, from the machine. So a seed does not repeat a run to the letter, and
does repeat its kind.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import penstock
from penstock import aio
from tests.gateway.chaos.facts import ASKED, ATTEMPTS, PUSHED, TOPIC, Facts, Load, Run, Stored, failures
from tests.gateway.chaos.ground import Served, gateway_troubles
from tests.gateway.chaos.judge import gaps, judge
from tests.gateway.chaos.members import Asking, Caller, produce
from tests.gateway.chaos.nemesis import Nemesis
from tests.gateway.sdk import Sdk, sdk

_GATEWAYS: Final = 3
_ASKING: Final = 4
_QUEUES: Final = 8
_LOOK_S: Final = 0.5
_SAY_S: Final = 15.0
_CLIENT_S: Final = 5
"""The patience of the SDKs with one request."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much, and how much trouble."""

    messages: int
    send_s: float
    """No more is sent after this time."""
    drain_s: float = 400.0
    """All must be through so long after the last send."""
    deeds: int = 0
    """At least so much is done to gateways."""
    every_s: float = 1.0
    deed_every_s: float = 10.0
    stop_s: tuple[float, float] = (1.0, 12.0)
    languages: tuple[str, ...] = ("java", "python")
    """The SDKs that send."""
    pushed_to: tuple[str, ...] = ("java", "python")
    """The SDKs whose push consumers are there."""
    in_a_hurry: bool = False
    """Whether gateways have shorter durations for what may not have reached a push consumer, so that a few messages take a minute."""

    def loads(self) -> list[Load]:
        """Most by the quickest client, some by each SDK."""
        by_sdk = [Load(language, self.messages // 4, 8, 16) for language in self.languages]
        return [*by_sdk, Load("plain", self.messages - sum(one.count for one in by_sdk), 16, 32)]


@dataclass
class Outcome:
    facts: Facts
    problems: list[str]
    seconds: float
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


async def run(plan: Plan, folder: Path, seed: int, say: Callable[[str], None]) -> Outcome:
    """One run in an empty folder, and what is wrong with it."""
    began_s, facts, refused = time.monotonic(), Facts(loads=plan.loads()), Counter[str]()
    async with AsyncExitStack() as stack:
        lake = await stack.enter_async_context(aio.connect(str(folder / "lake")))
        await lake.create_topic(TOPIC, aio.TopicSettings(message_type=penstock.MessageType.FIFO, queues=_QUEUES))
        retry = penstock.RetryPolicy(interval=timedelta(seconds=1))
        for group in (PUSHED, ASKED):
            await lake.create_group(group, delivery_order="ORDERLY", max_attempts=ATTEMPTS, retry=retry)
        served = [
            Served(lake.url, folder, f"gateway-{number}", seed + number, in_a_hurry=plan.in_a_hurry) for number in range(_GATEWAYS)
        ]
        for one in served:
            stack.push_async_callback(one.close)
        await asyncio.gather(*(one.open() for one in served))
        members = Members(plan, folder, [one.endpoints for one in served], seed, facts, refused)
        stack.push_async_callback(members.close)
        await asyncio.to_thread(members.open)
        nemesis = Nemesis(
            gateway_troubles(served),
            [one.proxy for one in served],
            seed=seed,
            every_s=plan.every_s,
            deed_every_s=plan.deed_every_s,
            stop_s=plan.stop_s,
        )
        troubling = asyncio.ensure_future(nemesis.run())
        try:
            await _through(plan, lake, members, nemesis, facts, say)
        finally:
            nemesis.end()
            await troubling
        await members.close()
        await _read(lake, facts)
    done = nemesis.done
    (folder / "runs").write_text("\n".join(map(repr, sorted(run for runs in facts.runs.values() for run in runs))))
    return Outcome(facts, judge(facts), time.monotonic() - began_s, done, refused)


class Members:
    """All clients of one run."""

    def __init__(self, plan: Plan, folder: Path, endpoints: list[str], seed: int, facts: Facts, refused: Counter[str]) -> None:
        self._plan = plan
        self._folder = folder
        self._endpoints = endpoints
        self._facts = facts
        self._sdks: list[Sdk] = []
        self._stack = ExitStack()
        self._ending = asyncio.Event()
        self._callers = [Caller(f"plain-{number}", endpoints, seed) for number in range(_ASKING + 1)]
        self._asking = [Asking(caller, facts, refused) for caller in self._callers[1:]]
        self._refused = refused
        self._tasks: list[asyncio.Task[None]] = []
        self.stops_sending = asyncio.Event()
        self.sending: list[asyncio.Task[None]] = []
        self.asking: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Start the SDKs, each with a producer and a push consumer."""
        fails = {body: count for load in self._facts.loads for body in load.bodies() if (count := failures(body))}
        for language, endpoints in zip(self._plan.languages, self._endpoints, strict=False):
            one = self._stack.enter_context(sdk(language, endpoints, self._folder / language))
            self._sdks.append(one)
            one.call("producer", name="producer", topics=[TOPIC], timeout_s=_CLIENT_S)
            if language in self._plan.pushed_to:
                one.call("push", name="push", group=PUSHED, subscriptions={TOPIC: "*"}, fails=fails, threads=8, timeout_s=_CLIENT_S)

    def begin(self) -> None:
        """Let all send and receive."""
        by_name = {load.name: load for load in self._facts.loads}
        for one in self._sdks:
            self.sending.append(self._begun(self._sent(by_name[one.language], self._by_sdk(one))))
        self.sending.append(self._begun(self._sent(by_name["plain"], self._plainly)))
        for asking in self._asking:
            self.asking.append(self._begun(asking.run(self._ending)))

    async def _sent(self, load: Load, send: Callable[[Load, int, int], Awaitable[None]]) -> None:
        for first, limit in load.parts():
            if self.stops_sending.is_set():
                load.count = first
                return
            await send(load, first, limit)

    def _by_sdk(self, one: Sdk) -> Callable[[Load, int, int], Awaitable[None]]:
        async def send(load: Load, first: int, limit: int) -> None:
            named = {"body": f"{load.name}:", "message_group": f"{load.name}-", "message_groups": load.groups}
            part = {"first": first, "count": limit, "threads": load.threads, "again": True}
            await asyncio.wrap_future(one.start("load", name="producer", topic=TOPIC, **part, **named))

        return send

    async def _plainly(self, load: Load, first: int, limit: int) -> None:
        await produce(self._callers[0], load, self._refused, first=first, limit=limit)

    def _begun(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.append(task)
        return task

    def look(self) -> None:
        """Take down what the SDKs' handlers did. Raises what a client failed with."""
        for one in self._sdks:
            for event in one.take():
                message = event["message"]
                what = Run(event["at_ms"] / 1000, one.language, message["body"], message["attempt"], event["failed"])
                self._facts.runs[PUSHED].append(what)
        for task in self._tasks:
            if task.done():
                task.result()

    async def close(self) -> None:
        self._ending.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(caller.close() for caller in self._callers))
        self._facts.lost_receives = sum(one.lost for one in self._asking)
        await asyncio.to_thread(self._stack.close)


async def _through(
    plan: Plan, lake: aio.Lake, members: Members, nemesis: Nemesis, facts: Facts, say: Callable[[str], None]
) -> None:
    """Return when all that was sent is settled in both groups, or the time is over. Trouble ends with the last send, and a little later."""
    members.begin()
    began_s = said_s = sent_s = time.monotonic()
    while True:
        members.look()
        now_s = time.monotonic()
        if now_s > began_s + plan.send_s:
            members.stops_sending.set()
        if not (sent := all(one.done() for one in members.sending)):
            sent_s = now_s
        if sent and nemesis.deeds >= plan.deeds:
            nemesis.end()
        if sent or now_s > said_s + _SAY_S:
            left = {group: await _left(lake, group) for group in (PUSHED, ASKED)}
            if now_s > said_s + _SAY_S:
                said_s = now_s
                runs = {group: len(facts.runs[group]) for group in (PUSHED, ASKED)}
                say(f"  {now_s - began_s:.0f} s: runs {runs}, left {left}, sent {sent}, done {nemesis.done.total()}")
            if nemesis.has_ended and not any(left.values()):
                return
            if now_s > sent_s + plan.drain_s:
                facts.unsettled = {group: f"{count} messages" for group, count in left.items() if count}
                return
        await asyncio.wait(members.asking, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)


async def _left(lake: aio.Lake, group: str) -> int:
    """How many messages and dead letters a group has before it."""
    queues = (await lake.describe_group(group)).queues
    return sum(queue.lag + queue.dead_letters for queue in queues) if queues else 1


async def _read(lake: aio.Lake, facts: Facts) -> None:
    """What is in the log at the end."""
    async for one in (await lake.reader(TOPIC)).messages():
        facts.stored.append(Stored(one.queue, one.offset, (one.body or b"").decode(), one.message_group or ""))
    for group in (PUSHED, ASKED):
        try:
            reader = await lake.reader(f"%DLQ%{group}")
        except penstock.TopicNotFound:
            continue
        async for one in reader.messages():
            facts.letters[group].append(((one.body or b"").decode(), one.delivery_attempt))


def report(outcome: Outcome, say: Callable[[str], None]) -> None:
    facts = outcome.facts
    runs = {group: len(those) for group, those in facts.runs.items()}
    say(
        f"  {sum(load.count for load in facts.loads):,} messages in {outcome.seconds:.0f} s, {len(facts.stored):,} stored; runs of handlers {runs}"
    )
    say(f"  done: {dict(sorted(outcome.done.items()))}")
    say(f"  calls of plain clients that failed: {dict(outcome.refused.most_common(12))}")
    letters = {group: len(those) for group, those in facts.letters.items()}
    say(f"  dead letters {letters}; attempts that nobody saw: {gaps(facts)}, receives without an answer: {facts.lost_receives}")
    for problem in outcome.problems[:20]:
        say(f"  WRONG: {problem}")
    if len(outcome.problems) > 20:
        say(f"  and {len(outcome.problems) - 20} more")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="no more is sent then")
    parser.add_argument("--every", type=float, default=Plan.every_s, help="seconds from one fault of a connection to the next")
    parser.add_argument(
        "--deed-every", type=float, default=Plan.deed_every_s, help="seconds from one deed at a gateway to the next"
    )
    parser.add_argument("--folder", type=Path, default=None, help="where lake and logs stay; default: removed at the end")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    plan = Plan(messages=given.messages, send_s=60 * given.minutes, every_s=given.every, deed_every_s=given.deed_every)
    again = f"--messages {plan.messages} --seed {seed} --every {plan.every_s:g} --deed-every {plan.deed_every_s:g}"
    print(f"replay: python -m tests.gateway.chaos.play {again}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = asyncio.run(run(plan, folder, seed, lambda line: print(line, flush=True)))
    report(outcome, print)
    return int(bool(outcome.problems))


if __name__ == "__main__":
    sys.exit(main())

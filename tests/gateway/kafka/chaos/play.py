"""Three gateways over a real S3 server, idempotent producers and a group behind proxies, and trouble until all is through; then it is judged.

    python -m tests.gateway.kafka.chaos.play --messages 50000 --seed 7

What is done to whom follows from the seed; when it meets which request, from the machine. So a seed does not repeat a run to the letter, and
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
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import penstock
from penstock import aio
from penstock.log.message.routing_type import Routing
from tests.gateway.chaos.ground import Served, gateway_troubles
from tests.gateway.chaos.nemesis import Deed, Nemesis, Trouble
from tests.gateway.kafka.chaos.facts import Facts, MemberJournal, acknowledgements
from tests.gateway.kafka.chaos.ground import GroupMember, Sender, Store
from tests.gateway.kafka.chaos.journal import Following
from tests.gateway.kafka.chaos.judge import inversions, judge, lost, twice
from tests.gateway.kafka.chaos.member import ConsumingJob
from tests.gateway.kafka.chaos.producer import SendingJob
from tests.processes.consuming.nemesis import Ground
from tests.waiting import wait_until

TOPICS: Final = ("orders", "payments", "parcels")
"""Each has a leader of its own, by chance."""
_GROUP: Final = "billing"
_PARTITIONS: Final = 4
_LOOK_S: Final = 0.5
_SAY_S: Final = 15.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much, and how much trouble."""

    messages: int
    per_second: float = 2_000.0
    """Records, by all producers."""
    topics: tuple[str, ...] = TOPICS
    gateways: int = 3
    producers: int = 4
    members: int = 3
    drain_s: float = 300.0
    """All must be acknowledged and given to the group so long after the last trouble."""
    deeds: int = 0
    """At least so much is done to processes."""
    every_s: float = 1.0
    deed_every_s: float = 4.0
    stop_s: tuple[float, float] = (1.0, 12.0)
    at_processes: tuple[Deed, ...] = tuple(Deed)
    """What is done to gateways and members."""

    def jobs(self, endpoints: str, folder: Path, seed: int) -> list[SendingJob]:
        each = self.messages // self.producers
        return [
            SendingJob(
                name=f"producer-{number}",
                endpoints=endpoints,
                topics=self.topics,
                count=each,
                per_second=self.per_second / self.producers,
                keys=50,
                journal=str(folder / f"producer-{number}.journal"),
                seed=seed + number,
            )
            for number in range(self.producers)
        ]


@dataclass
class Outcome:
    facts: Facts
    problems: list[str]
    seconds: float
    done: Counter[str]


async def run(plan: Plan, folder: Path, seed: int, say: Callable[[str], None]) -> Outcome:
    """One run in an empty folder, and what is wrong with it."""
    store = Store(folder)
    try:
        await store.start()
        ground = Ground(store.server.url("lake"), store.server.credentials)
        return await run_on(ground, plan, folder, seed, say, [Trouble(deed, [store]) for deed in (Deed.KILL, Deed.STOP)])
    finally:
        await store.close()


async def run_on(
    ground: Ground, plan: Plan, folder: Path, seed: int, say: Callable[[str], None], more: Sequence[Trouble] = ()
) -> Outcome:
    """One run on a lake without these topics. ``more``: troubles beside those of gateways, members and connections."""
    began_s = time.monotonic()
    async with AsyncExitStack() as stack:
        lake = await stack.enter_async_context(aio.connect(ground.url, options=ground.options, coordination=ground.coordination))
        settings = aio.TopicSettings(message_type=penstock.MessageType.MIXED, queues=_PARTITIONS, routing=Routing.MURMUR2)
        for topic in plan.topics:
            await lake.create_topic(topic, settings)
        readers = [await lake.reader(topic) for topic in plan.topics]
        served = [
            Served(
                ground.url,
                folder,
                f"gateway-{number}",
                seed + number,
                protocol="kafka",
                environment=ground.environment,
                interpreters=ground.interpreters,
                number=number,
            )
            for number in range(plan.gateways)
        ]
        for one in served:
            stack.push_async_callback(one.close)
        await asyncio.gather(*(one.open() for one in served))
        clients = Clients(plan, ",".join(one.endpoints for one in served), folder, seed)
        stack.push_async_callback(clients.close)
        nemesis = Nemesis(
            [
                *(one for one in gateway_troubles(served) if one.deed in plan.at_processes),
                *more,
                *(Trouble(deed, clients.members) for deed in plan.at_processes),
            ],
            [one.proxy for one in served],
            seed=seed,
            every_s=plan.every_s,
            deed_every_s=plan.deed_every_s,
            stop_s=plan.stop_s,
        )
        await clients.begin()
        troubling = asyncio.ensure_future(nemesis.run())
        try:
            problems = await _through(plan, clients, nemesis, troubling, readers, say)
        finally:
            nemesis.end()
            await troubling
        await clients.close()
        clients.look()
        facts = clients.facts
        for reader in readers:
            facts.stored |= await _read(reader)
    return Outcome(facts, [*problems, *judge(facts)], time.monotonic() - began_s, nemesis.done)


class Clients:
    """All producers and members of one run, and what they wrote down."""

    def __init__(self, plan: Plan, endpoints: str, folder: Path, seed: int) -> None:
        jobs = plan.jobs(endpoints, folder, seed)
        self.facts = Facts(sent={job.name: job.count for job in jobs}, acknowledged={job.name: [] for job in jobs})
        self._senders = [Sender(job, folder) for job in jobs]
        self._told = {job.name: Following(Path(job.journal)) for job in jobs}
        self._given: list[tuple[Following, MemberJournal]] = []
        self.members: list[GroupMember] = []
        self.sending: list[asyncio.Task[None]] = []
        for number in range(plan.members):
            name, journal = f"member-{number}", folder / f"member-{number}.journal"
            consuming = ConsumingJob(endpoints=endpoints, group=_GROUP, topics=plan.topics, journal=str(journal))
            self.members.append(GroupMember(name, consuming, folder))
            self._given.append((Following(journal), MemberJournal(name)))

    async def begin(self) -> None:
        await asyncio.gather(*(one.start() for one in (*self._senders, *self.members)))
        self.sending = [asyncio.ensure_future(one.sent()) for one in self._senders]

    def look(self) -> None:
        """Take down what was acknowledged and given since."""
        for name, following in self._told.items():
            self.facts.acknowledged[name] += acknowledgements(following.lines())
        for following, journal in self._given:
            journal.read(following.lines())
        self.facts.stretches = [stretch for _, journal in self._given for stretch in journal.stretches]

    @property
    def acknowledged(self) -> int:
        return sum(len(told) for told in self.facts.acknowledged.values())

    def come_to(self) -> dict[str, int]:
        """By partition, where the group has come to."""
        ends: Counter[str] = Counter()
        for stretch in self.facts.stretches:
            ends[stretch.partition] = max(ends[stretch.partition], stretch.next)
        return dict(ends)

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in (*self._senders, *self.members)))
        await asyncio.gather(*self.sending, return_exceptions=True)


async def _through(
    plan: Plan,
    clients: Clients,
    nemesis: Nemesis,
    troubling: asyncio.Future[None],
    readers: Sequence[aio.Reader],
    say: Callable[[str], None],
) -> list[str]:
    """Return when all is acknowledged and given to the group, or the time is over. Trouble ends with the last acknowledgement, or a little later."""
    began_s = said_s = time.monotonic()
    while not troubling.done():
        done, _ = await asyncio.wait((*clients.sending, troubling), timeout=_LOOK_S, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        await asyncio.to_thread(clients.look)
        now_s = time.monotonic()
        if now_s > said_s + _SAY_S:
            said_s = now_s
            given = sum(clients.come_to().values())
            say(f"  {now_s - began_s:.0f} s: acknowledged {clients.acknowledged:,}, given {given:,}, done {nemesis.done.total()}")
        if all(one.done() for one in clients.sending) and nemesis.deeds >= plan.deeds:
            nemesis.end()
    ends = await _ends(readers)

    def is_given() -> bool:
        clients.look()
        return clients.come_to() == ends

    try:
        await asyncio.to_thread(wait_until, is_given, "the group is given all", timeout_s=plan.drain_s)
    except AssertionError:
        return [f"the group came to {clients.come_to()}, and the log to {ends}"]
    return []


async def _ends(readers: Sequence[aio.Reader]) -> dict[str, int]:
    """By partition with records, the next offset."""
    found = {one.topic: await one.offsets() for one in readers}
    return {f"{topic}/{queue}": end for topic, offsets in found.items() for queue, (_, end) in offsets.items() if end}


async def _read(reader: aio.Reader) -> dict[str, list[str]]:
    """The values of a topic's partitions, as the library reads them. Raises `RuntimeError` where offsets have gaps."""
    values: dict[str, list[str]] = {}
    rows = await reader.to_arrow(columns=["queue", "offset", "body"])
    for row in rows.sort_by([("queue", "ascending"), ("offset", "ascending")]).to_pylist():
        those = values.setdefault(f"{reader.topic}/{row['queue']}", [])
        if row["offset"] != len(those):
            raise RuntimeError(f"{reader.topic}/{row['queue']} has {row['offset']}, where {len(those)} was expected")
        those.append(row["body"].decode())
    return values


def report(outcome: Outcome, say: Callable[[str], None]) -> None:
    facts = outcome.facts
    told, stored = (sum(map(len, those.values())) for those in (facts.acknowledged, facts.stored))
    given = sum(len(stretch.values) for stretch in facts.stretches)
    say(f"  {told:,} records acknowledged in {outcome.seconds:.0f} s, {stored:,} stored, {given:,} given to the group")
    say(f"  lost {len(lost(facts))}, twice {len(twice(facts))}, inverted {len(inversions(facts))}")
    say(f"  done: {dict(sorted(outcome.done.items()))}")
    for problem in outcome.problems[:20]:
        say(f"  WRONG: {problem}")
    if len(outcome.problems) > 20:
        say(f"  and {len(outcome.problems) - 20} more")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--per-second", type=float, default=Plan.per_second, help="records that are sent, by all producers")
    parser.add_argument("--every", type=float, default=Plan.every_s, help="seconds from one fault of a connection to the next")
    parser.add_argument(
        "--deed-every", type=float, default=Plan.deed_every_s, help="seconds from one deed at a process to the next"
    )
    parser.add_argument("--folder", type=Path, default=None, help="where lake and logs stay; default: removed at the end")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    plan = Plan(messages=given.messages, per_second=given.per_second, every_s=given.every, deed_every_s=given.deed_every)
    trouble = f"--every {plan.every_s:g} --deed-every {plan.deed_every_s:g}"
    again = f"--messages {plan.messages} --seed {seed} --per-second {plan.per_second:g} {trouble}"
    print(f"replay: python -m tests.gateway.kafka.chaos.play {again}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = asyncio.run(run(plan, folder, seed, lambda line: print(line, flush=True)))
    report(outcome, print)
    return int(bool(outcome.problems))


if __name__ == "__main__":
    sys.exit(main())

"""Eight workers and four producers, killed, paused and rolled at random, operators meanwhile; then all is drained and checked.

    python -m tests.processes.consuming.chaos --minutes 2 --seed 7 [--store local|versitygw|dynoxide] [--only restart] [--lease 3]

What is done to whom follows from the seed; when, from the progress that the journals show. So a seed does not repeat a run to the
letter, and does repeat its kind.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import penstock
from penstock.coordinator.tables import create_table
from tests.processes.check import Row
from tests.processes.check import check as check_log
from tests.processes.consuming.check import Found, History, Reset, Rules, Skip, check
from tests.processes.consuming.fates import Fates
from tests.processes.consuming.figures import Pauses, pauses
from tests.processes.consuming.places import DIED, LEASE, Disturbed, Place
from tests.processes.consuming.records import Handled, Noted, What, read_records
from tests.processes.consuming.worker import BATCHES, MIRRORED, ORDERED, TASKS, THREADS, TRY_AGAIN, Job
from tests.processes.worker import TOPIC, read_journal
from tests.processes.worker import Job as ProducerJob
from tests.processes.worker import start_argument as start_producer
from tests.servers import dynoxide_server, versitygw_server
from tests.waiting import wait_until

BOTH = (ORDERED, MIRRORED)
CREWS = (
    ((ORDERED,), THREADS),
    (BOTH, TASKS),
    (BOTH, THREADS),
    ((MIRRORED,), THREADS),
    ((ORDERED,), TASKS),
    ((MIRRORED,), TASKS),
    ((ORDERED,), BATCHES),
    (BOTH, THREADS),
)
"""The groups of each worker, and how it runs its listeners."""
CACHE_MESSAGES = 200
REPEATS_MAX = 2 * CACHE_MESSAGES
"""What is cached may be in flight, and as much may be done and on its way to the cell."""
ATTEMPTS = 4
PATIENCE_S = 90.0
DECK = {"kill": 4, "stop": 2, "restart": 2, "kill producer": 1, "reset": 1, "release": 1, "skip": 1}
"""What is done, and how often until all of it was done; then it begins anew."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How large a run is."""

    workers: int = 8
    producers: int = 4
    messages: int = 200_000
    groups: int = 1_000
    queues: int = 8
    lease_s: float = 3.0
    seconds: float = 60.0
    deck: dict[str, int] = field(default_factory=lambda: {**DECK, "roll": 1})
    killers: bool = True
    """Whether one message ends each process that handles it."""


SHORT = Plan(workers=3, producers=2, messages=5_000, groups=200, queues=6, lease_s=1.5, seconds=0.0, deck=DECK, killers=False)


class Ground(NamedTuple):
    """Where a run takes place."""

    url: str
    options: dict[str, str]
    coordination: str | None = None


@dataclass
class Outcome:
    """What a run showed."""

    found: Found
    acknowledged: int
    handled: int
    pauses: Pauses
    done: Counter[str]
    said: Counter[str]


class Chaos:
    """One run."""

    def __init__(self, folder: Path, ground: Ground, plan: Plan, seed: int) -> None:
        self.folder, self.ground, self.plan = folder, ground, plan
        self.chance = random.Random(seed)
        self.parks = seed % 2 == 0
        """Whether the ORDERLY group parks message groups; else it goes on behind a dead letter."""
        self.done: Counter[str] = Counter()
        self.resets: list[Reset] = []
        self.skips: list[Skip] = []
        self.fates = Fates(killers=("loader-0/500",) if plan.killers else ())
        self.workers = [self._worker(number) for number in range(plan.workers)]
        self.producers = [self._producer(number) for number in range(plan.producers)]
        self._deck: list[str] = []
        self._due_s = 0.0

    # --- Places -----------------------------------------------------------------------------------------------------------------

    def _worker(self, number: int) -> Place:
        name = f"worker-{number}"
        groups, how = CREWS[number % len(CREWS)]

        def command(start: int) -> list[str]:
            job = Job(
                url=self.ground.url,
                options=self.ground.options,
                coordination=self.ground.coordination,
                lease_s=self.plan.lease_s,
                journal=str(self.folder / f"{name}.{start}.jsonl"),
                groups=groups,
                how=how,
                cache_messages=CACHE_MESSAGES,
                fates=self.fates,
            )
            return [sys.executable, "-m", "tests.processes.consuming.worker", job.argument()]

        return Place(name, command, self.folder / f"{name}.err")

    def _producer(self, number: int) -> Place:
        plan = self.plan
        job = ProducerJob(
            url=self.ground.url,
            options=self.ground.options,
            name=f"loader-{number}",
            journal=str(self.folder / f"loader-{number}.journal"),
            seed=self.chance.getrandbits(32),
            groups=plan.groups // plan.producers,
            skew=1.0,
            messages=plan.messages // plan.producers,
            per_second=plan.messages / plan.producers / max(plan.seconds, 20.0),
        )
        return Place(job.name, lambda _: start_producer(job), self.folder / f"loader-{number}.err")

    @property
    def places(self) -> list[Place]:
        return [*self.workers, *self.producers]

    def journals(self) -> list[Path]:
        return sorted(self.folder.glob("worker-*.jsonl"))

    def complaints(self) -> str:
        """What processes wrote that went wrong in a way nobody foresaw."""
        return "".join(one.errors.read_text() for one in self.places if one.errors.exists())

    # --- What is done -----------------------------------------------------------------------------------------------------------

    def run(self, lake: penstock.Lake) -> None:
        """For so long as is planned, and longer where the machine is slow: until the deck was dealt once."""
        until_s = time.monotonic() + self.plan.seconds
        dealt = 0
        for one in self.places:
            one.start()
        wait_until(self._all_up, "all workers have joined", timeout_s=PATIENCE_S)
        while time.monotonic() < until_s or dealt < sum(self.plan.deck.values()):
            self._wait_for_progress()
            self._do(lake, self._next())
            dealt += 1
        self._wait_for_progress()
        self._heal(lake)

    def _all_up(self) -> bool:
        return sum(b'["up"' in path.read_bytes() for path in self.journals()) >= len(self.workers)

    def _next(self) -> str:
        if not self._deck:
            self._deck = [name for name, count in self.plan.deck.items() for _ in range(count)]
            self.chance.shuffle(self._deck)
        return self._deck.pop()

    def _wait_for_progress(self) -> None:
        """Until more was handled, and time for a take-over has passed; stopped processes go on when their leases are over."""
        before = self._bytes()
        due_s = time.monotonic() + self.plan.lease_s
        sending = any(one.lives for one in self.producers)

        def got_on() -> bool:
            now_s = time.monotonic()
            for one in self.workers:
                if one.stopped_s is not None and now_s > one.stopped_s + 1.25 * self.plan.lease_s + 1:
                    one.go_on()
            self._revive()
            return now_s >= due_s and (self._bytes() > before or not sending)

        wait_until(got_on, "the workers get on", timeout_s=PATIENCE_S)

    def _bytes(self) -> int:
        return sum(path.stat().st_size for path in self.journals())

    def _revive(self) -> None:
        for one in self.workers:
            self.done["died and was started again"] += one.revive()
        for one in self.producers:
            one.revive(unless=(0,))

    def _do(self, lake: penstock.Lake, deed: str) -> None:
        self.done[deed] += 1
        one = self.chance.choice([worker for worker in self.workers if worker.stopped_s is None])
        match deed:
            case "kill":
                one.kill()
                one.start()
            case "stop":
                one.stop()
            case "restart":
                self._restart(one)
            case "roll":
                for worker in self.workers:
                    worker.go_on()
                    self._restart(worker)
            case "kill producer":
                producer = self.chance.choice(self.producers)
                producer.kill()
                producer.start()
            case "reset":
                self._reset(lake)
            case _:
                self._order(lake, deed)

    def _restart(self, one: Place) -> None:
        one.end(PATIENCE_S)
        one.start()

    def _reset(self, lake: penstock.Lake) -> None:
        """Back by a few messages of one queue."""
        group = self.chance.choice(BOTH)
        standing = self.chance.choice(lake.describe_group(group).queues)
        offset = max(0, standing.floor - self.chance.randrange(1, 100))
        self.resets.append(Reset(group, standing.queue, offset, time.monotonic()))
        lake.reset_offsets(TOPIC, group, offset, queues=[standing.queue])

    def _order(self, lake: penstock.Lake, deed: str) -> bool:
        """Release or skip what is parked. Whether anything was."""
        at_s = time.monotonic()
        ordered = lake.release(ORDERED) if deed == "release" else lake.skip(ORDERED)
        if deed == "skip":
            self.skips += [Skip(ORDERED, one.queue, one.offset, at_s) for one in ordered]
        self.done["parked groups ordered on"] += len(ordered)
        return bool(ordered)

    # --- The end ----------------------------------------------------------------------------------------------------------------

    def _heal(self, lake: penstock.Lake) -> None:
        for one in self.workers:
            one.go_on()
        for one in self.producers:
            one.end(PATIENCE_S)
        wait_until(lambda: self._drained(lake), "all is consumed", timeout_s=2 * PATIENCE_S)
        for one in self.workers:
            one.end(PATIENCE_S)

    def _drained(self, lake: penstock.Lake) -> bool:
        self._revive_workers()
        return not self._order(lake, "skip") and all(not lake.describe_group(group).lag for group in BOTH)

    def _revive_workers(self) -> None:
        for one in self.workers:
            self.done["died and was started again"] += one.revive()

    def destroy(self) -> None:
        for one in self.places:
            one.destroy()

    # --- What is known ----------------------------------------------------------------------------------------------------------

    def troubles(self, noted: list[Noted], handled: list[Handled]) -> list[Disturbed]:
        """What was done to workers, and what they did themselves: processes that ended, leases that were lost."""
        known = [trouble for one in self.workers for trouble in one.disturbed]
        left = {one.process for one in noted if one.what is What.DOWN} | {one.process for one in known if one.is_end}
        last = {one.process: one for one in handled}
        for process in {path.stem for path in self.journals()} - left:
            at_s = last[process].at_s if process in last else 0.0
            known.append(Disturbed(DIED, process, at_s, at_s))
        return known + [
            Disturbed(LEASE, one.process, one.at_s - 3 * self.plan.lease_s, one.at_s)
            for one in noted
            if one.what is What.SAID and "the lease was lost" in one.text
        ]


def run(ground: Ground, folder: Path, plan: Plan, *, seed: int) -> Outcome:
    """One run on an empty place, and what its check found."""
    with penstock.connect(ground.url, options=ground.options, coordination=ground.coordination) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=plan.queues)
        retry = penstock.RetryPolicy(interval=timedelta(milliseconds=200), jitter=0.5)
        chaos = Chaos(folder, ground, plan, seed)
        policy = "park" if chaos.parks else "continue"
        lake.create_group(ORDERED, retry=retry, max_attempts=ATTEMPTS, dead_letter_policy=policy)
        lake.create_group(MIRRORED, delivery_order="CONCURRENT", retry=retry, max_attempts=ATTEMPTS)
        try:
            chaos.run(lake)
        finally:
            chaos.destroy()
        return judge(lake, chaos)


def judge(lake: penstock.Lake, chaos: Chaos) -> Outcome:
    """Read everything, and check it."""
    columns = ["queue", "offset", "body", "message_group", "store_timestamp"]
    values = lake.reader(TOPIC).to_arrow(columns=columns).to_pylist()
    rows = [Row(one["queue"], one["offset"], one["body"].decode(), one["message_group"]) for one in values]
    stored = {(one["queue"], one["offset"]): one["store_timestamp"].timestamp() for one in values}
    handled, noted = read_records(chaos.journals())
    troubles = chaos.troubles(noted, handled)
    history = History(
        rows=rows,
        handled=handled,
        groups={ORDERED: Rules(True, chaos.parks, ATTEMPTS), MIRRORED: Rules(False, False, ATTEMPTS)},
        fates=chaos.fates,
        disturbed=troubles,
        resets=chaos.resets,
        skips=chaos.skips,
        letters={group: dead_letters(lake, group) for group in BOTH},
        repeats_max=REPEATS_MAX,
    )
    found = check(history)
    journals = [line for one in chaos.producers for line in read_journal(chaos.folder / f"{one.name}.journal")]
    verdict = check_log(rows, journals, [one.name for one in chaos.producers], chaos.plan.queues)
    found.problems += [*verdict.problems, *standings(lake, rows), *unforeseen(chaos, noted, troubles)]
    said = Counter(one.text.partition(":")[0][:60] for one in noted if one.what in (What.SAID, What.ENDED))
    return Outcome(found, verdict.acknowledged, len(handled), pauses(handled, stored, troubles), chaos.done, said)


def dead_letters(lake: penstock.Lake, group: str) -> list[tuple[int, int, str]]:
    """Where each message was that was given up, and its body."""
    topic = f"%DLQ%{group}"
    if topic not in lake.topics():
        return []
    return [
        (int(one.properties["DLQ_ORIGIN_QUEUE"]), int(one.properties["DLQ_ORIGIN_OFFSET"]), one.body.decode())
        for one in lake.reader(topic).messages()
    ]


def standings(lake: penstock.Lake, rows: list[Row]) -> Iterator[str]:
    """What `describe_group` says once everybody has left: nothing is left to do, and nobody owns anything."""
    ends = Counter(row.queue for row in rows)
    for group in BOTH:
        described = lake.describe_group(group)
        if described.members:
            yield f"{group} still has the members {described.members}"
        for one in described.queues:
            is_idle = not (one.lag or one.in_flight or one.waiting or one.blocked or one.parked or one.suspects or one.dead_letters)
            if one.owner or not is_idle or not one.floor == one.next_offset == ends[one.queue]:
                yield f"in the end {group} stands so, with {ends[one.queue]} messages in the queue: {one}"


def unforeseen(chaos: Chaos, noted: list[Noted], troubles: list[Disturbed]) -> Iterator[str]:
    """Processes that ended as nothing explains."""
    if complaints := chaos.complaints():
        yield f"processes complained:\n{complaints[-3000:]}"
    disturbed = {one.process for one in troubles if one.kind not in (DIED, LEASE)}
    for one in noted:
        if one.what is What.ENDED and one.process not in disturbed:
            yield f"{one.process} ended by itself: {one.text}"
    for place in chaos.places:
        killed = {-signal.SIGKILL} if chaos.plan.killers else set()
        if wrong := set(place.ended) - {0, TRY_AGAIN, -signal.SIGTERM} - killed:  # told to end before it could listen
            yield f"processes of {place.name} ended with {wrong}"


# --- Where and how ----------------------------------------------------------------------------------------------------------------


@contextmanager
def place(kind: str, folder: Path) -> Iterator[Ground]:
    """An empty lake: a folder with cells in SQLite, a bucket that holds the cells too, or a bucket with cells in DynamoDB."""
    with ExitStack() as stack:
        if kind == "local":
            yield Ground(str(folder / "lake"), {})
            return
        s3 = stack.enter_context(versitygw_server(folder / "server"))
        ground = Ground(s3.url("lake"), s3.credentials)
        if kind == "dynoxide":
            dynamodb = stack.enter_context(dynoxide_server(folder / "cells"))
            ground = ground._replace(coordination=dynamodb.url("penstock-cells"))
            asyncio.run(create_table(dynamodb.url("penstock-cells"), options=dynamodb.credentials))
        yield ground


def report(outcome: Outcome, say: Callable[[str], None]) -> None:
    """What a run showed, for people."""
    say(
        f"  {outcome.acknowledged} messages acknowledged to producers, {outcome.handled} lines of handlers; done: {dict(outcome.done)}"
    )
    say(f"  {dict(sorted(outcome.found.counts.items()))}")
    repeats = outcome.found.repeats.values()
    say(
        f"  ran again after a process's trouble: {sum(repeats)} of {len(repeats)} troubles, at most {max(repeats, default=0)} of one"
    )
    say(f"  {outcome.pauses}")
    say(f"  said: {dict(outcome.said.most_common(12))}")
    for problem in outcome.found.problems[:20]:
        say(f"  WRONG: {problem}")
    if len(outcome.found.problems) > 20:
        say(f"  and {len(outcome.found.problems) - 20} more")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", choices=["local", "versitygw", "dynoxide"], action="append")
    parser.add_argument("--only", choices=[*DECK, "roll"], action="append", help="do nothing else")
    parser.add_argument("--lease", type=float, help="in seconds")
    parser.add_argument("--short", action="store_true", help="as small as in make test")
    parser.add_argument("--keep", type=Path, help="an empty folder for journals, lake and server")
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    places = chosen.store or ["local", "versitygw"]
    plan = SHORT if chosen.short else replace(Plan(), seconds=60 * chosen.minutes / len(places))
    if chosen.lease:
        plan = replace(plan, lease_s=chosen.lease)
    if chosen.only:
        plan = replace(plan, deck=dict.fromkeys(chosen.only, 4), killers=False)
    failed = False
    for kind in places:
        how = "--short" if chosen.short else f"--minutes {chosen.minutes / len(places):g}"
        how += f" --lease {chosen.lease:g}" if chosen.lease else ""
        only = "".join(f" --only '{deed}'" for deed in chosen.only or ())
        print(f"replay: python -m tests.processes.consuming.chaos {how} --seed {seed} --store {kind}{only}", flush=True)
        with ExitStack() as stack:
            folder = chosen.keep / kind if chosen.keep else Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.mkdir(parents=True, exist_ok=True)
            outcome = run(stack.enter_context(place(kind, folder)), folder, plan, seed=seed)
        print(f"{kind}:")
        report(outcome, print)
        failed |= bool(outcome.found.problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""What is done to the processes of a run, and to its consumer groups; dealt from a deck by chance."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import penstock
from tests.processes.consuming.check import Reset, Skip
from tests.processes.consuming.disk import Filler
from tests.processes.consuming.fates import Fates
from tests.processes.consuming.places import DIED, FULL, LEASE, Disturbed, Place
from tests.processes.consuming.records import Handled, Noted, What
from tests.processes.consuming.worker import BATCHES, MIRRORED, ORDERED, REFUSED, SIMPLE, TASKS, THREADS, Job
from tests.processes.worker import BATCH_MAX, TOPIC
from tests.processes.worker import Job as ProducerJob
from tests.processes.worker import start_argument as start_producer
from tests.waiting import wait_until

BOTH = (ORDERED, MIRRORED)
CREWS = (
    ((ORDERED,), THREADS),
    (BOTH, TASKS),
    (BOTH, THREADS),
    ((MIRRORED,), THREADS),
    ((ORDERED,), TASKS),
    ((MIRRORED,), SIMPLE),
    ((ORDERED,), BATCHES),
    (BOTH, THREADS),
)
"""The groups of each worker, and how it runs its listeners."""
CACHE_MESSAGES = 200
REPEATS_MAX = 2 * CACHE_MESSAGES
"""What is cached may be in flight, and as much may be done and on its way to the cell."""
ATTEMPTS = 4
PATIENCE_S = 240.0
NEARLY = 1_000
"""Messages that may be left when the end begins."""
MORE = ("roll", "clock", "full")
"""What is not done unless it is asked for, or the run is long."""
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
    """Producers send what there is to send in so long, if they can."""
    at_once: int = BATCH_MAX
    """Messages that a producer sends, at most, before it waits for answers."""
    all_messages: bool = False
    """Whether the run goes on until they have sent it all, and nearly all is consumed."""
    deck: dict[str, int] = field(default_factory=lambda: {**DECK, "roll": 1})
    crew: str = ""
    """How all workers run their listeners, each of one group; empty: in all ways, of one group or both."""
    killers: bool = True
    """Whether one message ends each process that handles it."""


SHORT = Plan(workers=3, producers=2, messages=5_000, groups=200, queues=6, lease_s=1.5, seconds=0.0, deck=DECK, killers=False)


class Ground(NamedTuple):
    """Where a run takes place."""

    url: str
    options: dict[str, str]
    coordination: str | None = None
    disk: Path | None = None
    """That the lake has for itself, and that may be filled."""
    throttled: bool = False
    """Whether the table refuses many requests."""

    @property
    def in_sqlite(self) -> bool:
        """Whether the cells are in one file, as they are by default beside a folder."""
        return self.coordination is None and "://" not in self.url


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
        self._full: list[tuple[float, float]] = []
        """From when until when the disk was."""

    # --- Places -----------------------------------------------------------------------------------------------------------------

    def _worker(self, number: int) -> Place:
        name = f"worker-{number}"
        groups, how = CREWS[number % len(CREWS)]
        if self.plan.crew:
            groups, how = (BOTH[number % 2],), self.plan.crew

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
            at_once=plan.at_once,
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
        """For so long as is planned, and longer where the machine is slow: until the deck was dealt once, and what is planned was sent."""
        until_s = time.monotonic() + self.plan.seconds
        dealt = 0
        for one in self.places:
            one.start()
        wait_until(self._all_up, "all workers have joined", timeout_s=PATIENCE_S)
        while time.monotonic() < until_s or dealt < sum(self.plan.deck.values()) or (self.plan.all_messages and self._behind(lake)):
            self._wait_for_progress()
            self._do(lake, self._next())
            dealt += 1
        self._wait_for_progress()
        self._heal(lake)

    def _all_up(self) -> bool:
        return sum(b'["up"' in path.read_bytes() for path in self.journals()) >= len(self.workers)

    def _sending(self) -> bool:
        return any(one.lives for one in self.producers)

    def _behind(self, lake: penstock.Lake) -> bool:
        """Whether producers still send, or much of it is not consumed yet."""
        return self._sending() or any(lake.describe_group(group).lag > NEARLY for group in BOTH)

    def _next(self) -> str:
        if not self._deck:
            self._deck = [name for name, count in self.plan.deck.items() for _ in range(count)]
            self.chance.shuffle(self._deck)
        return self._deck.pop()

    def _wait_for_progress(self) -> None:
        """Until more was handled, and time for a take-over has passed; stopped processes go on when their leases are over."""
        before = self._bytes()
        due_s = time.monotonic() + self.plan.lease_s
        sending = self._sending()

        def got_on() -> bool:
            now_s = time.monotonic()
            self._go_on(now_s)
            self._revive()
            return now_s >= due_s and (self._bytes() > before or not sending)

        wait_until(got_on, "the workers get on", timeout_s=PATIENCE_S)

    def _go_on(self, now_s: float) -> bool:
        """Let stopped processes go on whose leases are over. Whether there are no others."""
        for one in self.workers:
            if one.stopped_s is not None and now_s > one.stopped_s + 1.25 * self.plan.lease_s + 1:
                one.go_on()
        return all(one.stopped_s is None for one in self.workers)

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
            case "clock":
                one.step_clock()
            case "full":
                self._fill_disk()
            case "kill producer":
                producer = self.chance.choice(self.producers)
                producer.kill()
                producer.start()
            case _:
                # One that was stopped in the middle of a commit holds up whoever writes to the same SQLite file: us, too.
                wait_until(lambda: self._go_on(time.monotonic()), "stopped processes go on", timeout_s=PATIENCE_S)
                if deed == "reset":
                    self._reset(lake)
                else:
                    self._order(lake, deed)

    def _fill_disk(self) -> None:
        """For longer than a lease: nobody can write, and whoever lives loses it."""
        assert self.ground.disk is not None, "there is a disk to fill"
        filler, from_s = Filler(self.ground.disk), time.monotonic()
        for one in self.workers:
            one.go_on()
        filler.fill()

        def over() -> bool:
            filler.fill()  # what somebody deletes meanwhile
            self._revive()
            return time.monotonic() > from_s + 2 * self.plan.lease_s

        try:
            wait_until(over, "the disk was full for long", timeout_s=PATIENCE_S)
        finally:
            filler.free()
        self._full.append((from_s, time.monotonic()))

    def _restart(self, one: Place) -> None:
        # What it waits for may be a process that was stopped in the middle of a commit.
        one.end(PATIENCE_S, lambda: self._go_on(time.monotonic()))
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
        processes = {path.stem for path in self.journals()}
        known += [Disturbed(FULL, one, from_s, until_s) for one in processes for from_s, until_s in self._full]
        return known + [
            Disturbed(LEASE, one.process, one.at_s - 3 * self.plan.lease_s, one.at_s)
            for one in noted
            if one.what is What.SAID and ("the lease was lost" in one.text or REFUSED in one.text)
        ]

"""What is done to the processes of a run, and to its consumer groups; dealt from a deck by chance."""

from __future__ import annotations

import math
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import penstock
from penstock.log.errors import StoreUnavailable
from tests.interpreters import OWN, Interpreters, interpreter
from tests.postgres_server import PostgresServer
from tests.processes.consuming.broadcast import Standing
from tests.processes.consuming.disk import Filler
from tests.processes.consuming.disturbed import FULL, TABLE, Disturbed
from tests.processes.consuming.fates import Fates
from tests.processes.consuming.orders import Order, Orders, Run
from tests.processes.consuming.places import Place
from tests.processes.consuming.progress import Progress
from tests.processes.consuming.records import Handled, records_of
from tests.processes.consuming.worker import BATCHES, BROADCAST, MIRRORED, ORDERED, SIMPLE, TASKS, THREADS, TOLD, Job
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
TAKE_OVERS = 25
"""A message that ends its process does so up to 16 times before it is given up: it runs in ever smaller company, then alone; and each time
its queue waits for a lease and a quarter.
"""
NEARLY = 1_000
"""Messages that may be left when the end begins."""
BACKLOG_MAX = 20_000
"""Producers wait while a group is so far behind."""
_LOOK_S = 1.0
TABLE_DECK = {"kill table": 3, "stop table": 2}
"""What is done to the server of the table, where it is one that outlives that."""
MORE = ("roll", "clock", "full", "grow", *TABLE_DECK)
"""What is not done unless it is asked for, or the run is long."""
BROADCAST_DECK = {"kill": 4, "stop": 2, "restart": 2, "take name": 2, "kill producer": 1, "roll": 1}
"""Of members of a broadcasting group: it has no leases, offsets or parked messages, and its members have names."""
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
    queues_max: int = 32
    """As many as a topic grows to that is to grow, by twice its queues each time."""
    lease_s: float = 3.0
    seconds: float = 60.0
    """Producers send what there is to send in so long, if they can."""
    at_once: int = BATCH_MAX
    """Messages that a producer sends, at most, before it waits for answers."""
    all_messages: bool = False
    """Whether the run goes on until they have sent it all, and nearly all is consumed."""
    pause_s: float = 0.0
    """So long at least, and for a lease, nothing else is done after a deed."""
    limit_s: float = math.inf
    """After so long the producers are ended, and what there is is drained."""
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
    server: PostgresServer | None = None
    """That of the cells, where it may be killed."""
    operator: str | None = None
    """The same cells for whoever drives the run, where they are to be asked without disturbance."""
    interpreters: Interpreters = OWN
    """Of the processes."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a command comes to the lake and its cells; the URL says the rest."""
        table = {} if self.coordination is None else {"PENSTOCK_COORDINATION": self.coordination}
        return {f"AWS_{name.upper()}": value for name, value in self.options.items()} | table

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
        self.orders = Orders(folder)
        self.fates = Fates(killers=("loader-0/500",) if plan.killers else ())
        self.workers = [self._worker(number) for number in range(plan.workers)]
        self.producers = [self._producer(number) for number in range(plan.producers)]
        self.progress: Progress | None = None
        """Told now and then how far the run is."""
        self.told_to_end: Callable[[], bool] = lambda: False
        """Whether no more is to be done than to drain."""
        self._broadcast = Tail(self.folder) if plan.crew == BROADCAST else None
        self._deck: list[str] = []
        self._looked_s = 0.0
        self._backlog = 0
        """Messages that the slower group was behind when that was looked at last."""
        self.orders.run(
            Run(
                workers=tuple(one.name for one in self.workers),
                producers=tuple(one.name for one in self.producers),
                groups=BOTH if self._broadcast is None else (TOLD,),
                queues=plan.queues,
                lease_s=plan.lease_s,
                parks=self.parks,
                killers=self.fates.killers,
                in_sqlite=ground.in_sqlite,
                throttled=ground.throttled,
            )
        )

    # --- Places -----------------------------------------------------------------------------------------------------------------

    def _worker(self, number: int) -> Place:
        name = f"worker-{number}"
        groups, how = CREWS[number % len(CREWS)]
        if self.plan.crew:
            groups, how = (TOLD if self.plan.crew == BROADCAST else BOTH[number % 2],), self.plan.crew

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
                member=name,
            )
            python = interpreter(self.ground.interpreters, number, start)
            return [*python, "-m", "tests.processes.consuming.worker", job.argument()]

        return Place(name, command, self.folder / f"{name}.err", self.orders)

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
            hold=str(self._hold),
        )

        def command(start: int) -> list[str]:
            return start_producer(job, interpreter(self.ground.interpreters, number, start))

        return Place(job.name, command, self.folder / f"loader-{number}.err", self.orders)

    @property
    def _patience_s(self) -> float:
        return PATIENCE_S + TAKE_OVERS * self.plan.lease_s

    @property
    def _hold(self) -> Path:
        return self.folder / "hold"

    @property
    def places(self) -> list[Place]:
        return [*self.workers, *self.producers]

    def journals(self) -> list[Path]:
        return sorted(self.folder.glob("worker-*.jsonl"))

    # --- What is done -----------------------------------------------------------------------------------------------------------

    def run(self, lake: penstock.Lake) -> None:
        """For so long as is planned, and longer where the machine is slow: until the deck was dealt once, and what is planned was sent."""
        began_s = time.monotonic()
        dealt = 0
        for one in self.places:
            one.start()
        wait_until(self._all_up, "all workers have joined", timeout_s=self._patience_s)
        while not self._is_over(time.monotonic() - began_s, dealt):
            self._wait_for_progress(lake)
            self._do(lake, self._next())
            dealt += 1
        self._wait_for_progress(lake)
        self._heal(lake)
        self.orders.write(Order.DRAINED)

    def _count(self, deed: str, times: int = 1) -> None:
        if times:
            self.done[deed] += times
            self.orders.write(Order.DONE, deed, int(times))

    def _is_over(self, passed_s: float, dealt: int) -> bool:
        if self.told_to_end() or passed_s > self.plan.limit_s:
            return True
        if self.plan.all_messages:
            return not self._sending() and self._backlog <= NEARLY and dealt >= sum(self.plan.deck.values())
        return passed_s >= self.plan.seconds and dealt >= sum(self.plan.deck.values())

    def _all_up(self) -> bool:
        return sum(b'["up"' in path.read_bytes() for path in self.journals()) >= len(self.workers)

    def _sending(self) -> bool:
        return any(one.lives for one in self.producers)

    def _next(self) -> str:
        if not self._deck:
            self._deck = [name for name, count in self.plan.deck.items() for _ in range(count)]
            self.chance.shuffle(self._deck)
        return self._deck.pop()

    def _wait_for_progress(self, lake: penstock.Lake) -> None:
        """Until more was handled, and time for a take-over has passed; stopped processes go on when their leases are over."""
        before = self._sizes()
        due_s = time.monotonic() + max(self.plan.lease_s, self.plan.pause_s)

        def got_on() -> bool:
            now_s = time.monotonic()
            # One that was stopped in the middle of a commit holds up whoever asks the same SQLite file: us, too.
            if self._go_on(now_s) and now_s > self._looked_s + _LOOK_S:
                self._look(lake)
            self._revive()
            if self.told_to_end():
                return True
            grew = any(size > before.get(process, 0) for process, size in self._sizes().items())
            return now_s >= due_s and (grew or not (self._sending() or self._backlog))

        wait_until(got_on, "the workers get on", timeout_s=self._patience_s)

    def _look(self, lake: penstock.Lake) -> None:
        """How far the groups are; producers wait for them."""
        try:
            stored, self._backlog = self._how_far(lake)
        except StoreUnavailable:
            if self.ground.server is None:
                raise
            self._looked_s, self._backlog = time.monotonic(), max(self._backlog, 1)
            return  # the table was killed or stopped just now, and is asked again
        if self._backlog > BACKLOG_MAX:
            self._hold.touch()
        else:
            self._hold.unlink(missing_ok=True)
        self._looked_s = time.monotonic()
        if self.progress is not None:
            self.progress.look(self._looked_s, stored, stored - self._backlog, {deed: self.done[deed] for deed in self.plan.deck})

    def _how_far(self, lake: penstock.Lake) -> tuple[int, int]:
        """How many messages are stored, and how many the slowest has to do."""
        if self._broadcast is not None:
            stored = sum(end for _, end in lake.reader(TOPIC).offsets().values())
            return stored, stored - min(self._broadcast.through(one) for one in self.workers)
        standings = [lake.describe_group(group).queues for group in BOTH]
        stored = max(sum(one.next_offset or 0 for one in queues) for queues in standings)
        return stored, max(sum(one.lag for one in queues) for queues in standings)

    def _go_on(self, now_s: float) -> bool:
        """Let stopped processes go on whose leases are over. Whether there are no others."""
        for one in self.workers:
            if one.stopped_s is not None and now_s > one.stopped_s + 1.25 * self.plan.lease_s + 1:
                one.go_on()
        return all(one.stopped_s is None for one in self.workers)

    def _sizes(self) -> dict[str, int]:
        """Bytes that each process has written that runs now."""
        paths = {one.process: self.folder / f"{one.process}.jsonl" for one in self.workers}
        return {process: path.stat().st_size for process, path in paths.items() if path.exists()}

    def _revive(self) -> None:
        for one in self.workers:
            self._count("died and was started again", one.revive())
        for one in self.producers:
            one.revive(unless=(0,))

    def _do(self, lake: penstock.Lake, deed: str) -> None:
        self._count(deed)
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
            case "take name":
                one.take_name()
            case "clock":
                wait_until(lambda: self._listens(one), f"{one.process} listens to signals", timeout_s=self._patience_s)
                one.step_clock()
            case "full":
                self._fill_disk()
            case "kill table":
                self._disturb_table(lambda server: server.restart(self.chance.choice((signal.SIGKILL, signal.SIGQUIT))))
            case "stop table":
                self._disturb_table(self._stop_table)
            case "kill producer":
                producer = self.chance.choice(self.producers)
                producer.kill()
                producer.start()
            case _:
                # One that was stopped in the middle of a commit holds up whoever writes to the same SQLite file: us, too.
                wait_until(lambda: self._go_on(time.monotonic()), "stopped processes go on", timeout_s=self._patience_s)
                if deed == "reset":
                    self._reset(lake)
                elif deed == "grow":
                    self._grow(lake)
                else:
                    self._order(lake, deed)

    def _listens(self, one: Place) -> bool:
        """Whether it would not die of the signal: it opens its journal when it knows what to do with it."""
        return not one.lives or (self.folder / f"{one.process}.jsonl").exists()

    def _fill_disk(self) -> None:
        """For longer than a lease: nobody can write, and whoever lives loses it."""
        assert self.ground.disk is not None, "there is a disk to fill"
        filler, from_s = Filler(self.ground.disk), time.monotonic()
        self.orders.begun(FULL, "", from_s)
        for one in self.workers:
            one.go_on()
        filler.fill()

        def over() -> bool:
            filler.fill()  # what somebody deletes meanwhile
            self._revive()
            return time.monotonic() > from_s + 2 * self.plan.lease_s

        try:
            wait_until(over, "the disk was full for long", timeout_s=self._patience_s)
        finally:
            filler.free()
        self.orders.over(Disturbed(FULL, "", from_s, time.monotonic()))

    def _disturb_table(self, disturb: Callable[[PostgresServer], None]) -> None:
        assert self.ground.server is not None, "there is a server to disturb"
        from_s = time.monotonic()
        self.orders.begun(TABLE, "", from_s)
        disturb(self.ground.server)
        self.orders.over(Disturbed(TABLE, "", from_s, time.monotonic()))

    def _stop_table(self, server: PostgresServer) -> None:
        """For shorter or longer than a lease."""
        until_s = time.monotonic() + self.plan.lease_s * self.chance.uniform(0.2, 1.5)

        def over() -> bool:
            self._revive()
            return time.monotonic() > until_s

        server.pause()
        try:
            wait_until(over, "the table was stopped for long", timeout_s=self._patience_s)
        finally:
            server.go_on()

    def _restart(self, one: Place) -> None:
        # What it waits for may be a process that was stopped in the middle of a commit.
        one.end(self._patience_s, lambda: self._go_on(time.monotonic()))
        one.start()

    def _grow(self, lake: penstock.Lake) -> None:
        """Twice as many queues, while there are not too many."""
        queues = lake.reader(TOPIC).queues
        if 2 * queues <= self.plan.queues_max:
            lake.alter_topic(TOPIC, queues=2 * queues)
            self._count("queues", queues)

    def _reset(self, lake: penstock.Lake) -> None:
        """Back by a few messages of one queue."""
        group = self.chance.choice(BOTH)
        standing = self.chance.choice(lake.describe_group(group).queues)
        offset = max(0, standing.committed_offset - self.chance.randrange(1, 100))
        self.orders.write(Order.RESET, group, standing.queue, offset, time.monotonic())
        lake.reset_offsets(group, TOPIC, offset, queues=[standing.queue])

    def _order(self, lake: penstock.Lake, deed: str) -> bool:
        """Release or skip what is parked. Whether anything was."""
        at_s = time.monotonic()
        self.orders.write(Order.RELEASING if deed == "release" else Order.SKIPPING, ORDERED, at_s)
        ordered = lake.release(ORDERED) if deed == "release" else lake.skip(ORDERED)
        if deed == "skip":
            self.orders.write(Order.SKIPPED, ORDERED, at_s, [(one.queue, one.offset) for one in ordered])
        self._count("parked groups ordered on", len(ordered))
        return bool(ordered)

    # --- The end ----------------------------------------------------------------------------------------------------------------

    def _heal(self, lake: penstock.Lake) -> None:
        for one in self.workers:
            one.go_on()
        for one in self.producers:
            one.end(self._patience_s)
        self._drain(lake)
        for one in self.workers:
            one.end_former(self._patience_s)
            one.end(self._patience_s)

    def _drain(self, lake: penstock.Lake) -> None:
        """Until nothing is left to do; it may take long, but not without getting on."""
        least = math.inf
        is_drained = False

        def got_on() -> bool:
            nonlocal is_drained
            self._revive_workers()
            if time.monotonic() < self._looked_s + _LOOK_S:
                return False
            ordered = self._order(lake, "skip")
            self._look(lake)
            is_drained = not ordered and self._backlog == 0
            return is_drained or self._backlog < least

        while not is_drained:
            wait_until(got_on, f"all is consumed, not just all but {self._backlog} messages", timeout_s=self._patience_s)
            least = self._backlog

    def _revive_workers(self) -> None:
        for one in self.workers:
            self._count("died and was started again", one.revive())

    def destroy(self) -> None:
        for one in self.places:
            one.destroy()
        self.orders.close()


class Tail:
    """How far the members of a broadcasting group are: reads of their journals what is new."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: Counter[Path] = Counter()
        """Bytes."""
        self._standing = Standing()

    def through(self, place: Place) -> int:
        """Messages that its processes have handled."""
        for path in sorted(self._folder.glob(f"{place.name}.*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read[path])
                for record in records_of(file, path.stem):
                    if isinstance(record, Handled):
                        self._standing.add(place.name, record)
                    self._read[path] = file.tell()
        return self._standing.through(place.name)

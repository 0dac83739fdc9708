"""The story: a shop opens, is captured and synced beneath kills, closes, and everything is compared."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import penstock

from . import lake as lakes
from .books import TABLES, Rows, broken, differences, fingerprints
from .errors import DemoFailedError
from .picture import Look, State
from .processes import Kill, Service, kills
from .proof import Proof, Seen, prove
from .shop import TILLS, Sales, build, trade
from .source import Snapshot, Source

PATIENCE_S = 180.0
"""How long to wait for whatever should come, on a machine that is busy with other things."""
SNAPSHOT_EVERY_S, LOOK_EVERY_S, SHOW_EVERY_S = 0.25, 1.0, 0.25
PROVED_MAX = 60
"""How many cuts are read again and compared at the end."""


@dataclass(frozen=True)
class Plan:
    """What a run was asked for."""

    seconds: float
    rate: float
    kill_every_s: float
    seed: int


@dataclass(frozen=True)
class Outcome:
    """What a run has found."""

    source: str
    transactions: int
    events: int
    kills: dict[str, int]
    cuts: int
    looks: int
    broken_at_cuts: int
    broken_without: int
    snapshots: int
    proofs: list[Proof]
    rows: dict[str, int]
    """Of each table at the source, in the end."""
    differences: dict[str, list[str]]
    """The rows of each table that differ from the source, in the end."""
    drained_s: float

    @property
    def well(self) -> bool:
        """Whether all is as it should be, and at least one cut is proved."""
        true = all(one.holds for one in self.proofs) and any(one.is_proved for one in self.proofs)
        return true and not any(self.differences.values()) and not self.broken_at_cuts


@dataclass
class Demo:
    """One run."""

    source: Source
    lake_url: str
    into: Path
    scratch: Path
    """For the logs of the processes, and what they leave when they are killed."""
    plan: Plan
    show: Callable[[State], None]
    """Called a few times a second."""
    say: Callable[[str], None]
    sales: Sales = field(default_factory=Sales)
    seen: list[Seen] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    phase: str = "the first rows are read"

    def __post_init__(self) -> None:
        capture = ["capture", *self.source.capture(), "--topic", lakes.TOPIC, "--lake", self.lake_url]
        kept = ["--cuts", "--keep-cuts", "1d", "--interval", "300ms"]
        sync = ["sync", lakes.TOPIC, "--into", str(self.into), "--engine", "deltalake", *kept, "--lake", self.lake_url]
        self._services = {
            name: Service.of_penstock(name, words, self.scratch) for name, words in (("capture", capture), ("sync", sync))
        }
        self._closed, self._over = threading.Event(), threading.Event()
        self._newest: Rows = {}
        self._cut: lakes.TablesAtCut | None = None
        self._place, self._events, self._killed = "", 0, ""
        self._opened_s: float | None = None
        self._tasks: list[Future[None]] = []
        self._tills: list[Future[None]] = []

    # --- The story ----------------------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """From the empty database to the proof. Raises `DemoFailedError`."""
        with ExitStack() as stack:
            self.say(f"{self.source.name} starts, with an empty shop")
            stack.enter_context(self.source.running())
            build(self.source, self.plan.seed)
            lake = stack.enter_context(penstock.connect(self.lake_url))
            for service in self._services.values():
                self.say(f"$ {service}")
            stack.enter_context(self._working(lake))
            for service in self._services.values():
                stack.callback(service.end)
            self._services["capture"].start()
            self._wait(lambda: lakes.TOPIC in lake.topics(), "the topic")
            self._services["sync"].start()
            self._trade()
            self._close()
            drained_s = self._drain()
            final = self.source.snapshot()
            self.seen.append(_seen(final))
            self._over.set()
            for service in self._services.values():
                service.end()
            return self._compared(final, drained_s)

    def _trade(self) -> None:
        """The shop is open, and somebody kills."""
        self._opened_s = time.monotonic()
        chance = random.Random(self.plan.seed)
        self.phase = "the shop is open; capture and sync are killed at any moment, and started again"
        for kill in [*kills(self.plan.seconds, self.plan.kill_every_s, chance), None]:
            until_s = self.plan.seconds if kill is None else kill.at_s
            self._wait(partial(self._is_time, until_s), "time itself")
            if kill is not None:
                self._kill(kill)

    def _is_time(self, at_s: float) -> bool:
        return self._now_s() >= at_s

    def _kill(self, kill: Kill) -> None:
        self._services[kill.service].kill()
        self._killed = kill.service

    def _close(self) -> None:
        """Wait until each till has ended its last transaction: what is sold is certain then."""
        self._closed.set()
        self._wait(lambda: all(till.done() for till in self._tills), "the tills' last transactions")

    def _drain(self) -> float:
        """Wait until the newest cut has all that was sold, and tell how long that took."""
        self.phase = "the shop is closed; what is under way arrives"
        began_s = time.monotonic()
        wanted = self.source.snapshot()

        def is_there() -> bool:
            return self._cut is not None and len(self._cut.rows["ledger"]) == len(wanted.rows["ledger"])

        self._wait(is_there, "a cut with all that was sold")
        return time.monotonic() - began_s

    def _compared(self, final: Snapshot, drained_s: float) -> Outcome:
        newest, last = lakes.newest(self.into), lakes.at_cut(self.into)
        assert newest is not None, "the last cut has all tables"
        assert last is not None, "there is one"
        drawn = set(range(1, last.number))
        if len(drawn) > PROVED_MAX:
            drawn = set(random.Random(self.plan.seed).sample(sorted(drawn), PROVED_MAX))
        read = [cut for number in sorted(drawn) if (cut := lakes.at_cut(self.into, number)) is not None]
        return Outcome(
            source=self.source.name,
            transactions=self.sales.transactions,
            events=self._events,
            kills={name: service.kills for name, service in self._services.items()},
            cuts=last.number,
            looks=len(self.looks),
            broken_at_cuts=sum(bool(look.cut_broken) for look in self.looks),
            broken_without=sum(bool(look.newest_broken) for look in self.looks),
            snapshots=len(self.seen),
            proofs=[prove(cut.number, self.source.order(cut.place), cut.place, cut.rows, self.seen) for cut in (*read, last)],
            rows={name: len(rows) for name, rows in final.rows.items()},
            differences={name: differences(name, final.rows[name], newest[name]) for name in TABLES},
            drained_s=drained_s,
        )

    # --- Beside it ----------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _working(self, lake: penstock.Lake) -> Iterator[None]:
        """The tills, and those who look at the source and at the lake, each in a thread."""
        looks: list[Callable[[], None]] = [self._look_at_source, partial(self._look_at_lake, lake)]
        with ThreadPoolExecutor(len(looks) + TILLS) as pool:
            self._tills = [pool.submit(self._till, number) for number in range(TILLS)]
            self._tasks = [*map(pool.submit, looks), *self._tills]
            try:
                yield
            finally:
                self._closed.set()
                self._over.set()

    def _till(self, number: int) -> None:
        trade(self.source, self.sales, self._closed, number=number, rate=self.plan.rate / TILLS, seed=self.plan.seed)

    def _look_at_source(self) -> None:
        """Snapshots at moments that nobody has told the others, until the shop is closed."""
        took_s = 0.0
        while not self._closed.wait(max(SNAPSHOT_EVERY_S, 4 * took_s)):  # a large shop is looked at less often
            began_s = time.monotonic()
            self.seen.append(_seen(self.source.snapshot()))
            took_s = time.monotonic() - began_s

    def _look_at_lake(self, lake: penstock.Lake) -> None:
        """The newest cut beside the newest versions."""
        took_s = 0.0
        while not self._over.wait(max(LOOK_EVERY_S - took_s, took_s)):
            began_s = time.monotonic()
            self._place, self._events = self.source.place(), lakes.events(lake)
            newest, cut = lakes.newest(self.into), lakes.at_cut(self.into)
            if newest is not None and cut is not None:
                self._newest, self._cut = newest, cut
                killed, self._killed = self._killed, ""
                self.looks.append(look(cut.rows, newest, killed))
            took_s = time.monotonic() - began_s

    def _wait(self, enough: Callable[[], bool], what: str) -> None:
        """Wait for something, while everything runs and is shown."""
        until_s = time.monotonic() + PATIENCE_S + self.plan.seconds
        while not enough():
            for task in self._tasks:
                self._check(task)
            for service in self._services.values():
                service.check()
            if time.monotonic() > until_s:
                said = "; ".join(f"{name}: {service.said()}" for name, service in self._services.items())
                raise DemoFailedError(f"{what} did not come within {PATIENCE_S:.0f} s. {said}")
            self.show(self.state())
            self._over.wait(SHOW_EVERY_S)

    def _check(self, task: Future[None]) -> None:
        if task.done():
            try:
                task.result()
            except self.source.lost as error:
                raise DemoFailedError(f"{self.source.name} does not answer: {error}") from error

    def _now_s(self) -> float:
        return 0.0 if self._opened_s is None else time.monotonic() - self._opened_s

    def state(self) -> State:
        """How far everything is now."""
        cut = self._cut
        behind_s = None if cut is None or cut.committed_s is None else max(0.0, self.sales.last_s - cut.committed_s)
        source = self.seen[-1].tables if self.seen else {}
        return State(
            source=self.source.name,
            now_s=self._now_s(),
            seconds=self.plan.seconds,
            phase=self.phase,
            transactions=self.sales.transactions,
            events=self._events,
            place=self._place,
            cut=None if cut is None else cut.number,
            cut_place="" if cut is None else cut.place,
            behind_s=behind_s,
            kills={name: service.kills for name, service in self._services.items()},
            rows_source={name: source[name].rows if name in source else 0 for name in TABLES},
            rows_newest={name: len(rows) for name, rows in self._newest.items()},
            rows_cut={} if cut is None else {name: len(rows) for name, rows in cut.rows.items()},
            looks=list(self.looks),
            is_open=not self._closed.is_set(),
        )


def look(cut: Rows, newest: Rows, killed: str) -> Look:
    """Are the books right?"""
    return Look(tuple(broken(cut)), tuple(broken(newest)), killed)


def _seen(snapshot: Snapshot) -> Seen:
    return Seen(snapshot.place, snapshot.place_text, fingerprints(snapshot.rows))

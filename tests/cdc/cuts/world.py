"""Cuts in a world of its own: sources, their captures, a topic, and drivers of one sync that are killed, stand still and wake again.

What is real: how a capture follows a stream and names places, goals, the versions that are taken, and how cuts are written. The topic, the lease
and the targets are as plain as their promises, and a driver's loop is written out below. Every step is drawn from the seed.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import coroutine
from typing import Any

from penstock.cdc.cuts.alignment import AlignedTable, Alignment
from penstock.cdc.cuts.cut import Cut
from penstock.cdc.cuts.log import CutLog, keys_of, segments_of
from penstock.cdc.delta import commit_history
from penstock.cdc.delta.commit_history import TableCommit
from penstock.cdc.events.sources import TableId
from penstock.cdc.postgres.envelopes import EnvelopeEncoder
from penstock.cdc.postgres.envelopes import EventOrigin as Origin
from penstock.cdc.postgres.event_sender import EventSender, table_of
from penstock.cdc.postgres.follower import SlotFollower
from penstock.cdc.postgres.pgoutput import Begin as BeginMessage
from penstock.cdc.postgres.pgoutput import RelationColumn as StreamColumn
from penstock.cdc.postgres.positions import after, base_of, lsn_of, lsn_text
from penstock.cdc.postgres.stream import Keepalive, XLogData
from penstock.cdc.postgres.values import TypeConversions
from penstock.cdc.target import Target, TargetOwner, TargetProgress, encode_metadata
from penstock.log.stores import MemoryStore
from penstock.log.stores.protocol import Buffer, PutMode, Version
from tests.cdc.cuts.binlog import BinlogCapture, BinlogDatabase
from tests.cdc.cuts.topic import LIFE, TOPIC, Died, Topic

KEYS = 6
OWNER = TargetOwner(TOPIC, LIFE, "sync")
State = dict[int, str]
_INT, _TEXT = 23, 25


class Lost(Exception):
    """A driver's lease, or the answer of the store."""


@coroutine
def pause() -> Generator[None, None, None]:
    """Let others go on."""
    yield


# --- The source and its capture -------------------------------------------------------------------------------------------------------


@dataclass
class Database:
    """Its tables, every state that they had, and its log."""

    name: str
    tables: tuple[str, ...]
    lsn: int = 800
    state: dict[str, State] = field(default_factory=dict)
    states: dict[int, dict[str, State]] = field(default_factory=dict)
    """By the end of each transaction."""
    log: list[XLogData] = field(default_factory=list)
    """What its slot tells."""
    commits: int = 0

    def __post_init__(self) -> None:
        self.state = {table: {} for table in self.tables}

    def transaction(self, changes: Sequence[tuple[str, int, str | None]]) -> None:
        """Upserts, and deletes where there is no value."""
        commit, self.commits = self.lsn, self.commits + 1
        self.log.append(XLogData(commit, struct.pack(">cQqI", b"B", commit, 0, self.commits)))
        for table, key, value in changes:
            oid = self.tables.index(table) + 1
            self.log.append(XLogData(commit, _relation(oid, table)))
            rows = self.state[table]
            if value is None:
                if rows.pop(key, None) is not None:
                    self.log.append(XLogData(commit, b"D" + struct.pack(">Ic", oid, b"K") + _row(key, None)))
            else:
                op = b"U" if key in rows else b"I"
                rows[key] = value
                self.log.append(XLogData(commit, op + struct.pack(">Ic", oid, b"N") + _row(key, value)))
        self.lsn += 8 * max(1, len(changes) // 5)
        self.log.append(XLogData(commit, struct.pack(">cBQQq", b"C", 0, commit, self.lsn, 0)))
        self.states[self.lsn] = {name: dict(rows) for name, rows in self.state.items()}

    @property
    def end_text(self) -> str:
        return lsn_text(self.lsn)

    def at(self, text: str) -> dict[str, State]:
        """The state once all that ended there or before was done."""
        place = lsn_of(text)
        return self.states.get(max((lsn for lsn in self.states if lsn <= place), default=-1), {table: {} for table in self.tables})


def _relation(oid: int, table: str) -> bytes:
    columns = b"".join(
        bytes([flag]) + name + b"\0" + struct.pack(">Ii", kind, -1) for flag, name, kind in ((1, b"id", _INT), (0, b"v", _TEXT))
    )
    return b"R" + struct.pack(">I", oid) + b"public\0" + table.encode() + b"\0d" + struct.pack(">H", 2) + columns


def _row(key: int, value: str | None) -> bytes:
    cells = [str(key), value]
    return struct.pack(">H", 2) + b"".join(
        b"n" if one is None else b"t" + struct.pack(">I", len(one)) + one.encode() for one in cells
    )


class _Clock:
    def monotonic_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 1_700_000_000_000


class _Producer:
    def __init__(self, topic: Topic, name: str) -> None:
        self._topic, self._name = topic, name

    @property
    def last_sequence(self) -> int:
        return self._topic.named.get(self._name, -1)

    def send_batch(self, table: Any, *, through: int | None = None) -> Future[None]:
        rows = list(zip(table["message_group"].to_pylist(), table["body"].to_pylist(), strict=True))
        self._topic.append(self._name, rows, table["sequence"][-1].as_py() if through is None else through)
        done = Future[None]()
        done.set_result(None)
        return done


class _Stream:
    """The log of the source from its beginning, up to where the capture is killed or hears nothing more."""

    def __init__(self, said: Sequence[XLogData | Keepalive], chance: random.Random, *, dies: bool) -> None:
        self.said, self._chance, self._dies = list(said), chance, dies
        self._dies_at = chance.randrange(len(said) + 1) if dies else -1
        self._read = self.confirmed = 0

    def read(self) -> XLogData | Keepalive | None:
        if self._read == self._dies_at:
            raise Died
        if not self.said or self._chance.random() < 0.1:  # it is slow
            return None
        self._read += 1
        return self.said.pop(0)

    def wait(self, timeout_s: float) -> None:
        pass

    def confirm(self, lsn: int, now_us: int, *, ask: bool = False) -> None:
        self.confirmed = max(self.confirmed, lsn)


class Capture:
    """Of one database; each session is a process, which reads the tables that are not there yet, and then follows."""

    def __init__(self, database: Database, topic: Topic, chance: random.Random, *, heartbeat: bool) -> None:
        self.database, self._chance, self.heartbeat = database, chance, heartbeat
        self.name = f"postgres/{database.name}"
        self._producer = _Producer(topic, self.name)
        self._slot_lsn: int | None = None
        self._to_read = list(database.tables)

    def session(self, *, dies: bool, write: Callable[[], None]) -> None:
        """``write``: what others do meanwhile."""
        database = self.database
        envelopes = EnvelopeEncoder(
            Origin("db", database.name),
            TypeConversions(lambda oid: None),
            keys=lambda one: ("id",),
            reread=lambda *_: None,
            now_ms=lambda: 5,
        )
        if self._slot_lsn is None:
            self._slot_lsn = database.lsn
        while self._to_read:
            self._read(envelopes, self._to_read[0])
            self._to_read.pop(0)
            if dies and self._chance.random() < 0.3:
                return
            for _ in range(3 if self._to_read else 0):  # the next table is read at a later time
                write()
        whole_from = database.lsn
        heartbeat = envelopes.heartbeat if self.heartbeat else None
        out = EventSender(self._producer, whole_from=lambda: whole_from, heartbeat=heartbeat)  # type: ignore[arg-type]
        said = [one for one in database.log if one.lsn >= self._slot_lsn]
        alive = [Keepalive(database.lsn, False)] if self._chance.random() < 0.7 else []
        stream = _Stream([*said, *alive], self._chance, dies=dies)
        idle = 0

        def stopped() -> bool:
            nonlocal idle
            idle = idle + 1 if not stream.said else 0
            return idle > 3

        with suppress(Died):
            SlotFollower(envelopes, out, _Clock(), reached=lambda point: None, on_progress=lambda: None).run(stream, stopped, None)  # type: ignore[arg-type]
        self._slot_lsn = max(self._slot_lsn, stream.confirmed)

    def _read(self, envelopes: EnvelopeEncoder, table: str) -> None:
        assert self._slot_lsn is not None
        envelopes.begin(BeginMessage(0, 0, 0))
        shape = envelopes.table("public", table, [StreamColumn("id", _INT, True), StreamColumn("v", _TEXT, False)], ["id"])
        position, events = after(max(self._producer.last_sequence, 0)), []
        for key, value in sorted(self.database.state[table].items()):
            assert position < base_of(self._slot_lsn)
            events.append(envelopes.read(shape, (str(key), value), self._slot_lsn, position))
            position = after(position)
        if events:
            self._producer.send_batch(table_of(events))


def draw_transaction(database: Database | BinlogDatabase, chance: random.Random) -> None:
    size = chance.choice((1, 1, 2, 3, 5, 12))
    database.transaction(
        [
            (
                chance.choice(database.tables),
                chance.randrange(KEYS),
                None if chance.random() < 0.2 else f"{database.commits}.{number}",
            )
            for number in range(size)
        ]
    )


# --- Targets, the lease and the store -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TargetVersion:
    rows: State
    commit: TableCommit
    progress: TargetProgress


class Targets:
    """Delta tables: versions that never change, each made by a commit of which one of two writers wins."""

    def __init__(self, tables: Sequence[str]) -> None:
        self.versions = {table: [TargetVersion({}, self._commit(table, 0, TargetProgress()), TargetProgress())] for table in tables}

    @staticmethod
    def _commit(table: str, version: int, progress: TargetProgress) -> TableCommit:
        return TableCommit(version, "MERGE", encode_metadata(OWNER, Target(TableId("public", table), table, (), (), progress)))

    def merge(self, table: str, changes: Mapping[int, str | None], progress: TargetProgress) -> bool:
        versions = self.versions[table]
        if versions[-1].progress.commits >= progress.commits:
            return False
        rows = {**versions[-1].rows, **changes}
        made = {key: value for key, value in rows.items() if value is not None}
        versions.append(TargetVersion(made, self._commit(table, len(versions), progress), progress))
        return True

    def compact(self, table: str) -> None:
        versions = self.versions[table]
        versions.append(replace(versions[-1], commit=TableCommit(len(versions), "OPTIMIZE", None)))

    def newest_of(self, name: str, *, anew: bool = False) -> tuple[int, TargetProgress] | None:
        return commit_history.newest_of((one.commit for one in reversed(self.versions[name])), OWNER)

    def id_of(self, name: str) -> str:
        return name


class Store(MemoryStore):
    """Others go on before and after each request, and answers of writes are lost."""

    def __init__(self, chance: random.Random, stand_still: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._chance, self._stand_still = chance, stand_still

    async def get(self, key: str) -> Any:
        await pause()
        found = await super().get(key)
        await pause()
        return found

    async def list(self, prefix: str, *, after: str | None = None, max_keys: int | None = None) -> Any:
        await pause()
        found = await super().list(prefix, after=after, max_keys=max_keys)
        await pause()
        return found

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        await self._stand_still()
        fate = self._chance.random()
        if fate < 0.05:
            raise Lost("not written")
        version = await super().put(key, data, mode=mode)
        await pause()
        if fate < 0.12:
            raise Lost("written")
        return version


@dataclass
class Record:
    position: dict[int, int] = field(default_factory=dict)
    progress: dict[str, TargetProgress] = field(default_factory=dict)
    version: int = 0


class World:
    """All of it, from one seed."""

    def __init__(self, seed: int, *, kinds: Sequence[str] = ("postgres",), poison: bool = False) -> None:
        """``kinds`` of the sources, one or two: postgres, or binlog."""
        self.chance = random.Random(seed)
        self.topic = Topic()
        self.captures = [self._capture(name, kind) for name, kind in zip(("abc", "xyz"), kinds, strict=False)]
        self.databases = [capture.database for capture in self.captures]
        tables = [table for database in self.databases for table in database.tables]
        self.targets, self.store, self.record = Targets(tables), Store(self.chance, self.stand_still), Record()
        self.poisoned = self.chance.choice(tables) if poison else None
        """A table that stands still at its second batch."""
        self.epoch = 0
        self.drivers: list[Coroutine[Any, Any, None]] = []
        self.cuts: list[Cut] = []
        for database in self.databases:
            for _ in range(self.chance.randrange(1, 4)):
                draw_transaction(database, self.chance)

    def _capture(self, name: str, kind: str) -> Capture | BinlogCapture:
        tables, heartbeat = tuple(f"{name}_{one}" for one in name), self.chance.random() < 0.5
        if kind == "postgres":
            return Capture(Database(name, tables), self.topic, self.chance, heartbeat=heartbeat)
        return BinlogCapture(BinlogDatabase(name, tables, self.chance), self.topic, self.chance, heartbeat=heartbeat)

    def _session(self, capture: Capture | BinlogCapture, *, dies: bool) -> None:
        capture.session(dies=dies, write=lambda: draw_transaction(capture.database, self.chance))

    def play(self, steps: int) -> None:
        """So many steps of everybody, and then all that is left, by one driver alone."""
        chance = self.chance
        for _ in range(steps):
            kind = chance.random()
            if kind < 0.05:
                draw_transaction(chance.choice(self.databases), chance)
            elif kind < 0.08:
                self._session(chance.choice(self.captures), dies=chance.random() < 0.6)
            elif kind < 0.083 and self.drivers:
                self.drivers.pop(chance.randrange(len(self.drivers))).close()  # killed
            elif kind < 0.10 and not self.drivers:
                self.drivers.append(self.driver())
            elif kind < 0.105:
                self.targets.compact(chance.choice(list(self.targets.versions)))
            elif self.drivers:
                self._step(
                    self.drivers[-1] if chance.random() < 0.93 else chance.choice(self.drivers)
                )  # others stand still for long
        for driver in self.drivers:
            driver.close()
        for capture in self.captures:
            draw_transaction(capture.database, chance)
            self._session(capture, dies=False)
        for _ in range(20):  # until no answer is lost
            self.drivers = [self.driver(rounds=1)]
            while self.drivers:
                self._step(self.drivers[0])
        self.cuts = _finished(self._all_cuts())

    async def _all_cuts(self) -> list[Cut]:
        segments = await segments_of(self.store, await keys_of(self.store, "sync"))
        return [cut for segment in segments for cut in segment.cuts]

    def _step(self, driver: Coroutine[Any, Any, None]) -> None:
        try:
            driver.send(None)
        except (StopIteration, Lost):
            self.drivers.remove(driver)

    # --- One driver, as `cdc/sync/engine.py` is ---------------------------------------------------------------------------------

    async def driver(self, rounds: int = 1_000) -> None:
        self.epoch += 1
        epoch, chance, targets = self.epoch, self.chance, self.targets

        def check() -> None:
            if self.epoch != epoch:
                raise Lost

        await pause()
        record, read = self.record, self.record.version
        position, progress = dict(record.position), dict(record.progress)
        known: dict[str, TargetProgress] = {}
        stopped: dict[str, str] = {}
        cuts = CutLog(self.store, topic=OWNER.topic, sync="sync", keep_ms=1 << 60, name="into")
        alignment = Alignment(cuts, targets)
        await alignment.load(LIFE)
        for _ in range(rounds):
            standing = self.topic.look()
            alignment.set_goal(standing, position)
            while True:
                await pause()
                if chance.random() < 0.1:  # a look before all is applied that the one before saw
                    standing = self.topic.look()
                    alignment.set_goal(standing, position)
                starts = {queue: position.get(queue, 0) for queue in standing.kept}
                room = {queue: min(alignment.limit(queue, end), end) for queue, (_, end) in standing.kept.items()}
                ends = {
                    queue: min(room[queue], start + chance.randrange(1, 9))
                    for queue, start in starts.items()
                    if start < room[queue]
                }
                ranges = {queue: (starts[queue], end) for queue, end in ends.items()}
                changes = self.folded(ranges, known, progress, stopped)
                reached = {**position, **ends}
                for table, rows in chance.sample(sorted(changes.items()), len(changes)):
                    if table == self.poisoned and known[table].commits >= 1:
                        stopped[table] = "poison"
                        continue
                    check()
                    await pause()
                    mine = known[table].reached(reached, None)
                    if not targets.merge(table, rows, mine) and targets.versions[table][-1].progress != mine:
                        raise Lost("further than this driver knows")
                    known[table] = progress[table] = mine
                    await pause()
                position = reached
                if ends:
                    check()
                    await pause()
                    if self.record.version != read:
                        raise Lost
                    kept = position if not stopped else dict(record.position)
                    self.record, read = Record(dict(kept), dict(progress), read + 1), read + 1
                    await pause()
                if alignment.due(position):
                    tables = [
                        AlignedTable(table, progress[table].commits, stopped.get(table))
                        for table in targets.versions
                        if table in progress
                    ]
                    await pause()
                    check()
                    await self.stand_still()
                    cut = alignment.cut(tables, now_ms=self.epoch)
                    self.check_again(check)
                    if cut is None:
                        raise Lost("a target is further than this driver knows")
                    await alignment.record(cut)
                if not ends:
                    break
            await pause()

    def folded(
        self,
        ranges: Mapping[int, tuple[int, int]],
        known: dict[str, TargetProgress],
        progress: dict[str, TargetProgress],
        stopped: Collection[str],
    ) -> dict[str, dict[int, str | None]]:
        """The net changes by table; targets that are met for the first time become known."""
        changes: dict[str, dict[int, str | None]] = {}
        for queue, (start, end) in ranges.items():
            for offset in range(start, end):
                event = self.topic.queues[queue][offset]
                if "op" not in event:  # a heartbeat
                    continue
                table = event["source"]["table"]
                if table not in known:
                    known[table] = self.targets.versions[table][-1].progress
                    self.met(progress, table, known[table])
                if offset >= known[table].offsets.get(queue, 0) and table not in stopped:
                    row = event["after"] or event["before"]
                    changes.setdefault(table, {})[int(row["id"])] = None if event["after"] is None else row["v"]
        return changes

    def met(self, progress: dict[str, TargetProgress], table: str, found: TargetProgress) -> None:
        """Take a target's own progress for it, as a driver that died may have gone further than the record says."""
        progress[table] = found

    async def stand_still(self) -> None:
        """Perhaps, for so long that another driver takes over and gets on."""
        await pause()
        if self.chance.random() < 0.15:
            self.drivers.append(self.driver())
            for _ in range(self.chance.randrange(8)):
                await pause()

    def check_again(self, check: Callable[[], None]) -> None:
        """Look at the lease once versions are read."""
        check()

    # --- The judge --------------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Every cut equals the sources where it says, and cuts go forward."""
        assert [cut.number for cut in self.cuts] == list(range(1, len(self.cuts) + 1))
        for before, cut in zip(self.cuts, self.cuts[1:], strict=False):
            assert all(cut.positions[name] >= place for name, place in before.positions.items()), (before, cut)
            assert all(cut.ends[queue] >= end for queue, end in before.ends.items()), (before, cut)
        for cut in self.cuts:
            for capture in self.captures:
                if capture.name not in cut.positions:
                    continue
                wanted = capture.database.at(cut.places[capture.name])
                for table, rows in wanted.items():
                    if table in cut.tables:
                        assert self.targets.versions[table][cut.tables[table].version].rows == rows, (cut, table)
                    elif table not in cut.incomplete:
                        assert rows == {}, (cut, table)
            assert cut.incomplete.keys() <= {self.poisoned}, cut

    def check_end(self) -> None:
        """The last cut has everything."""
        assert self.cuts
        last = self.cuts[-1]
        for capture in self.captures:
            assert last.places[capture.name] == capture.database.end_text
        assert last.ends == self.topic.look().end.queues


def _finished(work: Awaitable[list[Cut]]) -> list[Cut]:
    step: Callable[[None], object] = work.__await__().send
    while True:
        try:
            step(None)
        except StopIteration as end:
            return list(end.value)

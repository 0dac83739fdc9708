"""A source of the binlog's kind for the world of cuts: its log, the engine that tells it, and the capture that follows.

What is real: how rows are read and numbered, how records are split into batches at boundaries, and which places they name. The engine is as
Debezium's was seen to be: all records of a transaction tell the place where it begins, heartbeats tell where the last one has ended, also amid the
next; behind a statement such as CREATE TABLE they go on telling where that begins.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.cdc.capture.errors import SourceUnavailable
from penstock.cdc.capture.positions import snapshot_of
from penstock.cdc.capture.records import ConnectSchemas
from penstock.cdc.debezium.capture import EngineOptions, offset_text
from penstock.cdc.debezium.configuration import MARIADB
from penstock.cdc.debezium.engine import RecordBatch
from penstock.cdc.debezium.follower import EngineFollower
from penstock.cdc.debezium.positions import between
from penstock.cdc.debezium.queries import KeyColumn, ServerTable, quoted_table
from penstock.cdc.debezium.rows import RowsReader
from penstock.cdc.debezium.state import EngineState
from tests.cdc.capture.resources import resources_of
from tests.cdc.cuts.topic import Died, Topic
from tests.cdc.debezium.silence import effects_of

Place = tuple[int, int]
"""The number of a file, and a position in it."""
State = dict[int, str]
Record = tuple[bytes, bytes, Place, bool]
"""Key, value, the place that it tells, and whether it is a row of a snapshot that has more."""
_FIRST = 379
"""The position behind what each file begins with."""


def file_of(place: Place) -> str:
    return f"binlog.{place[0]:06}"


@dataclass
class BinlogDatabase:
    """Its tables, every state that they had, and its log."""

    name: str
    tables: tuple[str, ...]
    chance: random.Random
    end: Place = (1, _FIRST)
    state: dict[str, State] = field(default_factory=dict)
    states: dict[Place, dict[str, State]] = field(default_factory=dict)
    """By the end of each transaction."""
    log: list[tuple[Place, list[Record], Place | None]] = field(default_factory=list)
    """Where each transaction begins, its records, and where its end is told; None: nowhere, as the connector does for a statement."""
    commits: int = 0

    def __post_init__(self) -> None:
        self.state = {table: {} for table in self.tables}

    @property
    def end_text(self) -> str:
        return f"{self.end[0]:06}:{self.end[1]}"

    def transaction(self, changes: Sequence[tuple[str, int, str | None]]) -> None:
        """Upserts, and deletes where there is no value. Others before it may be none of this capture's."""
        draw = self.chance.random()
        if draw < 0.05:
            self.end = (self.end[0] + 1, _FIRST)
        elif draw < 0.1:
            self._append([b'{"ddl":"CREATE TABLE other (id INT)"}'], is_told=False)
        elif draw < 0.15:
            self._append([], is_told=True)
        self.commits += 1
        values, pos, row = list[bytes](), self.end[1] + 42, 0
        for table, key, value in changes:
            pos, row = (pos, row + 1) if values and self.chance.random() < 0.3 else (pos + 60, 0)
            rows = self.state[table]
            before = rows.pop(key, None)
            if value is not None:
                rows[key] = value
            elif before is None:
                continue
            op = "d" if value is None else "c" if before is None else "u"
            values.append(_value(self.name, table, op, (self.end[0], pos), row, key, before, value))
        self._append(values, is_told=True, to=pos + 70)

    def _append(self, values: Iterable[bytes], *, is_told: bool, to: int = 0) -> None:
        begin = self.end
        self.end = (begin[0], max(to, begin[1] + 150))
        self.log.append((begin, [(_key(value), value, begin, False) for value in values], self.end if is_told else None))
        self.states[self.end] = {name: dict(rows) for name, rows in self.state.items()}

    def at(self, text: str) -> dict[str, State]:
        """The state at a place, which lies between transactions."""
        number, _, pos = text.partition(":")
        place = (int(number), int(pos))
        assert not any(begin < place < end for begin, end in zip([one[0] for one in self.log], self.states, strict=True)), text
        none: dict[str, State] = {table: {} for table in self.tables}
        return self.states.get(max((end for end in self.states if end <= place), default=(0, 0)), none)

    def told(self, offset: Mapping[str, Any]) -> list[Record]:
        """What the engine tells from a place on, without its last heartbeats."""
        begins: Place = (int(offset["file"].partition(".")[2]), offset["pos"])
        records, known = list[Record](), begins
        for begin, changes, end in self.log:
            if begin < begins:
                continue
            known = begin
            for change in changes:
                records.append(change)
                if self.chance.random() < 0.1:
                    records.append(_heartbeat(known))
            known = end or known
            if self.chance.random() < 0.3:
                records.append(_heartbeat(known))
        return [*records, _heartbeat(self.end if self.log and self.log[-1][2] and begins <= self.end else known)]


def _value(
    database: str,
    table: str,
    op: str,
    place: Place,
    row: int,
    key: int,
    before: str | None,
    after: str | None,
    *,
    read: bool = False,
) -> bytes:
    source = {"db": database, "table": table, "file": file_of(place), "pos": place[1], "row": row, "snapshot": str(read).lower()}
    images = {name: None if value is None else {"id": key, "v": value} for name, value in (("before", before), ("after", after))}
    return json.dumps({**images, "source": source, "op": op, "ts_ms": 5}).encode()


def _key(value: bytes) -> bytes:
    event = json.loads(value)
    row = event.get("after") or event.get("before")
    return b"null" if row is None else json.dumps({"id": row["id"]}).encode()


def _heartbeat(place: Place) -> Record:
    return b'{"serverName":"s"}', b'{"ts_ms":9000000000000}', place, False


class _Engine:
    """One life of the engine, which tells records in batches, and then heartbeats."""

    schemas: Mapping[str, ConnectSchemas] = {"0": ConnectSchemas(b"null", b"null")}
    ended = False

    def __init__(self, told: Sequence[Record], chance: random.Random, *, dies: bool, meanwhile: Callable[[], None]) -> None:
        self._told, self._chance, self._meanwhile = list(told), chance, meanwhile
        self._last = told[-1]
        self._dies_after = chance.randrange(len(told) + 1) if dies else -1
        self.idle = 0

    def give_back(self) -> None:
        """It has no memory of its own."""

    def next(self, timeout_s: float) -> RecordBatch | None:
        if self._chance.random() < 0.1:  # it is slow
            return None
        self._meanwhile()
        count = self._chance.choice((1, 2, 3, 8))
        records, self._told = self._told[:count], self._told[count:]
        if 0 <= self._dies_after < len(records):
            raise self._chance.choice((Died(), SourceUnavailable("it is gone", operation="capture")))
        self._dies_after -= len(records)
        if not records:
            self.idle += 1
            records = [self._last]
        keys, values, places, more = zip(*records, strict=True)
        offset = {"file": file_of(places[-1]), "pos": places[-1][1], "event": 3, **({"snapshot": "INITIAL"} if more[-1] else {})}
        return RecordBatch(keys, values, ["0"] * len(keys), offset)

    def metric(self, domain: str, context: str, name: str) -> object:
        position = 0 if self._told else self._last[2][1] + 500
        return {"Connected": True, "BinlogFilename": file_of(self._last[2]), "BinlogPosition": position}[name]

    def now_ms(self) -> int:
        """Before the time that its heartbeats tell."""
        return 1_700_000_000_000


class _Clock:
    def __init__(self, chance: random.Random) -> None:
        self._chance, self._now_s = chance, 0.0

    def monotonic_s(self) -> float:
        self._now_s += self._chance.choice((0.0, 0.1, 1.0))
        return self._now_s

    def wall_ms(self) -> int:
        return 1_700_000_000_000


class _Producer:
    """Whose process may die before or after each batch."""

    def __init__(self, topic: Topic, name: str, chance: random.Random, *, dies: bool) -> None:
        self._topic, self._name, self._chance, self._dies = topic, name, chance, dies

    @property
    def last_sequence(self) -> int:
        return self._topic.named.get(self._name, -1)

    def send_batch(self, table: Any, *, through: int | None = None) -> Future[None]:
        fate = self._chance.random() if self._dies else 1.0
        if fate < 0.05:
            raise Died
        rows = list(zip(table["message_group"].to_pylist(), table["body"].to_pylist(), strict=True))
        sequences = table["sequence"].to_pylist()
        last = sequences[-1] if through is None else through
        assert self.last_sequence < sequences[0] <= sequences[-1] <= last, "a producer refuses that"
        self._topic.append(self._name, rows, last)
        if fate < 0.1:
            raise Died
        done = Future[None]()
        done.set_result(None)
        return done


class BinlogCapture:
    """Of one database; each session is a process. It is its own store for states and histories, too."""

    parts = 1

    def __init__(self, database: BinlogDatabase, topic: Topic, chance: random.Random, *, heartbeat: bool) -> None:
        self.database, self._topic, self._chance, self.heartbeat = database, topic, chance, heartbeat
        self.name = f"debezium/{database.name}"
        self._state = EngineState("life", MARIADB.name, "server")
        self._signals: dict[str, tuple[str, ...]] = {}

    def save(self, state: EngineState) -> None:
        self._state = state

    def keep(self) -> bool:
        return False

    def signals(self) -> dict[str, tuple[str, ...]]:
        return dict(self._signals)

    def forget_signals(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._signals.pop(key, None)

    def table(self, joined: str) -> ServerTable:
        database, name = joined.split(".")
        return ServerTable(database, name, key=(KeyColumn("id", resumable=True),))

    def session(self, *, dies: bool, write: Callable[[], None]) -> None:
        """``write``: what others do meanwhile."""
        if self._chance.random() < 0.3:
            self._signals["signal"] = (f"{self.database.name}.{self._chance.choice(self.database.tables)}",)
        stream, rows = (_Producer(self._topic, f"{self.name}{end}", self._chance, dies=dies) for end in ("", "/rows"))
        if self._state.offset is None:
            end = self.database.end
            tables = tuple(f"{self.database.name}.{table}" for table in self.database.tables)
            self.save(replace(self._state, offset=offset_text({"file": file_of(end), "pos": end[1]}), history=1, pending=tables))
        with suppress(Died, SourceUnavailable):
            asked = True
            while asked:
                if self._state.pending:
                    self._read(stream, rows, write, dies=dies)
                asked = self._follow(stream, rows, write, dies=dies)

    def _read(self, stream: _Producer, rows: _Producer, write: Callable[[], None], *, dies: bool) -> None:
        clock: Any = _Clock(self._chance)
        me: Any = self
        resources = replace(resources_of(stream, me, clock), rows_producer=rows)
        reader = RowsReader(MARIADB.name, self.name, me, self._state, resources, on_rows=lambda count: None)
        more = reader.properties()
        place, database = self.database.end, self.database
        told = list[Record]()
        for table in reader.state.pending:
            after = more[f"snapshot.select.statement.overrides.{quoted_table(self.table(table))}"].partition("> (")[2]
            for key, value in sorted(database.state[table.partition(".")[2]].items()):
                if not after or key > int(after.partition(")")[0]):
                    read = _value(database.name, table.partition(".")[2], "r", place, 0, key, None, value, read=True)
                    told.append((_key(read), read, place, True))

        def meanwhile() -> None:
            if self._chance.random() < 0.2:
                write()

        engine: Any = _Engine([*told, _heartbeat(place)], self._chance, dies=dies, meanwhile=meanwhile)
        reader.read(engine, lambda: False, ended=lambda: SourceUnavailable("it is gone"))

    def _follow(self, stream: _Producer, rows: _Producer, write: Callable[[], None], *, dies: bool) -> bool:
        end = self.database.end
        for _ in range(self._chance.randrange(5)):  # what is written while it follows
            write()
        engine = _Engine(self.database.told(json.loads(self._state.offset or "")), self._chance, dies=dies, meanwhile=lambda: None)
        me: Any = self
        given: Any = engine
        clock: Any = _Clock(self._chance)
        resources = replace(resources_of(stream, me, clock), rows_producer=rows)
        follower = EngineFollower(
            given,
            effects_of(),
            MARIADB,
            me,
            resources,
            EngineOptions(name=self.database.name, heartbeat=self.heartbeat),
            whole_from=between(file_of(end), end[1], snapshot_of(rows.last_sequence)),
            on_progress=lambda **progress: None,
            where="here",
        )
        return follower.run(
            self._state,
            lambda: engine.idle > 6,
            until=(file_of(end), end[1]) if dies and self._chance.random() < 0.3 else None,
            ended=lambda: SourceUnavailable("it is gone"),
        )[1]

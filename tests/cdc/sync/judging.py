"""What must hold of targets whenever their driver ended: each has what the judge has of the events that it says are applied, row by row."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

import penstock
from penstock.cdc.events.debezium import position_of
from penstock.cdc.sync.options import REJECTED
from penstock.cdc.target import CURRENT, OP, POSITION, VALID_FROM, VALID_TO, decode_metadata
from tests.cdc.reference import MARKER, Message, Reference, Table
from tests.cdc.sync.crashes import is_spoilt
from tests.cdc.sync.streams import TOPIC, Row, envelope, rows


def stored(lake: str) -> list[Message]:
    """What is in the topic."""
    return Told(lake).read_on()


@dataclass
class Told:
    """What is in a topic that grows."""

    lake: str
    messages: list[Message] = field(default_factory=list)
    _ends: dict[int, int] = field(default_factory=dict)

    def read_on(self) -> list[Message]:
        """All, also what has come since the last time."""
        with penstock.connect(self.lake, read_only=True) as opened, opened.reader(TOPIC) as reader:
            for queue in range(reader.queues):
                for one in reader.messages(queue=queue, start=self._ends.get(queue, 0)):
                    self.messages.append(Message(one.queue, one.offset, one.body))
                    self._ends[queue] = one.offset + 1
        return self.messages


@dataclass
class Check:
    """Compares targets with the judge, as far as each says that it is."""

    into: Path
    messages: Sequence[Message]
    history: Collection[str] = ()
    """Tables whose targets keep it."""
    only: Collection[str] | None = None
    """Tables that the sync was asked for."""
    rejects: bool = False
    """Whether the sync sets spoilt events aside."""

    def __call__(self, *, complete: bool = False) -> int:
        """``complete``: all events must be there. The rows that were compared."""
        compared = self._aside(complete=complete) if self.rejects else 0
        for (schema, table), messages in self._by_table().items():
            done = self._offsets(table)
            there = [one for one in messages if complete or one.offset < done.get(one.queue, 0)]
            if table in self.history:
                expected, found = versions(there), rows(self.into / table, own=True) if done else []
            else:
                reference = Reference()
                reference.apply(there)
                expected = list(reference.rows().get((schema, table), {}).values())
                found = rows(self.into / table) if done else []
            names = sorted({name for row in [*found, *expected] for name in row})
            there_are, should_be = _listed(found, names), _listed(expected, names)
            odd = [row for row in there_are if row not in should_be], [row for row in should_be if row not in there_are]
            assert there_are == should_be, f"{table} as far as {done}: found {odd[0]}, expected {odd[1]}"
            compared += len(expected)
        return compared

    def _by_table(self) -> dict[Table, list[Message]]:
        found: dict[Table, list[Message]] = defaultdict(list)
        for message in self.messages:
            value = envelope(json.loads(message.body))
            source = value["source"]
            if (self.only is None or source["table"] in self.only) and not (self.rejects and is_spoilt(value)):
                found[source["schema"], source["table"]].append(message)
        return found

    def _aside(self, *, complete: bool) -> int:
        """Each spoilt event that its target has passed over stands aside, and nothing else does; none twice."""
        found = rows(self.into / REJECTED) if DeltaTable.is_deltatable(str(self.into / REJECTED)) else []
        there = {(row["queue"], row["offset"]): row for row in found}
        assert len(there) == len(found), "an event stands aside twice"
        spoilt = set[tuple[int, int]]()
        ends = {table: self._offsets(table) for table in {table for _, table in self._by_table()}}
        for message in self.messages:
            value = envelope(json.loads(message.body))
            table, place = value["source"]["table"], (message.queue, message.offset)
            if is_spoilt(value) and (self.only is None or table in self.only):
                spoilt.add(place)
                assert place in there or not (complete or message.offset < ends.get(table, {}).get(message.queue, 0)), place
                assert place not in there or json.loads(there[place]["body"]) == json.loads(message.body), place
        assert spoilt >= there.keys()
        return len(found)

    def _offsets(self, table: str) -> dict[int, int]:
        """How far a target says that it is."""
        path = self.into / table
        if not DeltaTable.is_deltatable(str(path)):
            return {}
        for limit in (10, None):
            for commit in sorted(DeltaTable(str(path)).history(limit), key=lambda one: -one["version"]):
                if (found := decode_metadata(commit.get("userMetadata"))) is not None:
                    return dict(found.progress.offsets)
        return {}


def _listed(found: Iterable[Row], names: Sequence[str]) -> list[Row]:
    """Every row, those that are equal too, with all columns."""
    return sorted(({name: row.get(name) for name in names} for row in found), key=repr)


def versions(messages: Iterable[Message]) -> list[Row]:
    """Every version of every row of one table, whose events come by one queue: by hand, event by event."""
    made: list[Row] = []
    current: dict[int, Row] = {}

    def close(key: int, at: datetime) -> Row:
        ended = current.pop(key, {})
        ended |= {VALID_TO: at, CURRENT: False} if ended else {}
        return ended

    for message in sorted(messages, key=lambda one: one.offset):
        value: dict[str, Any] = json.loads(message.body)["value"]
        source = value["source"]
        at = datetime.fromtimestamp(source["ts_ms"] // 1000, UTC) + timedelta(milliseconds=source["ts_ms"] % 1000)
        match value["op"]:
            case "t":
                for key in list(current):
                    close(key, at)
            case "d":
                close(value["before"]["id"], at)
            case op:
                before = close(value["after"]["id"], at)
                own = {OP: op, VALID_FROM: at, VALID_TO: None, CURRENT: True}
                own |= {POSITION: position_of(source, value["transaction"])}
                said = {name: one for name, one in value["after"].items() if one != MARKER}
                made.append(before | said | own)
                current[said["id"]] = made[-1]
    return made

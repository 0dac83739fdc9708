"""A stream whose every few events need every step of a batch, points at which to end the driver, and what must hold whenever it ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

import penstock
from penstock.cdc.targets import decode_metadata
from penstock.spark.sync.steps import Moment
from tests.cdc.reference import Message, Reference
from tests.spark.sync.streams import TOPIC, Row, event, rows

BATCH = 12
"""Events a batch."""

POINTS: list[tuple[str, Moment]] = [
    ("read", "before"),
    ("read", "after"),
    ("fold", "before"),
    ("fold", "in"),
    ("fold", "after"),
    ("create", "before"),
    ("create", "after"),
    ("add columns", "before"),
    ("add columns", "after"),
    ("merge", "before"),
    ("merge", "in"),
    ("merge", "after"),
    ("progress", "before"),
    ("progress", "in"),
    ("progress", "after"),
]


class Crash(BaseException):
    """The driver ends here."""


@dataclass
class CrashAt:
    """Ends the driver when it reaches a step for the ``nth`` time: by an exception, or by killing the process group ``kill``."""

    step: str
    moment: Moment
    nth: int = 1
    kill: int = 0
    times: int = 0
    reached_it: bool = False

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        if (step, moment) != (self.step, self.moment):
            return
        self.times += 1
        if self.times == self.nth or moment == "in":
            self.reached_it = True
            if self.kill:
                os.killpg(self.kill, signal.SIGKILL)
            raise Crash(f"{moment} {step} {what}")


def stream(blocks: int, *, per_column: int = 2, per_truncate: int = 4, per_table: int = 1) -> Iterator[Row]:
    """Blocks of events that update, insert, delete and move rows; a column and a truncate come every so many blocks, and every fifth block
    writes to a table that so many share.
    """
    for block in range(blocks):
        at = 100 + block * 20
        for number in range(3):
            key = (block + number) % 5
            yield event(
                "u", "a", {"id": key}, {"id": key, "n": block * 10 + number, f"c{block // per_column}": f"{block}"}, at=at + number
            )
        yield event("c", "b", {"id": block}, {"id": block, "large": "x" * 10 + str(block)}, at=at + 4)
        yield event("u", "b", {"id": block}, {"id": block, "large": "__debezium_unavailable_value"}, at=at + 5)
        if block:
            yield event("d", "b", {"id": block - 1}, before={"id": block - 1}, at=at + 6)
        if block % per_truncate == per_truncate - 1:
            yield event("t", "b", None, at=at + 7)
        if block % 5 == 4:
            yield event("c", f"new{block // per_table}", {"id": block}, {"id": block, "v": True}, at=at + 8)


def stored(lake: str) -> list[Message]:
    """What is in the topic."""
    with penstock.connect(lake, read_only=True) as opened, opened.reader(TOPIC) as reader:
        return [Message(one.queue, one.offset, one.body) for one in reader.messages()]


@dataclass
class Check:
    """Compares targets with the judge, row by row, as far as each says that it is."""

    into: Path
    messages: list[Message]
    tables: Mapping[str, Any] = field(default_factory=dict)

    def offsets(self, table: str) -> dict[int, int]:
        """How far a target says that it is."""
        path = self.into / table
        if not DeltaTable.is_deltatable(str(path)):
            return {}
        for commit in sorted(DeltaTable(str(path)).history(), key=lambda one: -one["version"]):
            if (found := decode_metadata(commit.get("userMetadata"))) is not None:
                return dict(found.progress.offsets)
        return {}

    def __call__(self, *, complete: bool = False) -> None:
        whole = Reference()
        whole.apply(self.messages)
        for schema, table in whole.tables:
            done = self.offsets(table)
            reference = Reference()
            reference.apply([one for one in self.messages if complete or one.offset < done.get(one.queue, 0)])
            state = reference.rows().get((schema, table), {})
            found = rows(self.into / table) if done else []
            names = {name for row in [*found, *state.values()] for name in row}
            assert {row["id"]: {name: row.get(name) for name in names} for row in found} == {
                key[0]: {name: row.get(name) for name in names} for key, row in state.items()
            }, (table, done)
            assert len(found) == len(state)

"""Points at which to end the driver of a sync, or the executors and workers under it; and a stream whose every few events need every step."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from penstock.cdc.sync.options import Moment, SyncSteps
from tests.cdc.sync.streams import Row, envelope, event, group_of, with_schema

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

Victims = Literal["executors", "workers"]
"""Executors in processes of their own, as a cluster has them; or the Python processes that work for one."""


class Crash(BaseException):
    """The driver ends here."""


@dataclass
class CrashAt:
    """Ends the driver when it reaches a step for the ``nth`` time: by an exception, or by killing the process group ``kill``.

    ``target``: only the step of this one counts.
    """

    step: str
    moment: Moment
    nth: int = 1
    kill: int = 0
    target: str = ""
    times: int = 0
    reached_it: bool = False

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        if (step, moment) != (self.step, self.moment) or self.target not in ("", what):
            return
        self.times += 1
        if self.times == self.nth or moment == "in":
            self.reached_it = True
            if self.kill:
                os.killpg(self.kill, signal.SIGKILL)
            raise Crash(f"{moment} {step} {what}")


@dataclass(frozen=True)
class Loss:
    """Kills what works for the driver when a step is reached, once, and leaves a file that says so in ``marks``; the driver goes on."""

    step: str
    moment: Moment
    victims: Victims
    marks: str

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        mark = Path(self.marks, f"{self.victims}: {moment} {step}")
        if (step, moment) != (self.step, self.moment) or mark.exists():
            return
        from pyspark import TaskContext

        if TaskContext.get() is not None:
            mark.touch()
            os.kill(os.getpid() if self.victims == "workers" else _executor_of(os.getpid()), signal.SIGKILL)
        elif kill_under(os.getpid(), self.victims):  # else they are not back yet from the last time
            mark.touch()


@dataclass(frozen=True)
class Done:
    """Writes down every batch that is done."""

    marks: str

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        if (step, moment) == ("progress", "after"):
            with Path(self.marks, DONE).open("a") as file:
                file.write("done\n")


DONE = "batches"


@dataclass(frozen=True)
class Each:
    """One after the other."""

    parts: Sequence[SyncSteps]

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        for part in self.parts:
            part.reached(step, moment, what)


def kill_under(driver: int, victims: Victims) -> int:
    """Kill all executors, or all Python workers, of a driver. How many there were."""
    word = {"executors": "CoarseGrainedExecutorBackend", "workers": "pyspark.daemon"}[victims]
    killed = 0
    for process in psutil.Process(driver).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if any(word in part for part in process.cmdline()):
                process.kill()
                killed += 1
    return killed


def _executor_of(worker: int) -> int:
    """The JVM for which a Python process works."""
    return next(parent.pid for parent in psutil.Process(worker).parents() if "java" in parent.name())


ASIDE_POINTS: list[tuple[str, Moment]] = [("set aside", "before"), ("set aside", "in"), ("set aside", "after")]
"""The points that only a sync with `with_spoilt` events reaches."""
COMPACT_POINTS: list[tuple[str, Moment]] = [("compact", "before"), ("compact", "after")]
"""No steps of the sync's own: a thread beside it comes to them."""

VERSIONED = "h"
"""The table of the stream whose history a target can keep: all its events are of one message group."""


TYPED: dict[str, Row] = {
    "id": {"type": "int64"},
    "large": {"type": "string"},
    "tags": {"type": "array", "items": {"type": "int64"}},
    "local": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
}
"""What the schema part of one table's events says."""


def grouped(one: Row) -> str:
    """By which message group an event of the stream goes."""
    return VERSIONED if envelope(one)["source"]["table"] == VERSIONED else group_of(one)


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
        one = {"id": block}
        row = {**one, "large": "x" * 10 + str(block), "tags": [block, None], "local": block}
        later = {**row, "large": "__debezium_unavailable_value", "tags": ["__debezium_unavailable_value"]}
        yield with_schema(event("c", "b", one, row, at=at + 4), **TYPED)
        yield with_schema(event("u", "b", one, later, at=at + 5), **TYPED)
        if block:
            gone = {"id": block - 1}
            yield with_schema(event("d", "b", gone, before=gone, at=at + 6), **TYPED)
        if block % per_truncate == per_truncate - 1:
            yield with_schema(event("t", "b", None, at=at + 7), **TYPED)
        if block % 5 == 4:
            yield event("c", f"new{block // per_table}", {"id": block}, {"id": block, "v": True}, at=at + 8)
        yield from _versions(block, at)


def with_spoilt(events: Iterable[Row], *, every: int) -> Iterator[Row]:
    """The same events, and behind every so many one that cannot be applied, of either kind: the fold finds it, or its target refuses it."""
    for number, one in enumerate(events, start=1):
        yield one
        if number % every == 0:
            turn = number // every
            table, key = ("a", VERSIONED)[turn % 2], {"id": turn % 4}
            row = {**key, "__mine": turn} if turn % 4 < 2 else None
            yield event("u", table, key, row, ts_ms=_ms(turn))  # without a position, as no truncate is to have removed it


def is_spoilt(value: Row) -> bool:
    """Whether an envelope is one of those."""
    return value["op"] == "u" and (value["after"] is None or "__mine" in value["after"])


def _versions(block: int, at: int) -> Iterator[Row]:
    """Two of a row; now and then another one ends, or all do."""
    key = {"id": block % 4}
    yield event("u", VERSIONED, key, {**key, "n": block, "large": f"x{block}"}, at=at + 9, ts_ms=_ms(at + 9))
    yield event("u", VERSIONED, key, {**key, "n": -block, "large": "__debezium_unavailable_value"}, at=at + 10, ts_ms=_ms(at + 10))
    if block % 3 == 2:
        other = {"id": (block - 1) % 4}
        yield event("d", VERSIONED, other, before=other, at=at + 11, ts_ms=_ms(at + 11))
    if block % 7 == 6:
        yield event("t", VERSIONED, None, at=at + 12, ts_ms=_ms(at + 12))


def _ms(at: int) -> int:
    return 1_795_177_000_000 + at

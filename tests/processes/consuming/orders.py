"""What the driver of a run did, as it did it: a JSON array a line, in a file beside the processes' records.

All that the judge has to know of a run is in files, so a run whose driver ended, too, can be judged. What is begun is written before it is
done, and how it ended after that: of what has no end the driver's own end came first.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from tests.processes.consuming.check import Reset, Skip
from tests.processes.consuming.disturbed import FULL, KILL, TABLE, Disturbed

NAME = "orders.jsonl"
"""The file, in the run's folder."""


class Order(StrEnum):
    """What the driver did."""

    RUN = "run"
    """It began: `Run`."""
    START = "start"
    """A process: its place."""
    BEGUN = "begun"
    """It troubles a process: the kind, which, and from when."""
    TROUBLE = "trouble"
    """The same, once it is over: until when, too."""
    ENDED = "ended"
    """A process that nobody killed: its place, and its exit code."""
    RESET = "reset"
    """It is about to: the group, the queue, the offset, and when."""
    SKIPPING = "skipping"
    """It is about to skip all that is parked: the group, and when."""
    SKIPPED = "skipped"
    """It has: the same, and the (queue, offset) of each."""
    RELEASING = "releasing"
    """It is about to release all that is parked: the group, and when."""
    DONE = "done"
    """Something was done: what, and how often."""
    DRAINED = "drained"
    """The run came to its end."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the judge has to know of how a run was set up."""

    workers: tuple[str, ...]
    producers: tuple[str, ...]
    groups: tuple[str, ...]
    """That consume."""
    queues: int
    lease_s: float
    parks: bool
    killers: tuple[str, ...]
    """Messages that end their processes."""
    in_sqlite: bool
    throttled: bool


class Orders:
    """The file as the driver writes it. Each line is one write."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, order: Order, *values: object) -> None:
        os.write(self._file, json.dumps([order, *values], separators=(",", ":")).encode() + b"\n")

    def run(self, run: Run) -> None:
        """How it is set up."""
        self.write(Order.RUN, asdict(run))

    def begun(self, kind: str, process: str, from_s: float) -> None:
        """It is about to trouble a process; "" for all of them."""
        self.write(Order.BEGUN, kind, process, from_s)

    def over(self, trouble: Disturbed) -> None:
        """What was begun."""
        self.write(Order.TROUBLE, *trouble)

    def close(self) -> None:
        os.close(self._file)


class _Begun(NamedTuple):
    kind: str
    process: str
    from_s: float


@dataclass(kw_only=True)
class Course:
    """What is known of a run."""

    folder: Path
    run: Run
    starts: Counter[str] = field(default_factory=Counter)
    """Of each place."""
    ended: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """How processes of a place ended that nobody killed."""
    disturbed: list[Disturbed] = field(default_factory=list)
    """Of processes, but for what was done to all of them."""
    of_all: list[Disturbed] = field(default_factory=list)
    """What was done to all processes at once: the disk was full, or the table of cells did not answer."""
    resets: list[Reset] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    drained: bool = False

    def journals(self) -> list[Path]:
        """What workers wrote."""
        return sorted(self.folder.glob("worker-*.jsonl"))

    def complaints(self) -> str:
        """What processes wrote that went wrong in a way nobody foresaw."""
        paths = [self.folder / f"{name}.err" for name in (*self.run.workers, *self.run.producers)]
        return "".join(path.read_text() for path in paths if path.exists())


def read_orders(folder: Path) -> Course:
    """What the file in a run's folder says. Raises `AssertionError` where no run was begun."""
    course: Course | None = None
    begun: dict[_Begun, None] = {}
    skipping: list[tuple[str, float]] = []
    for order, values in _lines(folder / NAME):
        if order is Order.RUN:
            course = Course(folder=folder, run=_run_of(values[0]))
            continue
        assert course is not None, "a run begins with how it is set up"
        match order:
            case Order.START:
                course.starts[values[0]] += 1
            case Order.BEGUN:
                begun[_Begun(*values)] = None
            case Order.TROUBLE:
                trouble = Disturbed(*values)
                del begun[_Begun(trouble.kind, trouble.process, trouble.from_s)]
                _note(course, trouble)
            case Order.ENDED:
                course.ended[values[0]].add(values[1])
            case Order.RESET:
                course.resets.append(Reset(*values))
            case Order.SKIPPING:
                skipping.append((values[0], values[1]))
            case Order.SKIPPED:
                group, at_s, places = values
                skipping.remove((group, at_s))
                course.skips += [Skip(group, queue, offset, at_s) for queue, offset in places]
            case Order.DONE:
                course.done[values[0]] += values[1]
            case Order.DRAINED:
                course.drained = True
    assert course is not None, f"there is no run in {folder}"
    course.skips += [Skip(group, None, None, at_s) for group, at_s in skipping]
    for one in begun:
        # Of a kill that was not seen to its end, the last that the process wrote tells as much as of any other that died.
        if one.kind != KILL:
            _note(course, Disturbed(*one, math.inf))
    return course


def _note(course: Course, trouble: Disturbed) -> None:
    if trouble.kind in (FULL, TABLE):
        course.of_all.append(trouble)
    else:
        course.disturbed.append(trouble)


def _run_of(values: dict[str, Any]) -> Run:
    whole: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return Run(**whole)


def _lines(path: Path) -> Iterator[tuple[Order, list[Any]]]:
    """All complete lines of the file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        while (line := file.readline()).endswith(b"\n"):
            order, *values = json.loads(line)
            yield Order(order), values

"""What every process of a run writes down, in a file of its own: a JSON array a line. All clocks are of one machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from penstock.log import MessageView


class What(StrEnum):
    """What happened."""

    START = "start"
    """A handler was called."""
    OK = "ok"
    """It is about to answer SUCCESS."""
    LATE = "late"
    """What it answered was refused: it had had its time."""
    FAIL = "fail"
    """It is about to fail, in one way or another."""
    REJECT = "reject"
    """It is about to say that the message can never succeed."""
    UP = "up"
    """The process has joined its groups."""
    DRAIN = "drain"
    """It was told to end."""
    DOWN = "down"
    """It has left in order."""
    ENDED = "ended"
    """It gave up by itself, for a reason that may pass."""
    SAID = "said"
    """It logged a warning, or worse."""


class Handled(NamedTuple):
    """A handler's start, or its end."""

    what: What
    at_s: float
    """By the machine's monotonic clock."""
    wall_s: float
    group: str
    """The consumer group."""
    topic: str
    queue: int
    offset: int
    attempt: int
    epoch: int
    message_group: str
    body: str
    process: str = ""
    """Which wrote it: the name of its file, ``place.start``."""


class Noted(NamedTuple):
    """Something of a process as a whole."""

    what: What
    at_s: float
    text: str
    process: str


class Journal:
    """The file of one process. Each line is one write, so a process that is killed leaves whole lines, and perhaps a part of one."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def handled(self, what: What, group: str, message: MessageView) -> None:
        """Write of a message."""
        self._write(
            what,
            time.monotonic(),
            time.time(),
            group,
            message.topic,
            message.queue,
            message.offset,
            message.delivery_attempt,
            message.epoch,
            message.message_group,
            message.body.decode(),
        )

    def note(self, what: What, text: str = "") -> None:
        """Write of the process."""
        self._write(what, time.monotonic(), text)

    def _write(self, *values: object) -> None:
        os.write(self._file, json.dumps(values, separators=(",", ":")).encode() + b"\n")


def read_records(path: Path) -> Iterator[Handled | Noted]:
    """All complete lines of a file."""
    with path.open("rb") as file:
        yield from records_of(file, path.stem)


def records_of(file: BinaryIO, process: str) -> Iterator[Handled | Noted]:
    """All complete lines from where it stands. It stands behind each one when that is given."""
    while (line := file.readline()).endswith(b"\n"):
        what, *values = json.loads(line)
        if len(values) == 2:
            at_s, text = values
            yield Noted(What(what), at_s, text, process)
        else:
            yield Handled._make((What(what), *values, process))

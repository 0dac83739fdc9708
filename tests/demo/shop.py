"""A few rows of the shipped capture with all their events, whole in its form, and the dumps that a plain-Python run of it gives."""

from __future__ import annotations

import csv
import itertools
import json
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from examples.demo import shipped
from examples.demo.checks.capture import event_of

_LINES = 8_000
_ONE_ROW_IN = 26


@cache
def lines() -> list[bytes]:
    """Of three tables, with updates and deletes among them."""
    first = itertools.islice(shipped.unpacked(shipped.PACKED.read_bytes()), _LINES)
    return [line for line in first if zlib.crc32("".join(event_of(line).row).encode()) % _ONE_ROW_IN == 0]


def last_update(events: Sequence[bytes]) -> int:
    """Where the last event of some row stands that is an update; what it says is what the table must say."""
    last = {event_of(line).row: at for at, line in enumerate(events)}
    return next(at for at in sorted(last.values()) if json.loads(events[at])["value"]["op"] == "u")


def before(events: Sequence[bytes], at: int) -> int:
    """Where the event before this one of the same row stands."""
    row = event_of(events[at]).row
    return max(place for place in range(at) if event_of(events[place]).row == row)


def write_capture(folder: Path, events: Sequence[bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "events.jsonl"
    file.write_bytes(b"\n".join(events) + b"\n")
    return file


def write_dumps(folder: Path, events: Sequence[bytes]) -> Path:
    """``<table>.csv`` as the source would have dumped it after these events."""
    rows = {}
    for line in events:
        event = json.loads(line)["value"]
        rows[event_of(line).row] = event["after"]
    folder.mkdir(parents=True, exist_ok=True)
    for table in {table for table, _ in rows}:
        alive = [row for (of, _), row in rows.items() if of == table and row is not None]
        with (folder / f"{table}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(alive[0]))
            writer.writeheader()
            writer.writerows(alive)
    return folder

"""Reading a capture and its results, for the checks. Shares no code with the producer and the applier of the events, but how Delta tables
are read.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from penstock.cdc.delta import reader
from penstock.cdc.delta.location import Location
from penstock.log.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa

Row: TypeAlias = dict[str, Any]
Position: TypeAlias = tuple[str, int, int]
"""The place of an event in the source: its log sequence, its transaction, its number in it. Unique."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the capture, or of the topic."""

    position: Position
    row: tuple[str, str]
    """The table, and the key as JSON."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Dump:
    """A table as the source held it after the last event; values are text."""

    table: str
    rows: list[Row]
    """The rows. An empty field is None: NULL, as a dump cannot say otherwise."""


def event_of(body: bytes) -> Event:
    """Read one event. Raises `InvalidArgument` when it is not of this form."""
    try:
        event = json.loads(body)
        source = event["value"]["source"]
        position = source["sequence"], source["txId"], event["value"]["transaction"]["total_order"]
        return Event(position, (source["table"], json.dumps(event["key"], sort_keys=True)), body)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidArgument(
            "this is no event of the capture's form", operation="check", observed=repr(body[:80]), expected="a change event"
        ) from error


def read_events(file: Path) -> Iterator[Event]:
    """The events of a JSON lines file, plain or gzip, in its order."""
    with _opened(file) as lines:
        for line in lines:
            if stripped := line.strip():
                yield event_of(stripped)


def count_events(file: Path) -> int:
    """The number of events in a JSON lines file."""
    with _opened(file) as lines:
        return sum(1 for line in lines if line.strip())


def key_columns(events: Iterable[Event]) -> dict[str, tuple[str, ...]]:
    """The key columns of every table that has events."""
    return {table: tuple(json.loads(key)) for table, key in {event.row[0]: event.row[1] for event in events}.items()}


def read_dumps(folder: Path) -> list[Dump]:
    """Every ``<table>.csv`` and ``<table>.csv.gz`` of a folder. Raises `InvalidArgument` when there is none."""
    files = sorted(file for file in folder.iterdir() if file.name.endswith((".csv", ".csv.gz")))
    if not files:
        raise InvalidArgument(
            "there is nothing to compare with", operation="read dumps", object=str(folder), expected="<table>.csv"
        )
    return [Dump(file.name.partition(".csv")[0], _read_csv(file)) for file in files]


def query_table(url: str, query: str, storage_options: Mapping[str, str] | None = None) -> pa.Table | None:
    """The result of a query in the Delta table at ``url``, which it calls ``t``; read without Spark. None where there is no table."""
    table = reader.open_table(Location(url, storage_options or {}))
    return None if table is None else reader.query(table, query).read_all()


def column_types(url: str, storage_options: Mapping[str, str] | None = None) -> dict[str, str]:
    """The types of a Delta table's columns as Delta calls them, without the sync's own. An absent table has none."""
    table = reader.open_table(Location(url, storage_options or {}))
    fields = () if table is None else table.schema().fields
    return {one.name: str(getattr(one.type, "type", one.type)) for one in fields if not one.name.startswith("__")}


def _read_csv(file: Path) -> list[Row]:
    with _opened(file) as lines, io.TextIOWrapper(lines, encoding="utf-8", newline="") as text:
        return [{name: value or None for name, value in row.items()} for row in csv.DictReader(text, strict=True)]


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    with file.open("rb") as raw:
        if not file.name.endswith(".gz"):
            yield raw
            return
        with gzip.GzipFile(fileobj=raw) as plain:
            yield cast("BinaryIO", plain)

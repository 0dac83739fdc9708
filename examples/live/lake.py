"""Where the lake lies, and what it has: events in the topic, the tables' newest versions, and the tables of a cut."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import deltalake
import pyarrow as pa
from deltalake.exceptions import TableNotFoundError

import penstock

from .books import TABLES, Row, Rows
from .errors import DemoFailedError

TOPIC = "shop"


@dataclass(frozen=True)
class TablesAtCut:
    """All tables as a cut has them."""

    number: int
    place: str
    """In the source's log."""
    committed_s: float | None
    """When the source committed the newest change that is in it."""
    rows: Rows


def new_folder(folder: Path) -> Path:
    """A folder that is there, and empty. Raises `DemoFailedError`."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise DemoFailedError(f"there is something in {folder}: --lake takes a new folder, as each run has a database of its own")
    return folder


def at_cut(into: Path, which: int | Literal["latest"] = "latest") -> TablesAtCut | None:
    """The tables of a cut; None while there is no cut with all of them."""
    try:
        found = penstock.at_cut(into, which)
    except penstock.NoCut:
        return None
    if found.keys() < TABLES.keys():
        return None
    [place] = found.cut.places.values()  # of the one capture
    us = found.cut.source_us
    rows = {name: _rows(name, found[name]) for name in TABLES}
    return TablesAtCut(found.cut.number, place, None if us is None else us / 1_000_000, rows)


def newest(into: Path) -> Rows | None:
    """The newest version of each table, one read after the other, as whoever knows no cuts reads them; None until all are there."""
    try:
        return {name: _rows(name, _read(deltalake.DeltaTable(into / name))) for name in TABLES}
    except TableNotFoundError:
        return None


def events(lake: penstock.Lake) -> int:
    """How many events the topic has."""
    if TOPIC not in lake.topics():
        return 0
    with lake.reader(TOPIC) as reader:
        return sum(end for _, end in reader.offsets().values())


def _read(table: deltalake.DeltaTable) -> pa.Table:
    """All rows, by deltalake's own engine: its `to_pyarrow_table` shows NULL in columns whose names Spark has mapped."""
    return pa.table(deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all())


def _rows(name: str, table: pa.Table) -> list[Row]:
    return [*zip(*(table[column].to_pylist() for column in TABLES[name].columns), strict=True)]

"""The record of a lake's coordination table: which one it is, and a move to another. Pure.

A table is the one in which a random id was written first, not its URL: a file has several paths, and a table under the same URL may be made again.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from ...log.format.stored_json import StoredForm, TimeMs, parse_stored
from ..tables.protocol import CoordinationMismatch

IN_LAKE = "store"
"""The id of the lake's own store as its table."""
FORMAT = 1
_ID_SHOWN_CHARS = 8
_Text = Annotated[str, Meta(min_length=1, max_length=4_096)]


class TableIdentity(StoredForm, frozen=True, kw_only=True):
    """A table as one lake knows it."""

    id: _Text
    """The write id of its first cell, or `IN_LAKE`."""
    url: _Text
    """What people and commands name it by; without secrets."""
    name: _Text | None = None
    """A name that no other table has, where the service gives one: so a copy that was restored beside the original is told from it."""


class Move(StoredForm, frozen=True, kw_only=True):
    """A move on its way. Any process that writes to the former table gives it up."""

    id: _Text
    to: TableIdentity


class TableRecord(StoredForm, frozen=True, kw_only=True):
    """What a lake says of its table."""

    table: TableIdentity
    since_ms: TimeMs
    former: TableIdentity | None = None
    """The table from which the cells were moved."""
    move: Move | None = None
    format: int = FORMAT

    def stayed(self) -> TableRecord:
        return replace(self, move=None)

    def is_moving(self, move: str) -> bool:
        return self.move is not None and self.move.id == move


class OwnTable(Struct, frozen=True, kw_only=True):
    """The table that a process was told to use."""

    url: str
    in_lake: bool = False
    lasting: bool = True
    """Whether it outlives the process. Others are never recorded."""
    name: str | None = None


def encode_record(record: TableRecord | None) -> bytes:
    return json.dumps(to_builtins(record), separators=(",", ":")).encode()


def decode_record(data: bytes, *, where: str) -> TableRecord | None:
    """Raises `DataDamaged` and `NewerFormatError`."""
    return parse_stored(data, TableRecord, what="the record of a lake's coordination table", where=where)


def mismatch(record: TableRecord, own: OwnTable, own_id: str | None, *, lake: str) -> CoordinationMismatch | None:
    """The error for a process whose table is not the recorded one. ``own_id``: None while nothing was written there."""
    table = record.table
    if own_id == table.id and (own.name is None or table.name is None or own.name == table.name):
        return None
    message = "the lake's consumer groups are in another coordination table"
    hint = "name that table (coordination=, --coordination or PENSTOCK_COORDINATION)"
    move = f"; or move the groups into this one: penstock coordination move --from {table.url} --to {own.url}"
    adopt = "or begin with the table as it is, all processes stopped: penstock coordination adopt"
    if own_id == table.id:
        message = "the coordination table is a copy of the lake's"
        hint = f"name the lake's table, {adopt}"
    elif own.url == table.url or (own.name is not None and own.name == table.name):
        message = "the lake's coordination table was lost, or made again under the same URL"
        hint = f"put its backup back, {adopt}"
    elif record.former is not None and own_id == record.former.id:
        message = "the lake's consumer groups were moved into another coordination table"
    elif own.lasting:
        hint += move
    return CoordinationMismatch(
        message,
        operation="coordinate",
        object=lake,
        expected=shown_record(record),
        observed=shown_table(own.url, own_id),
        hint=hint,
    )


def shown_record(record: TableRecord) -> str:
    since = datetime.fromtimestamp(record.since_ms / 1000, UTC)
    return f"{record.table.url} (table {record.table.id[:_ID_SHOWN_CHARS]}, recorded {since:%Y-%m-%d %H:%M} UTC)"


def shown_table(url: str, table: str | None) -> str:
    return f"{url} ({'nothing written yet' if table is None else f'table {table[:_ID_SHOWN_CHARS]}'})"

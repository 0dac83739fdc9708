"""Messages of PostgreSQL's plugin pgoutput, protocol version 1, with values as text, from bytes.

A transaction comes whole, in the order of commits: `Begin`, its changes, `Commit`. A `Relation` with its columns comes before a
table's first change, and after the table was altered.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from ...log.errors import DataDamaged

PROTOCOL_VERSION = 1
EPOCH_US = 946_684_800_000_000
"""The Unix time of PostgreSQL's epoch, the year 2000, in microseconds."""

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_COLUMN = struct.Struct(">Ii")
_U32 = struct.Struct(">I")
_U16 = struct.Struct(">H")


class UnchangedToast(Enum):
    """The value of a large column that an update left alone, and the server does not send."""

    UNCHANGED = "unchanged"


UNCHANGED = UnchangedToast.UNCHANGED
Value: TypeAlias = str | UnchangedToast | None
"""The value of a column: the output function's text, NULL, or not sent."""
Row: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins."""

    commit_lsn: int
    """The place of its commit in the write-ahead log: above all transactions before."""
    committed_us: int
    transaction: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction ends."""

    commit_lsn: int
    end_lsn: int
    """The place before all later commits."""
    committed_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """One column of a relation."""

    name: str
    type_oid: int
    is_key: bool
    """Whether it is in the replica identity: every column is with REPLICA IDENTITY FULL."""
    modifier: int = -1
    """The type's modifier, such as a numeric's precision and scale; -1: none."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table from here on."""

    oid: int
    schema: str
    table: str
    identity: str
    """d(efault: the primary key), i(ndex), f(ull) or n(othing)."""
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    """A row is new."""

    relation: int
    row: Row


class Update(NamedTuple):
    """A row has changed."""

    relation: int
    key: Row | None
    """The old identity's columns, the others NULL; only if one changed."""
    old: Row | None
    """The whole old row; only with REPLICA IDENTITY FULL."""
    row: Row


class Delete(NamedTuple):
    """A row is gone; ``key`` or ``old`` is there."""

    relation: int
    key: Row | None
    old: Row | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables were emptied."""

    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """An application's message in the log (`pg_logical_emit_message`)."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class OtherMessage:
    """A message without rows, such as a transaction's origin or a type's name."""

    kind: str


Message: TypeAlias = Begin | Commit | Relation | Insert | Update | Delete | Truncate | LogicalMessage | OtherMessage


def decode(data: bytes) -> Message:
    """One message of the plugin. Raises `DataDamaged` for one outside the protocol."""
    try:
        return _decode(data)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise DataDamaged(
            "the source sent what pgoutput's protocol does not know",
            expected=f"messages of version {PROTOCOL_VERSION}, in UTF-8",
            observed=f"{data[:16].hex()}… of {len(data)} bytes: {error}",
        ) from error


def _decode(data: bytes) -> Message:
    match data[:1]:
        case b"I":
            return Insert(_u32(data, 1), _row(data, 6)[0])
        case b"U":
            return _update(data)
        case b"D":
            row = _row(data, 6)[0]
            return Delete(_u32(data, 1), *((row, None) if data[5:6] == b"K" else (None, row)))
        case b"B":
            commit_lsn, committed_us, transaction = _BEGIN.unpack_from(data, 1)
            return Begin(commit_lsn, committed_us + EPOCH_US, transaction)
        case b"C":
            _, commit_lsn, end_lsn, committed_us = _COMMIT.unpack_from(data, 1)
            return Commit(commit_lsn, end_lsn, committed_us + EPOCH_US)
        case b"R":
            return _relation(data)
        case b"T":
            return Truncate(struct.unpack_from(f">{_u32(data, 1)}I", data, 6))
        case b"M":
            lsn = struct.unpack_from(">Q", data, 2)[0]
            prefix, place = _text(data, 10)
            content = data[place + 4 :]
            if len(content) != _u32(data, place):
                raise IndexError("a message's content is cut short")
            return LogicalMessage(bool(data[1] & 1), lsn, prefix, content)
        case b"O":
            return OtherMessage("origin")
        case b"Y":
            return OtherMessage("type")
    raise IndexError(f"no message begins with {data[:1]!r}")


def _update(data: bytes) -> Update:
    relation, mark, place = _u32(data, 1), data[5:6], 6
    key = old = None
    if mark == b"K":
        key, place = _row(data, place)
    elif mark == b"O":
        old, place = _row(data, place)
    if mark != b"N":
        mark, place = data[place : place + 1], place + 1
    if mark != b"N":
        raise IndexError(f"an update has no new row, but {mark!r}")
    return Update(relation, key, old, _row(data, place)[0])


def _relation(data: bytes) -> Relation:
    schema, place = _text(data, 5)
    table, place = _text(data, place)
    identity = chr(data[place])
    count = _U16.unpack_from(data, place + 1)[0]
    place += 3
    columns = []
    for _ in range(count):
        is_key = bool(data[place] & 1)
        name, place = _text(data, place + 1)
        type_oid, modifier = _COLUMN.unpack_from(data, place)
        place += 8
        columns.append(RelationColumn(name, type_oid, is_key, modifier))
    # The namespace pg_catalog is written as an empty name.
    return Relation(_u32(data, 1), schema or "pg_catalog", table, identity, tuple(columns))


def _row(data: bytes, place: int) -> tuple[Row, int]:
    count = _U16.unpack_from(data, place)[0]
    place += 2
    values: list[Value] = []
    for _ in range(count):
        kind = data[place]
        place += 1
        if kind == 0x74:  # t(ext)
            end = place + 4 + _U32.unpack_from(data, place)[0]
            if end > len(data):
                raise IndexError("a value ends behind its message")
            values.append(data[place + 4 : end].decode())
            place = end
        elif kind == 0x6E:  # n(ull)
            values.append(None)
        elif kind == 0x75:  # u(nchanged)
            values.append(UNCHANGED)
        else:
            raise IndexError(f"no value is of kind {kind:#x}")
    return tuple(values), place


def _text(data: bytes, place: int) -> tuple[str, int]:
    end = data.find(b"\0", place)
    if end < 0:
        raise IndexError("a name does not end")
    return data[place:end].decode(), end + 1


def _u32(data: bytes, place: int) -> int:
    number: int = _U32.unpack_from(data, place)[0]
    return number

"""Change events in Debezium's envelope, as its connectors and its many exporters write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..log.errors import InvalidArgument

_OPERATIONS = ("c", "u", "d", "r", "t", "m")
_TOTAL_ORDER_BITS = 20
_MYSQL_POSITION_BITS, _MYSQL_ROW_BITS = 32, 12


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one row; or a truncate of a table, or a message that an application wrote into the source's log."""

    table: str
    """Of a message, its prefix."""
    schema: str | None
    """The schema (Postgres), or the database (MySQL)."""
    op: str
    """c(reate), u(pdate), d(elete), r(ead by a snapshot), t(runcate) or m(essage)."""
    key: Mapping[str, Any]
    """Columns of the primary key; empty when the capture has none."""
    row: Mapping[str, Any]
    """The row after the change; before it for a delete."""
    position: int | None
    """Where the source's log has it: increasing along the stream, below 2**63. None when the event does not say enough."""


def parse_change(event: object) -> Change | None:
    """Read one event: ``{"key": …, "value": envelope}`` or the envelope alone, each with or without the schema/payload wrapper.

    None for a tombstone, which says nothing that the delete before it did not. Raises `InvalidArgument` for anything else.
    """
    outer = _payload(event)
    key: object = {}
    if isinstance(outer, dict) and "value" in outer and "op" not in outer:
        key, outer = _payload(outer.get("key")) or {}, _payload(outer["value"])
    if outer is None:
        return None
    envelope = _fields(outer)
    source, op = envelope.get("source"), envelope.get("op")
    if not isinstance(source, dict) or op not in _OPERATIONS:
        raise InvalidArgument(
            "this is no Debezium envelope", expected="an object with source and op", observed=f"fields {sorted(envelope)[:8]}"
        )
    table = source.get("table")
    if op == "m":  # of no table
        table = table or _fields(envelope.get("message") or {}).get("prefix")
    if not isinstance(table, str):
        raise InvalidArgument("the event does not name its table", expected="source.table", observed=repr(table))
    return Change(
        table=table,
        schema=source.get("schema") or source.get("db"),
        op=op,
        key=_fields(key),
        row=_fields(envelope.get("after") or envelope.get("before") or {}),
        position=position_of(source, envelope.get("transaction")),
    )


def position_of(source: Mapping[str, Any], transaction: object) -> int | None:
    """The source's position as one number below 2**63 that increases along the stream; None when it does not fit or is not there.

    - Postgres: the commit's LSN, then the event's number within its transaction (connectors write it when
      ``provide.transaction.metadata`` is on). The event's own LSN would not do: transactions run side by side, so it goes
      back and forth along the stream. Room for 64 TiB of log and a million events a transaction.
    - MySQL: the binlog's number, position and row.
    """
    try:
        if "sequence" in source and isinstance(transaction, dict):
            commit_lsn = int(json.loads(source["sequence"])[0] or 0)
            # Log records are aligned to 8 bytes, so the low bits tell no two commits apart.
            return _packed((commit_lsn >> 3, 63 - _TOTAL_ORDER_BITS), (int(transaction["total_order"]), _TOTAL_ORDER_BITS))
        if (file := re.search(r"(\d+)$", source.get("file") or "")) and source.get("pos") is not None:
            return _packed(
                (int(file[1]), 63 - _MYSQL_POSITION_BITS - _MYSQL_ROW_BITS),
                (int(source["pos"]), _MYSQL_POSITION_BITS),
                (int(source.get("row") or 0), _MYSQL_ROW_BITS),
            )
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    return None


def _packed(*parts: tuple[int, int]) -> int | None:
    packed = 0
    for number, bits in parts:
        if not 0 <= number < 1 << bits:
            return None
        packed = packed << bits | number
    return packed


def _payload(value: object) -> object:
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


def _fields(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument("this is no Debezium envelope", expected="a JSON object", observed=type(value).__name__)
    return value

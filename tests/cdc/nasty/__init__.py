"""A nasty change stream made by hand, and what its tables must hold in the end.

`stream.jsonl` has one message a line, with its batch and queue and why it is there; `expected.json` the tables. What would be long by hand
(1,000 updates of one row, 300 columns) is made here.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.cdc.reference import Key, Message, Values

_FOLDER = Path(__file__).parent
_UPDATES, _COLUMNS = 1000, 300

DECLARED = {"ledger_text": {"id": "bigint", "amount": "decimal(38,0)", "at": "timestamp"}}
"""What the user of the sync declares."""


def batches() -> list[list[Message]]:
    """The stream, in batches; offsets are dense in each queue."""
    lines = [json.loads(line) for line in (_FOLDER / "stream.jsonl").read_text().splitlines()] + _many_updates() + _wide_rows()
    lines.sort(key=lambda line: line["batch"])
    offsets: dict[int, int] = {}
    cut: dict[int, list[Message]] = {}
    for line in lines:
        offset = offsets.setdefault(line["queue"], 0)
        offsets[line["queue"]] += 1
        body = json.dumps(line["event"], ensure_ascii=False).encode()
        cut.setdefault(line["batch"], []).append(Message(line["queue"], offset, body))
    return list(cut.values())


def expected() -> dict[str, dict[Key, Values]]:
    """The tables in the end: rows by key, every column named."""
    tables: dict[str, dict[Key, Values]] = {
        "counter": {(1,): {"id": 1, "n": _UPDATES, "largest": _UPDATES // 2}},
        "wide": {(n,): {"id": n} | {f"column_{c}": _wide(n, c) for c in range(_COLUMNS)} for n in range(3)},
    }
    for name, table in json.loads((_FOLDER / "expected.json").read_text()).items():
        types = table["types"]
        rows = [{c: _typed(value, types[c]) for c, value in zip(types, row, strict=True)} for row in table["rows"]]
        tables[name] = {tuple(row[column] for column in table["key"]): row for row in rows}
        assert len(tables[name]) == len(rows)
    return tables


def _typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    match kind.partition("(")[0]:
        case "hex":
            return bytes.fromhex(value)
        case "decimal":
            return Decimal(value)
        case "timestamp" | "timestamp_ntz":
            return datetime.fromisoformat(value)
        case "date":
            return date.fromisoformat(value)
        case _:
            return value


def _event(table: str, op: str, number: int, after: Values) -> dict[str, Any]:
    lsn = 8 * (1000 + number)
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "sequence": f'["{lsn}", "{lsn}"]'}
    transaction = {"id": str(lsn), "total_order": 1, "data_collection_order": 1}
    value = {"op": op, "before": None, "after": after, "source": source, "transaction": transaction}
    return {"key": {"id": after["id"]}, "value": value}


def _many_updates() -> list[dict[str, Any]]:
    """One row, updated again and again; its large column was set half-way and is not told any more."""
    told = []
    for n in range(_UPDATES + 1):
        largest: Any = n if n <= _UPDATES // 2 else "__debezium_unavailable_value"
        event = _event("counter", "u" if n else "c", n, {"id": 1, "n": n, "largest": largest})
        told.append({"batch": 1 + 3 * n // (_UPDATES + 1), "queue": 1, "event": event})
    return told


def _wide_rows() -> list[dict[str, Any]]:
    return [
        {
            "batch": 1,
            "queue": 0,
            "event": _event("wide", "c", n, {"id": n} | {f"column_{c}": _wide(n, c) for c in range(_COLUMNS)}),
        }
        for n in range(3)
    ]


def _wide(row: int, column: int) -> Any:
    return None if (row + column) % 7 == 0 else f"{row}/{column}" if column % 2 else row * column

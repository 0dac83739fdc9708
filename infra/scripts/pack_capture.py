#!/usr/bin/env python
"""Pack a capture of change events for the demo: `infra/scripts/pack_capture.py events.jsonl.gz`. It writes examples/demo/data/events.xz.

The capture must have the shipped one's form. The packed file is unpacked and compared, byte for byte.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from examples.demo.shipped import EPOCH, PACKED, STEPS, unpacked  # noqa: E402

VARYING = ("ts_ms", "sequence", "table", "txId", "lsn")
"""The fields of an event's source that columns have; the others are alike in all events."""


def pack(lines: Iterable[bytes]) -> bytes:
    """The packed form of events in Debezium's envelope."""
    events = [json.loads(line) for line in lines]
    columns: dict[str, list[Any]] = defaultdict(list)
    tables: dict[str, dict[str, Any]] = {}
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    last = None
    for event in events:
        value, source = event["value"], event["value"]["source"]
        name, begins = source["table"], source["txId"] != last
        last = source["txId"]
        if name not in tables:
            tables[name] = _table(event, len(tables))
        table = tables[name]
        table["shows_before"] |= value["before"] is not None
        columns["begins"].append(int(begins))
        if begins:
            columns["transaction"].append(source["txId"])
            columns["commit"].append(int(json.loads(source["sequence"])[0]))
            columns["commit_ms"].append(source["ts_ms"])
        columns["table"].append(table["number"])
        columns["op"].append(value["op"])
        columns["lsn"].append(source["lsn"])
        columns["late_ms"].append(value["ts_ms"] - source["ts_ms"])
        _add_row(columns, table, event, rows)
    for name in STEPS:
        columns[name] = _steps(columns[name])
    source = events[0]["value"]["source"]
    document = {
        "source": {name: value for name, value in source.items() if name not in VARYING},
        "source_fields": list(source),
        "tables": list(tables.values()),
        "columns": columns,
    }
    return lzma.compress(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(), preset=9)


def _table(event: dict[str, Any], number: int) -> dict[str, Any]:
    row = event["value"]["after"]
    return {
        "name": event["value"]["source"]["table"],
        "number": number,
        "topic": event["topic"],
        "key": list(event["key"]),
        "columns": list(row),
        "times": [name for name in row if name.endswith("_at")],
        "shows_before": False,
    }


def _add_row(
    columns: dict[str, list[Any]], table: dict[str, Any], event: dict[str, Any], rows: dict[tuple[object, ...], dict[str, Any]]
) -> None:
    name, op, row = table["name"], event["value"]["op"], event["value"]["after"]
    if op != "c":
        for part, value in event["key"].items():
            columns[f"key {name} {part}"].append(value)
    before = rows.pop((name, *event["key"].values()), {})
    if row is None:
        return
    rows[name, *event["key"].values()] = row
    changed = 0
    for number, (column, value) in enumerate(row.items()):
        if column in before and before[column] == value:
            continue
        changed |= 1 << number
        if column not in table["times"]:
            columns[f"{name} {column}"].append(value)
            continue
        as_created = column != "created_at" and row.get("created_at") == value
        columns[f"{name} {column}"].append(int(as_created))
        if not as_created:
            columns["time_us"].append((datetime.fromisoformat(value) - EPOCH) // timedelta(microseconds=1))
    columns[f"changed {name}"].append(changed)


def _steps(values: Sequence[int]) -> list[int]:
    return [value - before for before, value in zip([0, *values], values, strict=False)]


def main() -> int:
    raw = Path(sys.argv[1]).read_bytes()
    lines = (gzip.decompress(raw) if sys.argv[1].endswith(".gz") else raw).splitlines()
    packed = pack(lines)
    if list(unpacked(packed)) != lines:
        raise SystemExit("What was unpacked is not what was packed: the capture has another form.")
    PACKED.write_bytes(packed)
    print(f"{PACKED}: {len(lines):,} events in {len(packed):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

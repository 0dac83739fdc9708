"""The change events that Penstock ships for the demo, packed to a seventh of what gzip would make of them.

A change says most things twice, and the changes before it have said most of the rest. ``data/events.xz`` has what each event adds, in columns:
the values that changed, and steps from the position and the time before. What comes out is the capture, byte for byte.
`infra/scripts/pack_capture.py` packs one.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

from penstock.log.errors import InvalidArgument

from .tables import SHOP_TYPES

DATA = Path(__file__).parent / "data"
"""The shop's change events and dumps."""
PACKED = DATA / "events.xz"
STEPS = ("transaction", "commit", "commit_ms", "lsn", "time_us")
"""Columns that have the difference to the value before."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def events_file() -> Path:
    """The shipped change events as JSON lines, which name the types of their columns. The first call unpacks them into Penstock's cache.
    Raises `InvalidArgument` if it cannot.
    """
    packed, types = PACKED.read_bytes(), {one.table: one.name for one in SHOP_TYPES}
    cache = Path(os.environ.get("PENSTOCK_CACHE") or "~/.cache/penstock").expanduser()
    file = cache / "demo" / hashlib.sha256(packed + repr(types).encode()).hexdigest()[:12] / "events.jsonl.gz"
    if not file.exists():
        try:
            _unpack(packed, types, file)
        except OSError as error:
            raise InvalidArgument(
                "the demo's change events cannot be unpacked",
                operation="unpack",
                object=str(cache),
                observed=str(error),
                hint="set PENSTOCK_CACHE to a folder that may be written, with 5 MB free",
            ) from error
    return file


def _unpack(packed: bytes, types: Mapping[str, str], file: Path) -> None:
    """Unpack into a file, which appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        unfinished = Path(scratch) / file.name
        with gzip.open(unfinished, "wb", compresslevel=1) as lines:
            lines.writelines(line + b"\n" for line in unpacked(packed, types))
        unfinished.replace(file)


def unpacked(packed: bytes, types: Mapping[str, str] | None = None) -> Iterator[bytes]:
    """The lines of a packed capture. ``types``: the names of the types of columns by table, which events are to have besides."""
    document = json.loads(lzma.decompress(packed))
    columns = {name: iter(values) for name, values in document["columns"].items()}
    columns |= {name: accumulate(columns[name]) for name in STEPS}
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    transaction = commit = commit_ms = order = 0
    for begins in columns["begins"]:
        if begins:
            transaction, commit, commit_ms = (next(columns[name]) for name in ("transaction", "commit", "commit_ms"))
            order = 0
        order += 1
        table, op = document["tables"][next(columns["table"])], next(columns["op"])
        key, before, after = _row(table, op, columns, rows)
        lsn = next(columns["lsn"])
        source = {
            **document["source"],
            "ts_ms": commit_ms,
            "sequence": f'["{commit}", "{lsn}"]',
            "table": table["name"],
            "txId": transaction,
            "lsn": lsn,
        }
        told = {name: source[name] for name in document["source_fields"]}
        if types is not None:
            told["types"] = types[table["name"]]
        event = {
            "topic": table["topic"],
            "key": key,
            "value": {
                "before": before if table["shows_before"] else None,
                "after": after,
                "source": told,
                "op": op,
                "ts_ms": commit_ms + next(columns["late_ms"]),
                "transaction": {"id": f"{transaction}:{commit}", "total_order": order, "data_collection_order": order},
            },
        }
        yield json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def _row(
    table: dict[str, Any], op: str, columns: dict[str, Iterator[Any]], rows: dict[tuple[object, ...], dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]:
    """The key of an event's row, and the row before and after it, which is kept in ``rows``."""
    name, before = table["name"], None
    if op != "c":
        key = {part: next(columns[f"key {name} {part}"]) for part in table["key"]}
        before = rows.pop((name, *key.values()))
        if op == "d":
            return key, before, None
    changed, after = next(columns[f"changed {name}"]), dict(before or {})
    for number, column in enumerate(table["columns"]):
        if changed >> number & 1:
            value = next(columns[f"{name} {column}"])
            if column in table["times"]:  # most rows are updated when they are created
                value = after["created_at"] if value else time_text(next(columns["time_us"]))
            after[column] = value
    key = {part: after[part] for part in table["key"]}
    rows[name, *key.values()] = after
    return key, before, after


def time_text(time_us: int) -> str:
    """A time as PostgreSQL writes it."""
    time = EPOCH + timedelta(microseconds=time_us)
    return f"{time:%Y-%m-%d %H:%M:%S}" + f".{time.microsecond:06d}".rstrip("0").rstrip(".") + "+00"

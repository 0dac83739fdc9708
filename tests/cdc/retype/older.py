"""Targets whose columns are text, as an older release made them, and events that name the types of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from penstock import SyncOptions, SyncRun, sync
from penstock.cdc.delta.deltalake_targets import existing_target_of
from penstock.cdc.events.table_types import TableTypes, types_key
from penstock.cdc.target import TargetProgress
from tests.cdc.columns import target_types
from tests.cdc.sync.streams import TOPIC, Row, event, send

TYPES = TableTypes("public", "bills", target_types({"id": "int", "amount": "decimal(12,2)", "day": "date", "note": "string"}))


def bill(number: int, amount: str | None = "1.50", *, at: int, types: TableTypes | None = None, day: str = "2026-11-22") -> Row:
    made = event("u", "bills", {"id": number}, {"id": number, "amount": amount, "day": day, "note": "ß"}, at=at)
    if types is not None:
        made["value"]["source"]["types"] = types.name
    return made


def keep(lake: str, types: TableTypes) -> None:
    """As a capture does."""
    path = Path(lake, types_key(TOPIC, types.name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(types.data)


def applied(lake: str, into: Path, *, coordination: str | None = None, **options: Any) -> SyncRun:
    run = sync(lake, TOPIC, SyncOptions(into=into, **options), coordination=coordination)
    assert run.await_termination()
    return run


def kinds(into: Path, table: str = "bills") -> Mapping[str, str]:
    schema = pa.schema(DeltaTable(str(into / table)).schema().to_arrow())
    return {field.name: str(field.type).removesuffix("_view") for field in schema if not field.name.startswith("__")}


def progress(into: Path) -> TargetProgress:
    written = existing_target_of(DeltaTable(str(into / "bills"))).written
    assert written is not None
    return written.progress


def files(into: Path) -> list[Path]:
    return sorted(path for path in into.rglob("*") if path.is_file())


def make_older(lake: str, into: Path) -> None:
    """Let a sync make the target from events that name no types. The last event names them."""
    send(lake, [bill(1, at=1), bill(2, None, at=2)])
    applied(lake, into)
    keep(lake, TYPES)
    send(lake, [bill(3, "3.25", at=3, types=TYPES)])
    applied(lake, into)

"""Topics of change events for tests, and targets read back without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder

import penstock
from penstock.log.message.routing import queue_of

TOPIC = "changes"
Row = dict[str, Any]


def event(
    op: str,
    table: str,
    key: Row | None,
    after: Row | None = None,
    *,
    before: Row | None = None,
    at: int | None = None,
    schema: str = "public",
    ts_ms: int = 1_795_177_053_193,
) -> Row:
    """One event, as a connector writes it; ``at`` is its number in the source's log."""
    source: Row = {"connector": "postgresql", "db": "shop", "schema": schema, "table": table, "ts_ms": ts_ms}
    value: Row = {"before": before, "after": after, "op": op, "source": source}
    if at is not None:
        source["sequence"] = json.dumps([str(at * 8), str(at * 8)])
        value["transaction"] = {"id": str(at), "total_order": 1}
    return {"key": key, "value": value}


def with_schema(one: Row, **columns: Row) -> Row:
    """The same event as a connector writes it with Connect's schema part, which says this of the row's columns."""
    fields = [{"field": name, "optional": name != "id", **said} for name, said in columns.items()]
    rows = [{"type": "struct", "fields": fields, "optional": True, "field": name} for name in ("before", "after")]
    return {**one, "value": {"schema": {"type": "struct", "fields": rows}, "payload": one["value"]}}


def envelope(one: Row) -> Row:
    """The envelope of an event, with such a schema part or without."""
    found: Row = one["value"].get("payload", one["value"])
    return found


def send(lake_url: str, events: Iterable[Row | bytes], *, queues: int = 2, groups: Sequence[str] | None = None) -> None:
    """Append events, in order; ``groups`` says by which message group each goes, by default by its key."""
    with penstock.connect(lake_url) as lake:
        lake.create_topic(TOPIC, queues=queues, message_type="FIFO")
        with lake.producer(TOPIC) as producer:
            messages = []
            for number, one in enumerate(events):
                body = one if isinstance(one, bytes) else json.dumps(one, ensure_ascii=False).encode()
                group = groups[number] if groups else group_of(one) if isinstance(one, dict) else "-"
                messages.append(penstock.Message(body=body, message_group=group))
            producer.send_batch(messages)


def group_of(one: Row) -> str:
    """By which message group an event goes: its key's."""
    return json.dumps(one["key"]) if one.get("key") else "-"


def rows(path: Path | str, *, own: bool = False) -> list[Row]:
    """The rows of a target, sorted; with ``own`` also the sync's own columns."""
    table = DeltaTable(str(path))
    found = QueryBuilder().register("t", table).execute("select * from t").read_all()
    import pyarrow as pa

    listed = pa.table(found).to_pylist()
    kept = [{name: value for name, value in row.items() if own or not name.startswith("__")} for row in listed]
    return sorted(kept, key=repr)


def group_for(queue: int, queues: int) -> str:
    """A message group that goes to this queue."""
    return next(group for group in map(str, range(10_000)) if queue_of(group, queues) == queue)

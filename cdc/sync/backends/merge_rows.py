"""The rows of a batch in Arrow's types for a MERGE: net changes of rows, and versions of rows with history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from ....log.schema.arrow_types import arrow_type
from ...changes import Key, NetChange, lacks_some
from ...delta.merge_sql import APPLIES_UP_TO, COLUMN_POSITIONS, PUT
from ...events.conversion import KEEP, UnfitValue
from ...fold.fold_result import RowVersion
from ...fold.history import VersionLink, chains
from ...target import CURRENT, OP, POSITION, VALID_FROM, VALID_TO, Target

NUMBER, LAST = "__number", "__last"
"""Columns for the MERGE of a target with history; targets lack them."""
ROWS_PER_BATCH = 8_192
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_schema(target: Target, *, by_position: bool) -> pa.Schema:
    fields = [pa.field(column.name, arrow_type(column.type)) for column in target.columns]
    position = [pa.field(POSITION, pa.int64())] if by_position else []
    rest = [pa.field(PUT, pa.bool_()), pa.field(APPLIES_UP_TO, pa.int64()), pa.field(COLUMN_POSITIONS, pa.list_(pa.int64()))]
    return pa.schema([*fields, *position, *rest])


def batch_of(target: Target, schema: pa.Schema, items: Sequence[tuple[Key, NetChange]]) -> pa.RecordBatch:
    rows = [net.values for _, net in items]
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, keys in zip(target.key_places, zip(*(key for key, _ in items), strict=True), strict=True):
        columns[place] = keys
    values = {
        column.name: [None if value is KEEP else value for value in found] if lacks_some(found) else found
        for column, found in zip(target.columns, columns, strict=True)
    }
    values |= {
        POSITION: [net.position for _, net in items],
        PUT: [net.put for _, net in items],
        APPLIES_UP_TO: [net.applies_up_to for _, net in items],
        COLUMN_POSITIONS: [net.column_positions for _, net in items],
    }
    return typed_batch(values, schema)


def history_schema(target: Target) -> pa.Schema:
    own = {
        OP: pa.string(),
        VALID_FROM: pa.timestamp("us", "UTC"),
        VALID_TO: pa.timestamp("us", "UTC"),
        CURRENT: pa.bool_(),
        POSITION: pa.int64(),
        APPLIES_UP_TO: pa.int64(),
        NUMBER: pa.int64(),
        LAST: pa.bool_(),
        COLUMN_POSITIONS: pa.list_(pa.int64()),
    }
    columns = [pa.field(column.name, arrow_type(column.type)) for column in target.columns]
    return pa.schema([*columns, *(pa.field(name, kind) for name, kind in own.items())])


def history_table(target: Target, versions: Sequence[RowVersion]) -> pa.Table:
    schema = history_schema(target)
    return pa.Table.from_batches(history_batches(target, schema, versions), schema)


def history_batches(target: Target, schema: pa.Schema, versions: Sequence[RowVersion]) -> Iterator[pa.RecordBatch]:
    links = chains(versions)
    for start in range(0, len(links), ROWS_PER_BATCH):
        yield _history_batch(target, schema, links[start : start + ROWS_PER_BATCH])


def _history_batch(target: Target, schema: pa.Schema, links: Sequence[VersionLink]) -> pa.RecordBatch:
    columns: dict[str, list[object]] = {
        column.name: [link.values[place] for link in links] for place, column in enumerate(target.columns)
    }
    for place, name in enumerate(target.key):
        columns[name] = [link.key[place] for link in links]
    columns |= {
        OP: [link.op for link in links],
        VALID_FROM: [_at(link.valid_from_us) for link in links],
        VALID_TO: [None if link.valid_to_us is None else _at(link.valid_to_us) for link in links],
        CURRENT: [link.valid_to_us is None and link.op != "d" for link in links],
        POSITION: [link.position for link in links],
        APPLIES_UP_TO: [link.applies_up_to for link in links],
        NUMBER: [link.number for link in links],
        LAST: [link.last for link in links],
        COLUMN_POSITIONS: [link.column_positions for link in links],
    }
    return typed_batch(columns, schema)


def _at(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)


def typed_batch(values: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """The values as an Arrow batch. Raises `UnfitValue`, which names the column."""
    columns = []
    for field in schema:
        try:
            columns.append(pa.array(values[field.name], field.type))
        except MemoryError:
            raise  # Arrow's is an error of values as well
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            raise UnfitValue(f"column {field.name}: {error}") from error
    return pa.record_batch(columns, schema=schema)

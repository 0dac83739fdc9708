"""A Delta table of a typed topic, file by file, with the schema of each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.schema.ddl import parse_ddl
from penstock.log.schema.evolution import evolve
from penstock.log.schema.topic_schema import first_schema
from penstock.log.table.delta.actions import metadata, parse_action, protocol
from penstock.log.table.delta.table_metadata import Action, Protocol, TableMetadata
from penstock.log.table.delta.table_schema import table_form, table_update

Row = dict[str, Any]


class TypedTable:
    """A table in a folder. Each file has the stored form of the schema at its time."""

    def __init__(self, folder: Path, ddl: str) -> None:
        self.path = folder
        (folder / "_delta_log").mkdir(parents=True)
        self.schema = first_schema(parse_ddl(ddl))
        self.version = -1
        self.rows = 0
        form = table_form(self.schema)
        self._set = self._commit([protocol(form), metadata("11111111-2222-3333-4444-555555555555", 1, form)])

    def evolve(self, ddl: str, **how: Any) -> None:
        self.schema = evolve(self.schema, parse_ddl(ddl), **how)
        found_protocol, found = self._set
        update = table_update(found, found_protocol, table_form(self.schema))
        assert update
        self._set = self._commit(update)

    def add(self, values: Sequence[Row | None], *, change: Callable[[pa.Table], pa.Table] | None = None) -> None:
        """A file with these values, by stored names."""
        count = len(values)
        columns = {name: pa.nulls(count, MESSAGE_SCHEMA.field(name).type) for name in MESSAGE_SCHEMA.names}
        columns["queue"] = pa.array([0] * count, pa.int32())
        columns["offset"] = pa.array(range(self.rows, self.rows + count), pa.int64())
        columns["value"] = pa.array(values, self.schema.stored_arrow)
        table = pa.table(columns)
        self.rows += count
        path = f"queue=0/{self.version + 1}.parquet"
        (self.path / path).parent.mkdir(exist_ok=True)
        pq.write_table(table if change is None else change(table), self.path / path, store_schema=False)
        size = (self.path / path).stat().st_size
        file = {"path": path, "partitionValues": {"queue": "0"}, "size": size, "modificationTime": 1, "dataChange": True}
        self._commit([{"add": file}])

    def _commit(self, actions: Sequence[Action]) -> tuple[Protocol, TableMetadata]:
        self.version += 1
        lines = "".join(json.dumps(action) + "\n" for action in actions)
        (self.path / "_delta_log" / f"{self.version:020d}.json").write_text(lines)
        before = getattr(self, "_set", (None, None))
        logged = [one for action in actions if "add" not in action for one in parse_action(action, where="test")]
        of_protocol = next((one for one in logged if isinstance(one, Protocol)), before[0])
        of_table = next((one for one in logged if isinstance(one, TableMetadata)), before[1])
        assert of_protocol is not None
        assert of_table is not None
        return of_protocol, of_table

"""Delta tables with column mapping, as Spark makes them of names that Parquet does not take: in the files columns have other names."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq


def map_columns(table: Path) -> None:
    """Give a table that is there column mapping, and its files columns of other names."""
    for log in (table / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if added := action.get("add"):
                _rename(table / added["path"])
                added |= {"size": (table / added["path"]).stat().st_size, "stats": None}
            if metadata := action.get("metaData"):
                schema = json.loads(metadata["schemaString"])
                for number, field in enumerate(schema["fields"], 1):
                    field["metadata"] = {
                        "delta.columnMapping.id": number,
                        "delta.columnMapping.physicalName": _physical(field["name"]),
                    }
                metadata["schemaString"] = json.dumps(schema)
                metadata["configuration"] |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "100"}
            if "protocol" in action:
                action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        log.write_text("\n".join(map(json.dumps, actions)))


def _rename(file: Path) -> None:
    rows = pq.read_table(file)
    pq.write_table(rows.rename_columns([_physical(name) for name in rows.column_names]), file)


def _physical(name: str) -> str:
    return f"col-{name}"

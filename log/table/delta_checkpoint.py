"""Delta checkpoints: a snapshot as one Parquet file (the classic, V1 form), for us and for every other reader."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataDamaged, PenstockError
from .actions import PARTITION_COLUMNS, PROTOCOL, SCHEMA_STRING, add_fields, check_protocol
from .snapshot import Snapshot, apply

_TEXTS = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema(
    [
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.field("element", pa.string()))),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    ("tags", _TEXTS),
                ]
            ),
        ),
        ("remove", pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())])),
    ]
)


def encode_delta_checkpoint(snapshot: Snapshot) -> tuple[bytes, int]:
    """(the checkpoint, number of its actions)."""
    rows: list[dict[str, Any]] = [
        {"protocol": PROTOCOL},
        {
            "metaData": {
                "id": snapshot.table_id,
                "format": {"provider": "parquet", "options": []},
                "schemaString": SCHEMA_STRING,
                "partitionColumns": PARTITION_COLUMNS,
                "configuration": [],
                "createdTime": snapshot.created_ms,
            }
        },
        *({"txn": {"appId": app_id, "version": version}} for app_id, version in snapshot.txns.items()),
        *({"add": _with_pairs(add_fields(file, data_change=False))} for file in snapshot.all_files),
        *(
            {"remove": {"path": path, "deletionTimestamp": time_ms, "dataChange": False}}
            for path, time_ms in snapshot.removed.items()
        ),
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_pylist(rows, schema=_SCHEMA), sink, compression="snappy", store_schema=False, write_page_checksum=True
    )
    return sink.getvalue().to_pybytes(), len(rows)


def decode_delta_checkpoint(data: bytes, *, folder: str, version: int, where: str, keep_removes: bool = True) -> Snapshot:
    """The snapshot a checkpoint holds, whoever wrote it. Raises `DataDamaged`."""
    wanted = ("protocol", "metaData", "txn", "add", *(("remove",) if keep_removes else ()))
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        names = [name for name in wanted if name in file.schema_arrow.names]
        table = file.read(columns=names)
        actions = []
        for name in names:
            for fields in table.column(name).drop_null().to_pylist():
                if name == "protocol":
                    check_protocol(fields, where=where)
                actions.append({name: fields})
        snapshot = apply(Snapshot(folder), [(version, actions)], where=where)
    except PenstockError:
        raise
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DataDamaged("the Delta checkpoint cannot be read", object=where, observed=str(error)) from error
    if not snapshot.table_id:
        raise DataDamaged("the Delta checkpoint has no metadata", object=where)
    return snapshot


def encode_last_checkpoint(version: int, actions: int) -> bytes:
    return json.dumps({"version": version, "size": actions}).encode()


def decode_last_checkpoint(data: bytes) -> int | None:
    """The version that `_last_checkpoint` names; None when it makes no sense, as it is only a hint."""
    try:
        return int(json.loads(data)["version"])
    except (ValueError, KeyError, TypeError):
        return None


def _with_pairs(fields: dict[str, Any]) -> dict[str, Any]:
    """Maps as pyarrow takes them."""
    return {name: list(value.items()) if isinstance(value, dict) else value for name, value in fields.items()}

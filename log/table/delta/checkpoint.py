"""Delta checkpoints: a snapshot as one Parquet file (the classic, V1 form)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import DataDamaged, InternalError
from ...format.forms import decoded
from ...format.stored_json import Number, shown
from ...limits import MIB
from .actions import Logged, add_fields, parse_action
from .snapshot import Snapshot, apply
from .table_metadata import fields_of

_ROWS_MAX = 10_000_000
_BYTES_MAX = 2048 * MIB
"""Above any table's unpacked checkpoint, below a process's memory."""
_ROWS_AT_ONCE = 10_000

_TEXTS = pa.map_(pa.string(), pa.string())
_SCHEMA = pa.schema(
    [
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.field("element", pa.string()))),
                    ("writerFeatures", pa.list_(pa.field("element", pa.string()))),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
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
    """The checkpoint, and the number of its actions. Metadata of others stays."""
    if snapshot.metadata is None or snapshot.protocol is None:
        raise InternalError("a checkpoint of a table without protocol or metadata", object=snapshot.folder)
    rows: list[dict[str, Any]] = [
        {"protocol": fields_of(snapshot.protocol)},
        {"metaData": _with_pairs(fields_of(snapshot.metadata))},
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
    """The snapshot of any writer's checkpoint. Raises `DataDamaged`."""
    wanted = ("protocol", "metaData", "txn", "add", *(("remove",) if keep_removes else ()))
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        _check_size(file.metadata, where)
        names = [name for name in wanted if name in file.schema_arrow.names]
        actions: list[Logged] = []
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names, use_threads=False):
            for name in names:
                for fields in batch.column(name).drop_null().to_pylist(maps_as_pydicts="strict"):
                    actions += parse_action({name: fields}, where=where)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise DataDamaged("the Delta checkpoint cannot be read", object=where, observed=shown(error)) from error
    snapshot = apply(Snapshot(folder), [(version, actions)])
    if snapshot.metadata is None or snapshot.protocol is None:
        raise DataDamaged("the Delta checkpoint has no protocol or no metadata", object=where)
    return snapshot


def _check_size(metadata: pq.FileMetaData, where: str) -> None:
    """Refuse a small file that would unpack beyond memory."""
    size_bytes = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if metadata.num_rows > _ROWS_MAX or size_bytes > _BYTES_MAX:
        raise DataDamaged(
            "the Delta checkpoint is too large",
            object=where,
            expected=f"at most {_ROWS_MAX} actions of {_BYTES_MAX} bytes together",
            observed=f"{metadata.num_rows} of {size_bytes} bytes",
        )


def encode_last_checkpoint(version: int, actions: int) -> bytes:
    return json.dumps({"version": version, "size": actions}).encode()


class _LastCheckpoint(msgspec.Struct):
    version: Number


def decode_last_checkpoint(data: bytes) -> int | None:
    """The version in `_last_checkpoint`, a mere hint. None: not readable."""
    try:
        return decoded(data, _LastCheckpoint).version
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _with_pairs(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _with_pairs(value) if name == "format" else list(value.items()) if isinstance(value, dict) else value
        for name, value in fields.items()
    }

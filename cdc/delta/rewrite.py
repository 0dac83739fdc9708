"""A whole target read, and replaced by rows of another form in one commit, by deltalake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..target import APP_ID, Target, TargetOwner, TargetRefused
from .deltalake_targets import MAPPING, properties_of
from .reader import query

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_ROWS = 65_536


def check_rewritable(table: DeltaTable, path: str) -> None:
    """Raise `TargetRefused` for a target whose form this engine cannot write whole."""
    if table.metadata().configuration.get(MAPPING, "none") != "none":
        raise TargetRefused(
            "the target has column mapping, and deltalake cannot rewrite such a table",
            operation="retype",
            object=path,
            hint="rewrite it by Spark: read it, cast the columns, write it back in mode overwrite with overwriteSchema, and start the sync once "
            "with --adopt",
        )


def size_of(table: DeltaTable) -> tuple[int, int]:
    counted = sum(batch["n"][0].as_py() for batch in query(table, "select count(*) as n from t"))
    return counted, len(table.file_uris())


def rewrite(table: DeltaTable, rows: Path, schema: pa.Schema, owner: TargetOwner, target: Target) -> bool:
    """Replace all rows, and the schema, by those of a Parquet file. ``target`` has the progress after it. False, and nothing is done, when a sync
    has merged since. Raises deltalake's `CommitFailedError` for any other commit since this version.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import write_deltalake

    if (table.transaction_version(APP_ID) or 0) >= target.progress.commits:
        return False
    with pq.ParquetFile(rows) as file:
        # The writer pulls this on a thread of its own, on which nothing else of deltalake's may run: so rows come from a file.
        batches = (pa.record_batch(batch.columns, schema=schema) for batch in file.iter_batches(_ROWS))
        write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(schema, batches),
            mode="overwrite",
            schema_mode="overwrite",
            partition_by=table.metadata().partition_columns or None,
            commit_properties=properties_of(owner, target, once=True),
        )
    return True

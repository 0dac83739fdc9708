"""What Iceberg's readers, and Delta's at the same version, find in a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
from pyiceberg.table import StaticTable

from penstock.log.table.iceberg.folder import MetadataFolder
from penstock.log.table.iceberg.names import METADATA
from penstock.log.table.iceberg.plan import IcebergVersion
from penstock.log.table.iceberg.table_metadata import DELTA_VERSION
from penstock.log.table.iceberg.writer import IcebergWriter
from tests.log.table.readers import copy_to_folder
from tests.log.table.upkeep import delta_of
from tests.log.topics import LogWriter


def writer_of(log: LogWriter, folder: Path, store: object = None) -> IcebergWriter:
    """A writer of metadata that readers find below ``folder``, once the store's objects are copied there."""
    return IcebergWriter(store or log.store, log.runtime, delta_of(log), location=folder.as_uri())  # type: ignore[arg-type]


async def listing_of(log: LogWriter) -> IcebergVersion:
    found = await MetadataFolder(log.store, log.paths.table(log.record.table), log.runtime).newest()
    assert found is not None
    return found


def rows_of(listing: IcebergVersion) -> list[str]:
    """The paths of the files that a version lists."""
    return sorted(entry.path for manifest in listing.manifests for entry in manifest.entries if entry.is_live)


async def check_whole(log: LogWriter) -> None:
    """Every version on the store can be read, with all of its snapshots and their manifests."""
    folder = MetadataFolder(log.store, log.paths.table(log.record.table), log.runtime)
    listed = await log.store.list(folder.root + METADATA)
    paths = {info.key.removeprefix(folder.root) for info in listed}
    for version in folder.versions(listed):
        table = await folder.table(version)
        for snapshot in table.snapshots:
            assert {manifest.path for manifest in await folder.manifests(table, snapshot)} <= paths


def in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([("queue", "ascending"), ("offset", "ascending")]).combine_chunks()


def by_pyiceberg(table: Path) -> tuple[int, pa.Table]:
    """The Delta version that the newest snapshot names, and its rows."""
    found = StaticTable.from_metadata(str(table))
    snapshot = found.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return int(snapshot.summary[DELTA_VERSION] or -1), in_order(found.scan().to_arrow())


def by_duckdb(table: Path, query: str = 'SELECT * FROM found ORDER BY queue, "offset"') -> list[dict[str, Any]]:
    """The rows as Python objects, or those of another query of ``found``."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for module in (duckdb_extension_avro, duckdb_extension_iceberg):
            extension = next(Path(module.__file__).parent.rglob("*.duckdb_extension"))
            connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE VIEW found AS SELECT * FROM iceberg_scan('{table}')")
        return connection.execute(query).to_arrow_table().to_pylist()


def by_delta(table: Path, version: int) -> pa.Table:
    return in_order(deltalake.DeltaTable(table, version=version).to_pyarrow_table())


async def check_equal(log: LogWriter, folder: Path) -> pa.Table:
    """Copy the lake to ``folder``, and compare what Iceberg's readers find with Delta's view at the version that they name."""
    await copy_to_folder(log.store, folder)
    return compared(folder / log.paths.table(log.record.table))


def compared(table: Path) -> pa.Table:
    """The rows, which all readers find alike."""
    version, rows = by_pyiceberg(table)
    expected = by_delta(table, version)
    assert sorted(rows.column_names) == sorted(expected.column_names)
    assert rows.to_pylist() == expected.select(rows.column_names).to_pylist()
    assert by_duckdb(table) == rows.to_pylist()
    return rows

"""Readers that are not ours on tables of typed topics: what each finds after each change of a schema.

Where a reader fails, the test says how. It then fails as soon as a newer one reads the table right.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import deltalake
import duckdb
import duckdb_extension_delta
import polars as pl
import pyarrow as pa
import pytest

from tests.log.table.typed_tables import CASES, MAPPED, TypedTable, plain, table_of

Reader: TypeAlias = Callable[[str], pa.Table]


def by_dataset(path: str) -> pa.Table:
    return deltalake.DeltaTable(path).to_pyarrow_dataset().to_table(columns=["offset", "value"])


def by_table(path: str) -> pa.Table:
    return deltalake.DeltaTable(path).to_pyarrow_table(columns=["offset", "value"])


def by_sql(path: str) -> pa.Table:
    query = deltalake.QueryBuilder().register("messages", deltalake.DeltaTable(path))
    return pa.table(query.execute('SELECT "offset", value FROM messages'))


def by_duckdb(path: str) -> pa.Table:
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension"))
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(f"SELECT \"offset\", value FROM delta_scan('{path}')").to_arrow_table()


def by_polars(path: str) -> pa.Table:
    return pl.scan_delta(path).select("offset", "value").collect().to_arrow()


READERS: dict[str, Reader] = {
    "deltalake's dataset": by_dataset,
    "deltalake's table": by_table,
    "deltalake's SQL": by_sql,
    "DuckDB": by_duckdb,
    "Polars": by_polars,
}
FAILURES = {
    ("Polars", "wider map keys"): "Map key types are not castable",
    ("deltalake's SQL", "a new field in a map's struct"): "Cannot cast",
    ("deltalake's SQL", "a retired and a new field in a map's struct"): "Cannot cast",
    ("deltalake's SQL", "none of the top fields in the file"): "no field name overlap",
    ("deltalake's SQL", "none of a struct's fields in the file"): "no field name overlap",
    ("deltalake's SQL", "none of the fields of a list's struct in the file"): "no field name overlap",
    ("DuckDB", "none of the fields of a list's struct in the file"): "Vector::Reference used on vector of different type",
}
"""The messages of readers that cannot read a table."""
DIFFERENCES: dict[tuple[str, str], list[Any]] = {
    # A struct that is NULL becomes a struct of NULLs.
    ("DuckDB", "none of a struct's fields in the file"): [
        {"a": 1, "s": {"y": None}},
        {"a": 2, "s": {"y": None}},
        None,
        {"a": 3, "s": {"y": 3}},
    ],
}
"""The wrong rows of readers that notice nothing."""
WITHOUT_MAPPING = ("deltalake's dataset", "deltalake's table", "Polars")
"""Readers that refuse tables with column mapping."""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_finds_what_ours_find(reader: str, case: str, tmp_path: Path) -> None:
    check(reader, case, table_of(tmp_path / "table", case))


@pytest.mark.parametrize("case", ["wider", "a name used again", "a time without zone"])
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_that_begins_with_a_checkpoint_finds_the_same(reader: str, case: str, tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", case)
    table.checkpoint()
    check(reader, case, table)


def check(reader: str, case: str, table: TypedTable) -> None:
    failure = "columnMapping" if case in MAPPED and reader in WITHOUT_MAPPING else FAILURES.get((reader, case))
    if failure is not None:
        with pytest.raises(Exception, match=failure):
            READERS[reader](str(table.path))
        return
    found = sorted(READERS[reader](str(table.path)).to_pylist(), key=itemgetter("offset"))
    assert [plain(row["value"]) for row in found] == DIFFERENCES.get((reader, case), table.rows)

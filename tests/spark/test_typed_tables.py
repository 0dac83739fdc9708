"""Spark on tables of typed topics: it finds what our readers find, whatever happened to the schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.log.table.typed_tables import EVOLUTIONS, FILES, MAPPED, SMALL, TypedTable, made, plain, table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
READER, NESTED = "spark.sql.parquet.enableVectorizedReader", "spark.sql.parquet.enableNestedColumnVectorizedReader"
ALLOWED = ("allowSourceColumnTypeChange", "allowSourceColumnRename", "allowSourceColumnDrop")
DECIMALS = "spark.sql.parquet.filterPushdown.decimal"


@contextmanager
def set_to(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) or "" for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


PLAIN = [name for name in EVOLUTIONS if name not in MAPPED]
RENAMED = [name for name in EVOLUTIONS if name in MAPPED]


@pytest.mark.parametrize("names", [PLAIN, RENAMED], ids=["with the names of the files", "with mapped names"])
def test_spark_finds_what_ours_find(spark: SparkSession, tmp_path: Path, names: list[str]) -> None:
    """All changes in one table, as each table costs Spark seconds."""
    table = made(tmp_path / "table", names)
    check_whole(spark, table)
    for settings in ({NESTED: "false"}, {READER: "false"}):
        with set_to(spark, settings):
            check_whole(spark, table)


@pytest.mark.parametrize("case", FILES)
def test_spark_reads_files_of_another_form(spark: SparkSession, tmp_path: Path, case: str) -> None:
    check_whole(spark, table_of(tmp_path / "table", case))


def check_whole(spark: SparkSession, table: TypedTable) -> None:
    with set_to(spark, {"spark.sql.session.timeZone": "UTC"}):
        found = spark.read.format("delta").load(str(table.path)).select("offset", "value").toArrow().to_pylist()
    assert [plain(row["value"]) for row in sorted(found, key=itemgetter("offset"))] == table.rows


@pytest.mark.parametrize(
    "columns",
    [
        {
            "a new field": "s.x",
            "a new field in a struct": "s.y",
            "none of the top fields in the file": "b",
            "none of a struct's fields in the file": "s.y",
        },
        {"a renamed field": "s.y", "a name used again": "b"},
    ],
    ids=["with the names of the files", "with mapped names"],
)
def test_spark_reads_one_field_alone(spark: SparkSession, tmp_path: Path, columns: dict[str, str]) -> None:
    table = made(tmp_path / "table", list(columns))
    frame = spark.read.format("delta").load(str(table.path))
    for number, column in enumerate(columns.values()):
        path = [f"c{number}", *column.split(".")]
        expected = [part_of(row, path) for row in table.rows]
        found = frame.selectExpr("offset", f"value.{'.'.join(path)} AS found").collect()
        assert [row["found"] for row in sorted(found)] == expected, column
        assert frame.where(f"value.{'.'.join(path)} IS NULL").count() == expected.count(None), column


def part_of(row: Any, path: list[str]) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row


def test_spark_compares_with_more_than_older_files_hold(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.format("delta").load(str(table_of(tmp_path / "table", "wider").path))
    assert frame.where(f"value.i = {2**40}").count() == 1
    assert frame.where(f"value.i < {2**40}").count() == 1
    assert frame.where(f"value.t < {2**20}").count() == 1
    assert frame.where("value.f < 1e300").count() == 1
    assert frame.where(f"value.d = {SMALL}").count() == 1
    # Without a setting Spark makes bytes of a decimal, as many as the file has, whether or not they are enough.
    fewer = frame.where("value.d < 12345678901.25")
    assert fewer.count() == 1, "our session has the setting"
    with set_to(spark, {DECIMALS: "true"}), pytest.raises(Exception, match="FAILED_READ_FILE"):
        fewer.count()


@pytest.mark.thorough  # reads of the same changes, and a native stream over a topic's table
def test_a_native_stream_goes_on_over_any_change_when_it_tracks_the_schema(spark: SparkSession, tmp_path: Path) -> None:
    table = TypedTable(tmp_path / "table", "a int, b int, c int")
    progress = tmp_path / "progress"
    tracking = {"schemaTrackingLocation": str(progress / "schema"), **dict.fromkeys(ALLOWED, "always")}
    seen: list[tuple[int, dict[str, int]]] = []

    def take(frame: DataFrame, _batch: int) -> None:
        seen.extend((row["offset"], row["value"].asDict()) for row in frame.select("offset", "value").collect())

    def stream(**options: str) -> None:
        reader = spark.readStream.format("delta").option("ignoreDeletes", "true").options(**options).load(str(table.path))
        query = reader.writeStream.foreachBatch(take).option("checkpointLocation", str(progress))
        query.trigger(availableNow=True).start().awaitTermination()

    table.add([{"a": 1, "b": 1, "c": 1}])
    stream()
    table.add([{"a": 2, "b": 2, "c": 2}])
    table.evolve("a bigint, d int", rename={"b": "d"}, retire=["c"])
    table.add_shown([{"a": 2**40, "d": 3}])
    with pytest.raises(Exception, match="schemaTrackingLocation"):
        stream()
    for _ in range(2):  # to the old schema, and then to the new one
        with pytest.raises(Exception, match="DELTA_STREAMING_METADATA_EVOLUTION"):
            stream(**tracking)
    stream(**tracking)
    assert seen == [(0, {"a": 1, "b": 1, "c": 1}), (1, {"a": 2, "b": 2, "c": 2}), (2, {"a": 2**40, "d": 3})]

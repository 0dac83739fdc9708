"""Names of tables and columns that folders, SQL and files do not take as they are: either engine writes them, and goes on with the other's."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from penstock import SyncOptions, sync
from penstock.cdc.sync.plan import SyncPlan
from penstock.cdc.sync.record import SyncRecord, read_record
from penstock.cdc.sync.run import SyncRun
from penstock.cdc.target import TargetRefused, folder_name
from penstock.coordinator.lakes import LakePlace, OpenLake
from penstock.log.errors import InvalidArgument
from tests.cdc.sync.streams import TOPIC, Row, event, rows, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = [
    "Order Items",
    "100%",
    "a%20b",
    "a#b",
    "x=y",
    "quote'q",
    "back`tick",
    "{curly}",
    "[br]",
    "a^b",
    "a/b\\c",
    "a:b?",
    "_own",
    ".dot",
    "é\t",
]
COLUMNS = [
    "first name",
    "a,b",
    "a;b",
    "{a}",
    "a(b)",
    "a=b",
    "a\nb",
    "a\tb",
    "a`b",
    'q"q',
    "a.b",
    "é",
    "select",
    "a%20b",
    "a#b",
    "o'x",
    "a\\b",
]
LATER = ["last name", "plain"]


def test_folders_are_called_as_tables_are_where_both_engines_take_it() -> None:
    assert [folder_name(name) for name in ("orders", "Order Items", "100%", "x=y", "[br]", "a~b", "données")] == [
        "orders", "Order Items", "100%", "x=y", "[br]", "a~b", "données",
    ]  # fmt: skip
    assert [folder_name(name) for name in ("a%20b", "a#b", "back`tick", "a/b", "_own", ".", "..", "é\t", "a~20b")] == [
        "a~2520b", "a~23b", "back~60tick", "a~2Fb", "~5Fown", "~2E", "~2E.", "é~09", "a~7E20b",
    ]  # fmt: skip
    for name in ("", "n" * 256, "é" * 128, "#" * 100):
        with pytest.raises(TargetRefused, match="the table's name cannot be a folder's"):
            folder_name(name)


def upsert(op: str, table: str, names: list[str], value: str) -> Row:
    return event(op, table, {"the id": 1}, {"the id": 1, **dict.fromkeys(names, value)})


def run(spark: SparkSession | None, lake: str, into: Path) -> SyncRun:
    found = sync(lake, TOPIC, SyncOptions(into=into, name="s"), spark=spark)
    assert found.await_termination()
    return found


def test_any_name_is_written_without_spark(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for value, op in (("x", "c"), ("y", "u")):
        send(lake, [upsert(op, table, COLUMNS, value) for table in TABLES])
        assert not run(None, lake, into).stopped
    assert sorted(path.name for path in into.iterdir()) == sorted(map(folder_name, TABLES))
    for table in TABLES:
        assert rows(into / folder_name(table)) == [{"the id": 1, **dict.fromkeys(COLUMNS, "y")}]


def test_what_no_folder_can_be_called_stops_its_table_only(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [upsert("c", "t" * 300, ["v"], "x"), upsert("c", "good", ["v"], "x")])
    stopped = run(None, lake, into).stopped
    assert next(stop.reason for (stop,) in stopped.values()).startswith("the table's name cannot be a folder's")
    assert [path.name for path in into.iterdir()] == ["good"]


@pytest.mark.parametrize("name", ["a#b", "a%20b", "a`b", "a?b"])
def test_a_folder_of_targets_that_an_engine_would_take_for_another_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument, match="not every engine can write tables into a folder of this name"):
        sync(str(tmp_path / "lake"), TOPIC, SyncOptions(into=tmp_path / name))
    with pytest.raises(InvalidArgument, match="not every engine"):
        sync(str(tmp_path / "lake"), TOPIC, SyncOptions(into=f"s3://bucket/{name.replace('?', '#')}"))


@pytest.mark.thorough
@pytest.mark.spark
def test_either_engine_writes_any_name_and_goes_on_with_the_others(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    ours, theirs = "a%20b #`", "b%20b #`"
    send(lake, [upsert("c", ours, COLUMNS, "x")])
    assert not run(spark, lake, into).stopped
    send(lake, [upsert("u", ours, COLUMNS, "y"), upsert("c", theirs, COLUMNS, "x")])
    assert not run(None, lake, into).stopped
    for table, value in ((ours, "y"), (theirs, "x")):
        assert rows(into / folder_name(table)) == [{"the id": 1, **dict.fromkeys(COLUMNS, value)}]
    send(lake, [upsert("u", table, [*COLUMNS, *LATER], "z") for table in (ours, theirs)])
    (stopped,) = run(None, lake, into).stopped.items()  # deltalake adds no columns to what Spark has mapped
    assert stopped[0] == f"public.{ours}"
    assert stopped[1][0].reason.startswith("the target has column mapping, and this engine cannot give such a table columns")
    send(lake, [upsert("u", theirs, [*COLUMNS, *LATER, "one more"], "z")])
    assert not run(spark, lake, into).stopped
    assert rows(into / folder_name(ours)) == [{"the id": 1, **dict.fromkeys([*COLUMNS, *LATER], "z")}]
    assert rows(into / folder_name(theirs)) == [{"the id": 1, **dict.fromkeys([*COLUMNS, *LATER, "one more"], "z")}]
    found = spark.read.format("delta").load(str(into / folder_name(theirs))).collect()
    assert [row["first name"] for row in found] == ["z"]
    assert DeltaTable(str(into / folder_name(theirs))).metadata().configuration["delta.columnMapping.mode"] == "name"


@pytest.mark.parametrize("topic", ["_orders", "o" * 101])
def test_a_topic_whose_name_no_sync_can_have_asks_for_another_one(tmp_path: Path, topic: str) -> None:
    options = SyncOptions(into=tmp_path)
    with pytest.raises(InvalidArgument, match="bad name of a sync"):
        SyncPlan.of(LakePlace.of(tmp_path / "lake"), topic, options)
    assert SyncPlan.of(LakePlace.of(tmp_path / "lake"), topic, replace(options, name="orders")).name == "orders"


def test_a_target_that_was_renamed_keeps_the_types_that_its_source_named(tmp_path: Path) -> None:
    lake, into, name = str(tmp_path / "lake"), tmp_path / "targets", "0123456789abcdef" * 2
    first = event("c", "a", {"id": 1}, {"id": 1}, at=1)
    first["value"]["source"]["types"] = name
    send(lake, [first], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    (into / "a").rename(into / "z")
    send(lake, [event("c", "b", {"id": 1}, {"id": 1}, at=2)], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into, rename={"a": "z"})).await_termination()
    with closing(OpenLake(LakePlace.of(lake))) as opened:
        record = opened.run(partial(read, opened))
    assert {folder: types.name for folder, types in record.types.items()} == {"z": name}


async def read(opened: OpenLake) -> SyncRecord:
    record = await read_record((await opened.coordination()).cells, TOPIC, TOPIC)
    assert record is not None
    return record

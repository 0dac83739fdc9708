"""Targets that Spark made get other types without it, and Spark goes on with them; with history too."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import SyncOptions, retype, sync
from penstock.cdc.events.table_types import TableTypes
from penstock.cdc.sync.options import NO_STEPS, Moment, SyncSteps
from penstock.log.errors import NotSupported
from tests.cdc.columns import target_types
from tests.cdc.retype.older import TYPES, bill, keep, kinds
from tests.cdc.sync.crashes import Crash, CrashAt
from tests.cdc.sync.losing import Loses
from tests.cdc.sync.streams import TOPIC, rows, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("history", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_spark_goes_on_with_what_it_has_made(spark: SparkSession, tmp_path: Path, history: bool) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "into"

    def applied() -> dict[str, Any]:
        run = sync(lake, TOPIC, SyncOptions(into=into, history=history), spark=spark)
        assert run.await_termination()
        return run.stopped

    send(lake, [bill(1, at=1), bill(2, None, at=2), bill(1, "2.00", at=3)])
    applied()
    keep(lake, TYPES)
    send(lake, [bill(3, "3.25", at=4, types=TYPES)])
    applied()
    before = rows(into / "bills", own=True)
    (done,) = retype(lake, TOPIC, SyncOptions(into=into))
    assert done.version is not None
    assert kinds(into) == {"id": "int64", "amount": "decimal128(12, 2)", "day": "date32[day]", "note": "string"}
    after = rows(into / "bills", own=True)
    assert [
        {**row, "amount": None if row["amount"] is None else str(row["amount"]), "day": str(row["day"])} for row in after
    ] == before
    send(lake, [bill(1, "7.00", at=5, types=TYPES), bill(4, at=6, types=TYPES)])
    assert not applied()
    current = [row for row in rows(into / "bills", own=True) if row.get("__current", True)]
    assert {row["id"]: row["amount"] for row in current} == {1: Decimal("7.00"), 2: None, 3: Decimal("3.25"), 4: Decimal("1.50")}
    read = spark.read.format("delta").load(str(into / "bills"))
    assert read.where("amount = 7 and day = date'2026-11-22'").count() == 1


@pytest.mark.thorough  # the same without Spark, and conformance of all types by Spark
def test_a_captured_table_s_types_are_those_of_its_source_by_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "into"
    keep(lake, TYPES)
    send(lake, [bill(1, at=1, types=TYPES), bill(2, None, at=2, types=TYPES)])
    for events_in_driver in (0, 10_000):
        target = into / str(events_in_driver)
        run = sync(lake, TOPIC, SyncOptions(into=target, name=target.name, events_in_driver=events_in_driver), spark=spark)
        assert run.await_termination()
        assert not run.stopped
        assert kinds(target) == {"id": "int32", "amount": "decimal128(12, 2)", "day": "date32[day]", "note": "string"}


def test_a_target_with_column_mapping_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "into"
    made = bill(1, at=1)
    made["value"]["after"]["two words"] = "1"
    send(lake, [made])
    assert sync(lake, TOPIC, SyncOptions(into=into), spark=spark).await_termination()
    (refused,) = retype(lake, TOPIC, SyncOptions(into=into, columns={"bills": {"two words": "int"}}))
    assert "column mapping" in str(refused.refused)
    assert "write it back in mode overwrite with overwriteSchema" in str(refused.refused)


@pytest.mark.parametrize("history", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_a_target_becomes_wider_with_its_source_if_it_may(spark: SparkSession, tmp_path: Path, history: bool) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "into"

    def applied() -> dict[str, Any]:
        run = sync(lake, TOPIC, SyncOptions(into=into, history=history, widen=True), spark=spark)
        assert run.await_termination()
        return run.stopped

    keep(lake, TYPES)
    send(lake, [bill(1, at=1, types=TYPES)])
    assert not applied()
    wider = TableTypes("public", "bills", {**TYPES.columns, **target_types({"id": "bigint", "amount": "decimal(14,3)"})})
    other = TableTypes("public", "bills", {**wider.columns, **target_types({"note": "int"})})
    keep(lake, wider)
    send(
        lake,
        [bill(2, at=2, types=wider), bill(3_000_000_000, "12345678901.125", at=3, types=wider), bill(1, "7.00", at=4, types=wider)],
    )
    assert not applied()
    read = spark.read.format("delta").load(str(into / "bills")).where("__current" if history else "true")
    assert {name: kind for name, kind in read.dtypes if not name.startswith("__")} == {
        name: str(kind) for name, kind in wider.columns.items()
    }
    found = {row.id: row.amount for row in read.collect()}
    assert found == {1: Decimal("7.000"), 2: Decimal("1.500"), 3_000_000_000: Decimal("12345678901.125")}
    keep(lake, other)
    send(lake, [bill(4, "123456789012345.1", at=5, types=other)])
    (stop,) = applied()["public.bills"]
    assert "The source's type has values that decimal(14,3) has not" in stop.reason, "the source is not wider than that"


def test_widening_takes_spark(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="the sync without Spark cannot widen types"):
        sync(str(tmp_path), TOPIC, SyncOptions(into=tmp_path / "into", widen=True))


@pytest.mark.thorough  # a driver without Spark ends at every step; targets become wider above
def test_a_driver_that_ends_around_a_widening_and_one_that_loses_its_lease_there_go_on(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "into"

    def applied(steps: SyncSteps = NO_STEPS) -> None:
        run = sync(lake, TOPIC, SyncOptions(into=into, widen=True), spark=spark, steps=steps)
        assert run.await_termination()
        assert not run.stopped

    def found() -> tuple[str, list[int]]:
        read = spark.read.format("delta").load(str(into / "bills"))
        return dict(read.dtypes)["id"], sorted(row.id for row in read.collect())

    keep(lake, TYPES)
    send(lake, [bill(1, at=1, types=TYPES)])
    applied()
    wider = TableTypes("public", "bills", {**TYPES.columns, **target_types({"id": "bigint"})})
    widest = TableTypes("public", "bills", {**wider.columns, **target_types({"amount": "decimal(14,2)"})})
    for one in (wider, widest):
        keep(lake, one)
    send(lake, [bill(3_000_000_000, at=2, types=wider)])
    moments: tuple[tuple[Moment, str], ...] = (("before", "int"), ("after", "bigint"))
    for moment, kind in moments:
        with pytest.raises(Crash):
            applied(CrashAt("add columns", moment))
        assert found() == (kind, [1])
    applied()
    assert found() == ("bigint", [1, 3_000_000_000])
    send(lake, [bill(4, "12345678901.25", at=3, types=widest)])
    loses = Loses(lake, into, [("add columns", "before")])
    applied(loses)
    assert loses.lost == [("add columns", "before")]
    assert found() == ("bigint", [1, 4, 3_000_000_000])


@pytest.mark.thorough
@pytest.mark.parametrize("moment", ["in", "after"])
def test_a_retype_of_a_target_with_history_that_ends_leaves_one_form_and_spark_goes_on(
    spark: SparkSession, tmp_path: Path, moment: Moment
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "into"
    keep(lake, TYPES)
    for events in ([bill(1, at=1), bill(1, "2.00", at=2)], [bill(2, "3.00", at=3, types=TYPES)]):
        send(lake, events)
        assert sync(lake, TOPIC, SyncOptions(into=into, history=True), spark=spark).await_termination()
    before = rows(into / "bills", own=True)
    with pytest.raises(Crash):
        retype(lake, TOPIC, SyncOptions(into=into), steps=CrashAt("retype", moment))
    done = kinds(into)["amount"] == "decimal128(12, 2)"
    assert done is (moment == "after")
    assert len(rows(into / "bills", own=True)) == len(before) == 3
    send(lake, [bill(1, "7.00", at=4, types=TYPES)])
    run = sync(lake, TOPIC, SyncOptions(into=into, history=True), spark=spark)
    assert run.await_termination()
    assert (run.stopped, run.status.events) == ({}, 1)
    (again,) = retype(lake, TOPIC, SyncOptions(into=into))
    assert (again.version is None) is done
    versions = [(row["id"], row["amount"], row["__current"]) for row in rows(into / "bills", own=True)]
    assert sorted(versions) == [
        (1, Decimal("1.50"), False),
        (1, Decimal("2.00"), False),
        (1, Decimal("7.00"), True),
        (2, Decimal("3.00"), True),
    ]

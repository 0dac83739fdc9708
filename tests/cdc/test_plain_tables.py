"""Which tables deltalake may write in place of Spark, and how much of one a merge reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.cdc.delta.key_ranges import key_ranges_of
from penstock.cdc.delta.plain_tables import WriterRequirements, bytes_in_reach, is_plain


def field(name: str, kind: Any, *, nullable: bool = True, metadata: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata or {}}


PLAIN = WriterRequirements(
    1,
    2,
    frozenset(),
    {"penstock.sync": "{}", "delta.checkpointInterval": "50"},
    [field("id", "long"), field("amount", "decimal(12,2)", metadata={"comment": "in euros"}), field("at", "timestamp")],
    False,
)
WITH_FEATURES = replace(PLAIN, reader=3, writer=7, features=frozenset({"timestampNtz", "appendOnly", "invariants"}))


def test_tables_that_a_sync_makes_are_plain() -> None:
    assert is_plain(PLAIN)
    assert is_plain(WITH_FEATURES)
    assert is_plain(replace(PLAIN, writer=7, features=frozenset({"appendOnly"})))
    assert is_plain(replace(PLAIN, fields=[field("n", {"type": "array", "elementType": "decimal(4,2)", "containsNull": True})]))


@pytest.mark.parametrize(
    "demands",
    [
        replace(PLAIN, partitioned=True),
        replace(PLAIN, writer=3),
        replace(PLAIN, reader=2, writer=5),
        replace(PLAIN, reader=3, writer=8),
        *(
            replace(WITH_FEATURES, features=WITH_FEATURES.features | {name})
            for name in (
                "deletionVectors",
                "columnMapping",
                "clustering",
                "domainMetadata",
                "checkConstraints",
                "generatedColumns",
                "identityColumns",
                "changeDataFeed",
                "rowTracking",
                "inCommitTimestamp",
                "v2Checkpoint",
                "typeWidening",
                "catalogManaged",
                "not yet invented",
            )
        ),
        *(
            replace(PLAIN, settings={name: "true"})
            for name in (
                "delta.appendOnly",
                "delta.enableChangeDataFeed",
                "delta.constraints.positive",
                "delta.columnMapping.mode",
                "delta.autoOptimize.autoCompact",
                "delta.notYetInvented",
            )
        ),
        *(
            replace(PLAIN, fields=[*PLAIN.fields, one])
            for one in (
                field("n", "long", nullable=False),
                field("n", {"type": "array", "elementType": "long", "containsNull": False}),
                field("n", {"type": "array", "elementType": "variant", "containsNull": True}),
                field("n", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}),
                field("n", "variant"),
                field("n", "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}),
                field("n", "long", metadata={"delta.generationExpression": "id + 1"}),
                field("n", "long", metadata={"CURRENT_DEFAULT": "1"}),
            )
        ),
    ],
)
def test_whoever_asks_for_more_is_written_by_spark(demands: WriterRequirements) -> None:
    assert not is_plain(demands)


def files(least: pa.Array, most: pa.Array) -> pa.Table:
    return pa.table({"size_bytes": [1, 10, 100], "min.id": least, "max.id": most})


def bytes_of(found: pa.Table, keys: pa.Array) -> int:
    return bytes_in_reach(found, key_ranges_of(pa.table({"id": keys}), ["id"]))


def test_files_count_whose_range_has_a_key_of_the_batch() -> None:
    found = files(pa.array([0, 10, 20], pa.int64()), pa.array([9, 19, 29], pa.int64()))
    assert bytes_of(found, pa.array([3], pa.int64())) == 1
    assert bytes_of(found, pa.array([19], pa.int32())) == 10
    assert bytes_of(found, pa.array([9, 10], pa.int64())) == 11
    assert bytes_of(found, pa.array([5, 25], pa.int64())) == 101
    assert bytes_of(found, pa.array([0, 9, 19, 29], pa.int64())) == 111
    assert bytes_of(found, pa.array([30], pa.int64())) == 0
    assert bytes_of(found, pa.array([], pa.int64())) == 111
    assert bytes_in_reach(found, {}) == 111
    assert bytes_in_reach(found, {"other": [(3, 3)]}) == 111
    assert bytes_of(found.slice(0, 0), pa.array([3], pa.int64())) == 0


def test_a_file_is_in_reach_by_all_columns_of_the_key() -> None:
    found = files(pa.array([0, 10, 20], pa.int64()), pa.array([9, 19, 29], pa.int64()))
    found = found.append_column("min.day", pa.array(["a", "a", "b"])).append_column("max.day", pa.array(["a", "b", "b"]))
    assert bytes_in_reach(found, {"id": [(0, 29)], "day": [("b", "b")]}) == 110
    assert bytes_in_reach(found, {"id": [(0, 15)], "day": [("b", "b")]}) == 10


def test_files_of_unknown_range_count() -> None:
    found = files(pa.array(["a", None, "m"]), pa.array(["b", None, None]))
    assert bytes_of(found, pa.array(["a"])) == 11
    assert bytes_of(found, pa.array(["z"])) == 110


def test_times_with_a_zone_are_compared() -> None:
    def at(*years: int) -> pa.Array:
        return pa.array([datetime(year, 1, 1, tzinfo=UTC) for year in years], pa.timestamp("us", "UTC"))

    found = files(at(2020, 2021, 2022), at(2020, 2021, 2022))
    assert bytes_of(found, at(2021)) == 10

"""Targets by deltalake: what it finds, and what it refuses to do."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.cdc.changes import ALWAYS, NetChange
from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.events.sources import TableId
from penstock.cdc.sync.backends.merge_rows import batch_of, rows_schema
from penstock.cdc.target import Target, TargetOwner, TargetRefused
from penstock.log.errors import InvalidArgument, NotSupported
from tests.cdc.columns import target_column

OWNER = TargetOwner("changes", 1, "s")
TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(12,2)",
    "string",
    "binary",
    "date",
    "timestamp",
)
COLUMNS = (
    target_column("id", "bigint"),
    *(target_column(kind.replace("(", " ").rstrip(")"), kind) for kind in (*TYPES, "timestamp_ntz")),
)
TARGET = Target(TableId("s", "t"), "t", COLUMNS, ("id",))


def test_a_target_is_found_with_the_columns_that_it_was_made_with(tmp_path: Path) -> None:
    tables = DeltalakeTargets(str(tmp_path), by_position=True)
    assert (tables.find("t"), tables.written("t"), tables.exists("t")) == (None, None, False)
    tables.create(TARGET, OWNER)
    found = tables.find("t")
    assert found is not None
    assert (found.columns, found.others) == (COLUMNS, frozenset({"__position"}))
    assert found.written == tables.written("t")
    assert found.written is not None
    assert (found.written.owner, found.written.source, found.written.key) == (OWNER, TARGET.source, ("id",))


def test_a_target_s_log_has_a_checkpoint_before_it_is_long(tmp_path: Path) -> None:
    """Each merge reads what came since the last one."""
    tables = DeltalakeTargets(str(tmp_path), by_position=False)
    target = Target(TARGET.source, "t", COLUMNS[:1], ("id",))
    tables.create(target, OWNER)
    for number in range(1, 25):
        target = target.reached({0: number}, None)
        net = NetChange(put=True, values=(number,), column_positions=None, position=None, applies_up_to=ALWAYS, place=(0, number))
        rows = batch_of(target, schema := rows_schema(target, by_position=False), [((number,), net)])
        assert tables.merge(target, pa.Table.from_batches([rows], schema), OWNER, partial=False)
    assert list((tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))


def test_a_target_with_history_is_not_made(tmp_path: Path) -> None:
    tables = DeltalakeTargets(str(tmp_path), by_position=True)
    with pytest.raises(NotSupported, match="keeps no history"):
        tables.create(Target(TARGET.source, "t", COLUMNS, ("id",), history=True), OWNER)
    assert not tables.exists("t")


def test_a_target_with_column_mapping_gets_no_columns(tmp_path: Path) -> None:
    tables = DeltalakeTargets(str(tmp_path), by_position=False)
    tables.create(Target(TARGET.source, "t", COLUMNS[:1], ("id",)), OWNER)
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
            schema = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"], 1):
                field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
            action["metaData"]["schemaString"] = json.dumps(schema)
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    log.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(TargetRefused, match=r"has column mapping.*observed: new one.*engine='spark'"):
        tables.add_columns(TARGET, [target_column("new one", "string")])


def test_a_target_that_has_gone_is_named(tmp_path: Path) -> None:
    tables = DeltalakeTargets(str(tmp_path), by_position=False)
    for use in (lambda: tables.add_columns(TARGET, COLUMNS), lambda: tables.rows(TARGET, [(1,)])):
        with pytest.raises(InvalidArgument, match="the target has gone"):
            use()

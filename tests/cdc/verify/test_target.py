"""A target's rows, as the comparison reads them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from penstock.cdc.delta.location import Location
from penstock.cdc.events.sources import TableId
from penstock.cdc.target import Target, TargetOwner, encode_metadata
from penstock.cdc.verify.target import find_target, open_target
from penstock.log.errors import InvalidArgument, StoreUnavailable
from tests.cdc.columns import target_column


def test_all_rows_of_a_target_or_those_that_are_current(tmp_path: Path) -> None:
    plain, history = Location.of(str(tmp_path)).inside("plain"), Location.of(str(tmp_path)).inside("history")
    write_deltalake(plain.root, pa.table({"id": [1, 2], 'a "b"': ["x", "y"]}))
    write_deltalake(history.root, pa.table({"id": [1, 1, 2], "__current": [False, True, True]}))
    found = open_target(plain, "plain")
    assert found.columns() == ["id", 'a "b"']
    rows = sorted((row for batch in found.batches() for row in batch.to_pylist()), key=lambda row: row["id"])
    assert rows == [{"id": 1, 'a "b"': "x"}, {"id": 2, 'a "b"': "y"}]
    assert [batch.schema.names for batch in found.batches(['a "b"'])] == [['a "b"']]
    assert sorted(row for batch in open_target(history, "history").batches(["id"]) for row in batch["id"].to_pylist()) == [1, 2]


def test_the_key_is_what_the_newest_commit_of_a_sync_says(tmp_path: Path) -> None:
    place = Location.of(str(tmp_path / "t"))
    write_deltalake(place.root, pa.table({"id": [1], "other": [1]}))
    assert open_target(place, "t").key() == ()
    for key in ("other", "id"):
        target = Target(TableId("s", "t"), "t", (target_column("id", "bigint"),), (key,))
        said = CommitProperties(custom_metadata={"userMetadata": encode_metadata(TargetOwner("changes", 1, "s"), target)})
        write_deltalake(place.root, pa.table({"id": [1], "other": [1]}), mode="append", commit_properties=said)
    write_deltalake(place.root, pa.table({"id": [1], "other": [1]}), mode="append")
    assert open_target(place, "t").key() == ("id",)


def test_a_target_that_is_not_there_or_cannot_be_read_is_named(tmp_path: Path) -> None:
    place = Location.of(str(tmp_path / "t"))
    assert find_target(place, "t") is None
    with pytest.raises(InvalidArgument, match="there is no such target"):
        open_target(place, "t")
    write_deltalake(place.root, pa.table({"id": [1]}))
    found = open_target(place, "t")
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        list(found.batches())

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path

import pytest

from penstock.cdc.events.sources import TableId
from penstock.cdc.events.table_types import TableTypes, decode_types, is_types_name, joined_types, types_key
from penstock.cdc.sync.options import SyncOptions
from penstock.cdc.sync.plan import SyncPlan
from penstock.cdc.sync.targets.source_types import SourceTypes
from penstock.coordinator.lakes import LakePlace
from penstock.log.errors import DataDamaged, NewerFormatError
from tests.cdc.columns import target_types

TABLE = TableTypes("public", "a", target_types({"id": "int", "ß": "decimal(5,2)"}))


def test_an_object_is_called_by_its_content() -> None:
    assert decode_types(TABLE.data, TABLE.name, where="here") == TABLE
    assert is_types_name(TABLE.name)
    assert TableTypes("public", "a", target_types({"ß": "decimal(5,2)", "id": "int"})).name != TABLE.name
    assert types_key("%DLQ%x", TABLE.name) == f"captures/dlq.x/types/{TABLE.name}"


def test_a_type_that_no_target_can_have_is_text() -> None:
    later = b'{"format":1,"schema":"public","table":"a","columns":{"id":"int","v":"variant"}}'
    name = blake2b(later, digest_size=8).hexdigest()
    assert decode_types(later, name, where="here").columns == target_types({"id": "int", "v": "string"})


@pytest.mark.parametrize("data", [b"", b"[]", b'{"format":1}', TABLE.data + b" ", TABLE.data.replace(b"5,2", b"5,3")])
def test_an_object_that_is_not_what_its_name_says(data: bytes) -> None:
    with pytest.raises(DataDamaged):
        decode_types(data, TABLE.name, where="here")


def test_an_object_of_a_later_version() -> None:
    with pytest.raises(NewerFormatError):
        decode_types(json.dumps({"format": 2, "columns": []}).encode(), TABLE.name, where="here")


@pytest.mark.parametrize("name", ["", "../x", "0123456789abcde", "0123456789ABCDEF", "0123456789abcdef\n"])
def test_names_that_an_event_may_not_give(name: str) -> None:
    assert not is_types_name(name)


def test_a_column_of_several_forms_holds_the_values_of_all() -> None:
    wider = TableTypes("public", "a", target_types({"id": "bigint", "more": "date"}))
    other = TableTypes("public", "a", target_types({"more": "timestamp"}))
    assert joined_types([TABLE, wider, other]) == target_types({"id": "bigint", "ß": "decimal(5,2)", "more": "string"})
    assert joined_types([]) == {}


def test_what_is_no_object_s_name_is_not_looked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever may send events could name any other object of the lake."""
    lake = tmp_path / "lake"
    (lake / "captures" / "t" / "types").mkdir(parents=True)
    (lake / "captures" / "t" / TABLE.name).write_bytes(TABLE.data)
    plan = SyncPlan.of(LakePlace.of(lake), "t", SyncOptions(into=tmp_path))
    for name in (f"../{TABLE.name}", "/", "\ud800", "x" * 5_000):
        assert SourceTypes(plan).joined(TableId("public", "a"), [name]) == {}
    assert caplog.messages == []
    assert SourceTypes(plan).joined(TableId("public", "a"), [TABLE.name]) == {}
    assert "is not there" in caplog.text

"""The Iceberg metadata as a pure function: columns and their numbers, what a snapshot changes, and which manifests it keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.name_mapping import parse_mapping_from_json

from penstock.log.errors import DataDamaged, NotSupported
from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.schema.arrow_types import arrow_fields
from penstock.log.schema.evolution import evolve
from penstock.log.schema.fields import Field, PrimitiveType, StructType
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from penstock.log.table.delta.segments import TableFile
from penstock.log.table.delta.snapshot import Snapshot
from penstock.log.table.delta.table_metadata import TableMetadata
from penstock.log.table.delta.table_schema import UNTYPED, VERSION_PROPERTY
from penstock.log.table.iceberg import plan as planning
from penstock.log.table.iceberg.columns import FIRST_VALUE_ID, MESSAGE_FIELDS, columns_of, struct_fields
from penstock.log.table.iceberg.location import lake_location
from penstock.log.table.iceberg.manifests import Manifest, ManifestStatus
from penstock.log.table.iceberg.plan import (
    MANIFEST_ENTRIES,
    MANIFESTS_MERGED,
    IcebergVersion,
    is_known,
    kept_snapshots,
    next_table,
    plan,
)
from penstock.log.table.iceberg.table_metadata import DELTA_VERSION, IcebergSnapshot, decode_table, encode_table
from tests.log.schema.strategies import any_fields


def file_of(queue: int, first: int, limit: int, *, name: str = "a") -> TableFile:
    return TableFile(
        path=f"queue={queue}/{first}-{limit - 1}-{name}.parquet",
        queue=queue,
        first_offset=first,
        limit_offset=limit,
        rows=limit - first,
        size_bytes=1000,
        store_first_ms=first,
        store_last_ms=limit,
    )


def snapshot_with(*files: TableFile, version: int = 1) -> Snapshot:
    of_queue: dict[int, tuple[TableFile, ...]] = {}
    for file in files:
        of_queue[file.queue] = (*of_queue.get(file.queue, ()), file)
    metadata = TableMetadata("11111111-2222-3333-4444-555555555555", "{}", ("queue",))
    return Snapshot("table", version=version, metadata=metadata, files=of_queue, time_ms=version)


class Chain:
    """Snapshots one after the other, with the manifests that each leaves."""

    def __init__(self) -> None:
        self.manifests: tuple[Manifest, ...] = ()
        self.number = 0

    def step(self, *files: TableFile) -> planning.ManifestPlan:
        self.number += 1
        planned = plan(
            self.manifests, snapshot_with(*files, version=self.number), snapshot_id=self.number, sequence_number=self.number
        )
        written = [
            Manifest(f"m{self.number}-{place}", 1, self.number, self.number, entries)
            for place, entries in enumerate(planned.written)
        ]
        self.manifests = (*written, *planned.kept)
        return planned

    @property
    def live(self) -> list[str]:
        return sorted(entry.path for manifest in self.manifests for entry in manifest.entries if entry.is_live)


A, B, C = file_of(0, 0, 10), file_of(0, 10, 20), file_of(1, 0, 5)


def test_an_append_keeps_the_manifests_and_writes_one() -> None:
    chain = Chain()
    chain.step(A)
    before = chain.manifests
    planned = chain.step(A, B, C)
    assert planned.kept == before
    assert [[(entry.status, entry.path) for entry in entries] for entries in planned.written] == [
        [(ManifestStatus.ADDED, B.path), (ManifestStatus.ADDED, C.path)]
    ]
    assert planned.operation == "append"
    assert planned.summary == {
        "added-data-files": "2",
        "added-records": "15",
        "total-data-files": "3",
        "total-records": "25",
        "total-files-size": "3000",
        DELTA_VERSION: "2",
    }


def test_a_removed_file_is_told_once_and_then_forgotten() -> None:
    chain = Chain()
    chain.step(A, B, C)
    planned = chain.step(B, C)
    assert planned.kept == ()
    (entries,) = planned.written
    assert [(entry.status, entry.path, entry.snapshot_id, entry.sequence_number) for entry in entries] == [
        (ManifestStatus.DELETED, A.path, 2, 1),
        (ManifestStatus.EXISTING, B.path, 1, 1),
        (ManifestStatus.EXISTING, C.path, 1, 1),
    ]
    assert planned.operation == "delete"
    chain.step(B)
    assert chain.live == [B.path]
    assert [entry.path for manifest in chain.manifests for entry in manifest.entries] == [B.path, C.path]


def test_a_manifest_without_live_files_is_no_longer_listed() -> None:
    chain = Chain()
    chain.step(A)
    chain.step()
    assert [entry.status for manifest in chain.manifests for entry in manifest.entries] == [ManifestStatus.DELETED]
    assert chain.step().kept == ()
    assert chain.manifests == ()


@pytest.mark.parametrize(
    ("before", "after", "operation"),
    [
        ([], [], "append"),
        ([A], [A, B], "append"),
        ([A, B], [B], "delete"),
        ([A, B], [file_of(0, 0, 20)], "replace"),
        ([A, B, C], [file_of(0, 0, 20), file_of(1, 0, 9)], "overwrite"),
        ([A, B], [file_of(0, 0, 30)], "overwrite"),
        ([A, B], [file_of(0, 0, 20), C], "overwrite"),
        ([A, C], [B], "overwrite"),
    ],
)
def test_a_change_has_the_name_that_iceberg_gives_it(before: list[TableFile], after: list[TableFile], operation: str) -> None:
    chain = Chain()
    chain.step(*before)
    assert chain.step(*after).operation == operation


@given(st.lists(st.sets(st.integers(0, 30)), min_size=1, max_size=12), st.integers(1, 6), st.integers(2, 6))
def test_manifests_list_the_files_of_each_snapshot_whatever_came_before(steps: list[set[int]], entries: int, merged: int) -> None:
    files = [file_of(number % 3, number * 10, number * 10 + 7) for number in range(31)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "MANIFEST_ENTRIES", entries)
        patch.setattr(planning, "MANIFESTS_MERGED", merged)
        chain = Chain()
        known: dict[str, int] = {}
        for step in steps:
            wanted = [files[number] for number in step]
            planned = chain.step(*wanted)
            assert chain.live == sorted(file.path for file in wanted)
            new = [entry for written in planned.written for entry in written]
            assert {entry.path for entry in new if entry.status is ManifestStatus.ADDED} == {
                file.path for file in wanted
            } - known.keys()
            assert {entry.path for entry in new if entry.status is ManifestStatus.DELETED} == known.keys() - {
                file.path for file in wanted
            }
            known = {file.path: known.get(file.path, chain.number) for file in wanted}
            found = {entry.path: entry.sequence_number for one in chain.manifests for entry in one.entries if entry.is_live}
            assert found == known
            assert all(0 < len(one.entries) <= entries for one in chain.manifests)


def test_few_manifests_hold_thousands_of_files() -> None:
    chain, files = Chain(), [file_of(queue, first, first + 10) for first in range(0, 2000, 10) for queue in range(16)]
    for limit in range(0, len(files) + 1, 16):
        chain.step(*files[:limit])
    assert len(chain.manifests) < len(files) / MANIFEST_ENTRIES + 1 + MANIFESTS_MERGED
    planned = chain.step(*files[1:])
    assert sum(map(len, planned.written)) <= MANIFEST_ENTRIES


# --- snapshots


def listed(*times: int) -> tuple[IcebergSnapshot, ...]:
    return tuple(
        IcebergSnapshot(time, None, time, time, f"list-{time}", {"operation": "append", DELTA_VERSION: "1"}, 0) for time in times
    )


@pytest.mark.parametrize(
    ("times", "now_ms", "kept"),
    [
        ([5], 10**12, [5]),
        ([5, 6], 6 + planning.SNAPSHOT_KEPT_MS, [5, 6]),
        ([5, 6], 7 + planning.SNAPSHOT_KEPT_MS, [6]),
        (list(range(30)), 30, list(range(30 - planning.SNAPSHOTS_KEPT, 30))),
    ],
)
def test_the_newest_snapshots_are_kept_for_a_day_after_they_were_followed(times: list[int], now_ms: int, kept: list[int]) -> None:
    assert [one.id for one in kept_snapshots(listed(*times), now_ms=now_ms)] == kept


def test_the_metadata_is_read_back_as_it_was_written() -> None:
    columns = columns_of(None)
    new = listed(7)[0]
    table = next_table(None, snapshot_with(A), columns, location="s3://lake/t", new=new, now_ms=9, write_id="w")
    data = encode_table(table)
    assert decode_table(data, version=1, where="here") == table
    found = TableMetadataUtil.parse_raw(data.decode())
    assert found.format_version == 2
    assert found.schema().schema_id == 0
    assert found.spec().fields[0].name == "queue"
    # A newer version of the topic's schema needs no new snapshot, and an older writer does not bring the old one back.
    typed = columns_of(first_schema((Field("a", PrimitiveType.INT),)))
    after = next_table(table, snapshot_with(A), typed, location="s3://lake/t", new=None, now_ms=10, write_id="x")
    assert (after.version, after.snapshots, after.schema_id) == (2, table.snapshots, 1)
    assert [schema["schema-id"] for schema in after.schemas] == [0, 1]
    again = next_table(after, snapshot_with(A), columns, location="s3://lake/t", new=None, now_ms=8, write_id="y")
    assert (again.schema_id, again.updated_ms, again.last_column_id) == (1, 10, after.last_column_id)


@pytest.mark.parametrize("changed", [{"current-schema-id": 1}, {"schemas": []}])
def test_metadata_whose_current_schema_is_not_the_last_is_damaged(changed: dict[str, Any]) -> None:
    table = next_table(None, snapshot_with(A), columns_of(None), location="s3://lake/t", new=listed(7)[0], now_ms=9, write_id="w")
    document = json.dumps(json.loads(encode_table(table)) | changed).encode()
    with pytest.raises(DataDamaged, match=r"not the metadata of the Iceberg table.*current schema is not the last"):
        decode_table(document, version=1, where="here")


def test_a_table_that_was_copied_begins_anew_at_its_new_place() -> None:
    first, second = listed(7, 8)
    table = next_table(None, snapshot_with(A), columns_of(None), location="s3://old/t", new=first, now_ms=9, write_id="w")
    stays = next_table(table, snapshot_with(A), columns_of(None), location="s3://old/t", new=second, now_ms=9, write_id="x")
    copied = next_table(table, snapshot_with(A), columns_of(None), location="s3://new/t", new=second, now_ms=9, write_id="x")
    assert (stays.snapshots, copied.snapshots) == ((first, second), (second,)), "what is listed for the old place lies there"


def test_files_of_a_version_that_nobody_here_has_read_of_are_not_listed() -> None:
    def delta(version: int, *files: TableFile) -> Snapshot:
        found = snapshot_with(*files)
        assert found.metadata is not None
        return replace(found, metadata=msgspec.structs.replace(found.metadata, configuration={VERSION_PROPERTY: str(version)}))

    first = first_schema((Field("a", PrimitiveType.INT),))
    of_first, of_second = columns_of(first), columns_of(evolve(first, (Field("a", PrimitiveType.BIGINT),)))
    table = next_table(None, delta(2, A), of_second, location="s3://lake/t", new=listed(7)[0], now_ms=9, write_id="w")
    assert [is_known(None, delta(version, A), of_first) for version in (1, 2)] == [True, False]
    assert is_known(None, delta(2), of_first), "there are no files"
    assert [is_known(IcebergVersion(table, ()), delta(version, A), of_first) for version in (2, 3)] == [True, False]


# --- columns


def iceberg_schema(schema: TopicSchema | None) -> Schema:
    return Schema.model_validate_json(json.dumps(columns_of(schema).schema))


def test_the_columns_of_messages_are_those_of_the_table() -> None:
    ours = {field.name: field for field in arrow_fields(MESSAGE_FIELDS)}
    assert [ours[field.name] for field in MESSAGE_SCHEMA] == list(MESSAGE_SCHEMA)
    assert [(field.name, field.id) for field in MESSAGE_FIELDS] == [(column.name, column.id) for column in UNTYPED.columns]
    assert schema_to_pyarrow(iceberg_schema(None), include_field_ids=False).names == list(ours)


def test_the_numbers_of_message_columns_never_change() -> None:
    numbers = {field.name: tuple(_numbers({"fields": struct_fields((field,))})) for field in MESSAGE_FIELDS}
    assert numbers == {
        "queue": (1,),
        "offset": (2,),
        "message_id": (3,),
        "message_group": (4,),
        "tag": (5,),
        "keys": (6, 101),
        "properties": (7, 102, 103),
        "body": (8,),
        "born_timestamp": (9,),
        "store_timestamp": (10,),
        "delivery_timestamp": (11,),
        "producer": (12,),
        "key": (13,),
        "headers": (14, 104, 105, 106),
    }


@given(any_fields())
def test_every_schema_is_one_of_iceberg_with_a_name_for_each_number(drawn: StructType) -> None:
    schema = first_schema(drawn.fields)
    found = iceberg_schema(schema)
    numbers = _numbers(columns_of(schema).schema)
    assert len(numbers) == len(set(numbers))
    assert max(numbers) <= columns_of(schema).last_id == FIRST_VALUE_ID + schema.last_id
    parse_mapping_from_json(json.dumps(columns_of(schema).name_mapping))
    mapped = _mapped(columns_of(schema).name_mapping)
    assert sorted(mapped) == sorted(numbers)
    value = found.find_field("value")
    shown = schema_to_pyarrow(iceberg_schema(schema), include_field_ids=False).field("value").type
    assert [shown.field(n).name for n in range(shown.num_fields)] == [field.name for field in schema.live]
    assert not value.required


def test_a_renamed_field_keeps_its_number_and_files_name_it_as_before() -> None:
    first = first_schema((Field("a", PrimitiveType.INT), Field("b", PrimitiveType.STRING)))
    renamed = evolve(first, (Field("c", PrimitiveType.BIGINT), Field("b", PrimitiveType.STRING)), rename={"a": "c"})
    value = iceberg_schema(renamed).find_field("value.c")
    assert (value.field_id, str(value.field_type)) == (FIRST_VALUE_ID + 1, "long")
    mapping = columns_of(renamed).name_mapping[-1]["fields"]
    assert mapping == [{"field-id": FIRST_VALUE_ID + 1, "names": ["a"]}, {"field-id": FIRST_VALUE_ID + 2, "names": ["b"]}]


def test_a_retired_field_leaves_the_schema_and_stays_mapped() -> None:
    """Files still have it, and its name may be used again: the new field has another number, and another name in files."""
    first = first_schema((Field("a", PrimitiveType.INT), Field("b", PrimitiveType.STRING)))
    retired = evolve(first, (Field("b", PrimitiveType.STRING),), retire=["a"])
    again = evolve(retired, (Field("b", PrimitiveType.STRING), Field("a", PrimitiveType.STRING)))
    found = iceberg_schema(again)
    assert {name: found.find_field(f"value.{name}").field_id for name in "ab"} == {"b": FIRST_VALUE_ID + 2, "a": FIRST_VALUE_ID + 3}
    mapping = columns_of(again).name_mapping[-1]["fields"]
    assert [(one["field-id"] - FIRST_VALUE_ID, one["names"]) for one in mapping] == [(1, ["a"]), (2, ["b"]), (3, ["a__3"])]


def _numbers(type_: Any) -> list[int]:
    """The ids in a schema, at any depth."""
    match type_:
        case {"fields": fields}:
            return [number for field in fields for number in (field["id"], *_numbers(field["type"]))]
        case {"element-id": number, "element": element}:
            return [number, *_numbers(element)]
        case {"key-id": key_id, "key": key, "value-id": value_id, "value": value}:
            return [key_id, *_numbers(key), value_id, *_numbers(value)]
        case _:
            return []


def _mapped(mapping: list[dict[str, Any]]) -> list[int]:
    return [number for one in mapping for number in (one["field-id"], *_mapped(one.get("fields", [])))]


# --- places


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("file:///home/me/a%20lake", "file:///home/me/a lake"),
        ("s3://bucket/prod/lake?region=eu-west-1&endpoint=http://here", "s3://bucket/prod/lake"),
        ("s3://bucket", "s3://bucket"),
        ("gs://bucket/lake", "gs://bucket/lake"),
        ("az://container/lake?account=mine", "abfss://container@mine.dfs.core.windows.net/lake"),
        ("memory://name", "memory://name"),
    ],
)
def test_a_lake_s_url_becomes_the_uri_that_engines_know(url: str, location: str) -> None:
    assert lake_location(url) == location


@pytest.mark.parametrize(
    ("url", "told"), [("file:///a%3Fb", "cannot find files"), ("file:///100%25", "cannot find"), ("az://container/lake", "account")]
)
def test_a_place_that_no_engine_finds_is_refused(url: str, told: str) -> None:
    with pytest.raises(NotSupported, match=told):
        lake_location(url)


def test_stamps_of_a_version_never_go_back() -> None:
    table = next_table(None, snapshot_with(A), columns_of(None), location="s3://l/t", new=listed(7)[0], now_ms=3, write_id="w")
    assert table.updated_ms == 7
    later = replace(table, updated_ms=50)
    after = next_table(later, snapshot_with(A), columns_of(None), location="s3://l/t", new=listed(9)[0], now_ms=3, write_id="w")
    assert after.updated_ms == 50

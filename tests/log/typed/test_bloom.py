"""Bloom filters of chosen fields: every file of the table has them, whoever wrote it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.log import TopicSettings
from penstock.log.errors import InvalidArgument, TopicExists
from penstock.log.schema.topic_schema import schema_of_source
from penstock.log.topic.settings import TopicRecord, decode_record, encode_record
from tests.log.typed.lakes import TypedLake, typed_lake

SCHEMA = """id bigint, name string, raw binary, day date, at timestamp, place struct<zip: int, city: string>, ok boolean, x double,
    amount decimal(12,2), tags array<string>"""
FIELDS = ("name", "raw", "day", "at", "place.zip", "id")


def filters(lake: TypedLake) -> list[set[str]]:
    """The fields that each file of the table has filters of."""
    files = [bytes(one.data) for key, one in sorted(lake.store._objects.items()) if "/table/queue=" in key]
    found: list[set[str]] = []
    for data in files:
        group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
        columns = [group.column(place) for place in range(group.num_columns)]
        found.append({one.path_in_schema for one in columns if one.bloom_filter_offset is not None})
    return found


def test_the_publisher_and_the_compactor_write_them_across_evolutions() -> None:
    with typed_lake(SCHEMA, bloom=FIELDS) as lake:
        rows: list[Any] = [{"id": at, "name": f"n{at}", "at": datetime.now(UTC), "amount": Decimal(1)} for at in range(100)]
        lake.send(*rows)
        lake.upkeep()
        later = SCHEMA.replace("name string", "called string").replace("zip: int", "zip: bigint")
        lake.lake.evolve_topic("orders", later, rename={"name": "called"})
        lake.send({"id": 1, "called": "n", "place": {"zip": 2**40}})
        lake.upkeep()
        expected = {"message_id", "message_group", "keys.list.element", *(f"value.{path}" for path in FIELDS)}
        found = filters(lake)
        assert len(found) >= 2
        assert all(one == expected for one in found)


def test_settings_keep_them_and_a_topic_is_another_without_them() -> None:
    schema = schema_of_source(SCHEMA)
    record = TopicRecord(settings=TopicSettings(schema=schema, bloom=FIELDS), incarnation="i")
    assert decode_record(encode_record(record), where="topic.json") == record
    with typed_lake(SCHEMA, bloom=["name"]) as lake:
        lake.lake.create_topic("orders", queues=1, schema=SCHEMA, bloom="name")
        assert lake.lake.topics()["orders"].settings.bloom == ("name",)
        with pytest.raises(TopicExists):
            lake.lake.create_topic("orders", queues=1, schema=SCHEMA, bloom=["id"])


@pytest.mark.parametrize("path", ["ok", "x", "amount", "tags", "tags.element", "place", "nobody", 7])
def test_what_has_no_filter_is_refused(path: Any) -> None:
    with pytest.raises(InvalidArgument, match="files cannot have a Bloom filter of this field"):
        TopicSettings(schema=schema_of_source(SCHEMA), bloom=(path,))
    with pytest.raises(InvalidArgument, match="a topic without a schema has no fields"):
        TopicSettings(bloom=(path,))

"""What Debezium's connectors write, in each of their modes, and what becomes of it: docs/0010 has the table."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.cdc.events.debezium import is_control, parse_change
from penstock.cdc.events.sources import Source
from penstock.cdc.fold.fold import Fold, Plan
from tests.cdc.applied import Memory
from tests.cdc.reference import Message

COMMON = {"version": "3.0.0.Final", "name": "srv", "ts_ms": 1_700_000_000_000, "snapshot": "false", "table": "t"}
CONNECTORS: dict[str, tuple[dict[str, Any], Source, bool]] = {
    "postgresql": (
        {"db": "d", "schema": "public", "lsn": 808, "sequence": '["800", "808"]', "txId": 5, "xmin": None},
        Source("public", "t", "d", "srv"),
        False,
    ),
    "mysql": ({"db": "d", "file": "b.000003", "pos": 4, "row": 0, "gtid": None, "thread": 7}, Source("d", "t", None, "srv"), True),
    "mariadb": ({"db": "d", "file": "b.000003", "pos": 4, "row": 0, "gtid": "0-1-2"}, Source("d", "t", None, "srv"), True),
    "sqlserver": (
        {"db": "d", "schema": "dbo", "change_lsn": "27:ac0:2", "commit_lsn": "27:ac0:3", "event_serial_no": 1},
        Source("dbo", "t", "d", "srv"),
        False,
    ),
    "oracle": ({"db": "D", "schema": "S", "scn": "1", "commit_scn": "2", "ssn": 0}, Source("S", "t", "D", "srv"), False),
    "db2": ({"db": "D", "schema": "S", "change_lsn": "1:2", "commit_lsn": "3:4"}, Source("S", "t", "D", "srv"), False),
    "vitess": ({"db": "", "keyspace": "k", "vgtid": "[]", "shard": "-80"}, Source("k", "t", None, "srv"), False),
    "spanner": ({"project_id": "p", "instance_id": "i", "database_id": "d"}, Source("d", "t", None, "srv"), False),
}


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("schemas", [False, True])
def test_the_life_of_a_row_by_each_connector(connector: str, schemas: bool) -> None:
    said, source, positioned = CONNECTORS[connector]

    def message(offset: int, op: str, before: Any, after: Any) -> Message:
        value: Any = {"op": op, "before": before, "after": after, "source": COMMON | {"connector": connector} | said, "ts_ms": 1}
        key: Any = {"id": 1}
        if schemas:
            fields = [{"field": "id", "type": "int32"}, {"field": "v", "type": "string"}]
            rows = [{"field": name, "type": "struct", "fields": fields} for name in ("before", "after")]
            key = {"schema": {"type": "struct", "fields": fields[:1]}, "payload": key}
            value = {"schema": {"type": "struct", "fields": rows}, "payload": value}
        return Message(0, offset, json.dumps({"key": key, "value": value}).encode())

    row, later = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}
    told = [message(0, "r", None, row), message(1, "u", None, later), message(2, "u", row, later), message(3, "d", later, None)]
    tables = Memory()
    for one, wanted in zip(told, [{(1,): row}, {(1,): later}, {(1,): later}, {}], strict=True):
        tables.apply([one])
        assert tables.tables.keys() == {source}
        assert tables.rows() == {"t": wanted}
    change = parse_change(json.loads(told[0].body))
    assert change is not None
    assert (change.position is not None) == positioned
    assert parse_change({"key": {"id": 1}, "value": None}) is None


@pytest.mark.parametrize(
    "value",
    [
        {"ts_ms": 1},
        {"status": "BEGIN", "id": "5:1", "event_count": None, "data_collections": None, "ts_ms": 1},
        {"status": "END", "id": "5:1", "event_count": 1, "data_collections": [], "ts_ms": 1},
        {"source": {"db": "d"}, "databaseName": "d", "schemaName": None, "ddl": "CREATE TABLE t", "tableChanges": []},
        {"source": {"db": "d"}, "ddl": "CREATE TABLE t"},
        {"source": {"db": "d"}, "tableChanges": []},
    ],
)
def test_events_about_the_stream_change_nothing(value: Any) -> None:
    assert is_control({"key": {}, "value": value})
    assert is_control({"schema": {}, "payload": value})


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "v": "a"},
        {"id": 1, "v": "a", "__op": "c", "__deleted": "false", "__table": "t"},
        {"id": 1, "status": "paid"},
        {"id": 1, "status": "END", "event_count": 2, "total": 3},
        {"id": 1, "source": "web", "ddl": "none"},
        {"id": 1, "source": {"web": 1}},
        {"op": "c", "after": '{"_id": 1}', "source": {"connector": "mongodb", "db": "d", "collection": "c"}},
    ],
)
def test_what_has_no_envelope_of_a_table_is_refused_by_name(value: Any) -> None:
    """As ExtractNewRecordState unwraps it, and MongoDB's documents."""
    fold = Fold(Plan({}))
    fold.add(0, 0, json.dumps({"key": {"id": 1}, "value": value}).encode())
    assert fold.result().broken[0].reason.startswith(("this is no Debezium envelope", "the event does not name its table"))


def time(kind: str) -> dict[str, str]:
    text = kind.startswith(("Iso", "Zoned"))
    return {"type": "string" if text else "int64", "name": f"io.debezium.time.{kind}"}


DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
INSTANT = datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
MODES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "decimal: precise": (DECIMAL, "MDk=", Decimal("123.45")),
    "decimal: precise, of any scale": (
        {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
        {"scale": 2, "value": "MDk="},
        "123.45",
    ),
    "decimal: double": ({"type": "double"}, 123.45, 123.45),
    "decimal: string": ({"type": "string"}, "123.45", "123.45"),
    "time: adaptive, milliseconds": (time("Timestamp"), 1_700_000_000_123, INSTANT),
    "time: adaptive, microseconds": (time("MicroTimestamp"), 1_700_000_000_123_000, INSTANT),
    "time: nanoseconds": (time("NanoTimestamp"), 1_700_000_000_123_000_000, INSTANT),
    "time: connect": ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, 1_700_000_000_123, INSTANT),
    "time: isostring": (time("IsoTimestamp"), "2023-11-14T22:13:20.123Z", INSTANT),
    "time: isostring, date": (time("IsoDate"), "2023-11-14Z", date(2023, 11, 14)),
    "time: with a zone": (time("ZonedTimestamp"), "2023-11-14T23:13:20.123+01:00", INSTANT),
    "time: date": ({"type": "int32", "name": "io.debezium.time.Date"}, 19_675, date(2023, 11, 14)),
    "time: connect, date": ({"type": "int32", "name": "org.apache.kafka.connect.data.Date"}, 19_675, date(2023, 11, 14)),
    "time: of day": (time("MicroTime"), 3_600_000_000, 3_600_000_000),
    "time: of day, with a zone": (time("ZonedTime"), "10:00:00Z", "10:00:00Z"),
    "binary: bytes": ({"type": "bytes"}, "AP8=", b"\x00\xff"),
    "binary: base64": ({"type": "string"}, "AP8=", "AP8="),
    "binary: hex": ({"type": "string"}, "00ff", "00ff"),
    "hstore: json": ({"type": "string", "name": "io.debezium.data.Json"}, '{"a":"1"}', '{"a":"1"}'),
    "hstore: map": ({"type": "map"}, {"a": "1"}, '{"a":"1"}'),
    "interval: numeric": (time("MicroDuration"), 5, 5),
    "interval: string": ({"type": "string", "name": "io.debezium.time.Interval"}, "P1DT0S", "P1DT0S"),
    "array": ({"type": "array"}, [1, None], "[1,null]"),
    "bits": ({"type": "bytes", "name": "io.debezium.data.Bits"}, "BQ==", b"\x05"),
}


@pytest.mark.parametrize("mode", MODES)
def test_values_in_each_mode_by_the_events_own_schema(mode: str) -> None:
    field, said, held = MODES[mode]
    fields = [{"field": "id", "type": "int32"}, {**field, "field": "v"}]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    payload = {"op": "c", "before": None, "after": {"id": 1, "v": said}, "source": {"table": "t"}}
    body = json.dumps({"key": {"id": 1}, "value": {"schema": schema, "payload": payload}}).encode()
    tables = Memory()
    tables.apply([Message(0, 0, body)])
    assert tables.stopped == {}
    assert tables.rows() == {"t": {(1,): {"id": 1, "v": held}}}

"""What Debezium's connectors write, in each of their modes, and what becomes of it: docs/0010 has the table."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from penstock.cdc.events.conversion import UnfitValue
from penstock.cdc.events.debezium import is_control, parse_change
from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.fold import Fold
from penstock.cdc.fold.plan import FoldPlan
from penstock.cdc.target import TableDeclarations
from tests.cdc.applied import Memory
from tests.cdc.modes import AT, CLOCK, INSTANT, LOCAL, MODES, column, decimal, time, unscaled
from tests.cdc.reference import Message

COMMON = {"version": "3.0.0.Final", "name": "srv", "ts_ms": 1_700_000_000_000, "snapshot": "false", "table": "t"}
CONNECTORS: dict[str, tuple[dict[str, Any], TableId, bool]] = {
    "postgresql": (
        {"db": "d", "schema": "public", "lsn": 808, "sequence": '["800", "808"]', "txId": 5, "xmin": None},
        TableId("public", "t", "d", "srv"),
        False,
    ),
    "mysql": ({"db": "d", "file": "b.000003", "pos": 4, "row": 0, "gtid": None, "thread": 7}, TableId("d", "t", None, "srv"), True),
    "mariadb": ({"db": "d", "file": "b.000003", "pos": 4, "row": 0, "gtid": "0-1-2"}, TableId("d", "t", None, "srv"), True),
    "sqlserver": (
        {"db": "d", "schema": "dbo", "change_lsn": "27:ac0:2", "commit_lsn": "27:ac0:3", "event_serial_no": 1},
        TableId("dbo", "t", "d", "srv"),
        False,
    ),
    "oracle": ({"db": "D", "schema": "S", "scn": "1", "commit_scn": "2", "ssn": 0}, TableId("S", "t", "D", "srv"), False),
    "db2": ({"db": "D", "schema": "S", "change_lsn": "1:2", "commit_lsn": "3:4"}, TableId("S", "t", "D", "srv"), False),
    "vitess": ({"db": "", "keyspace": "k", "vgtid": "[]", "shard": "-80"}, TableId("k", "t", None, "srv"), False),
    "spanner": ({"project_id": "p", "instance_id": "i", "database_id": "d"}, TableId("d", "t", None, "srv"), False),
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
    fold = Fold(FoldPlan({}))
    fold.add(0, 0, json.dumps({"key": {"id": 1}, "value": value}).encode())
    assert fold.result().broken[0].reason.startswith(("this is no Debezium envelope", "the event does not name its table"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wrapped", ["value", "both"])
def test_values_in_each_mode_by_the_events_own_schema(mode: str, wrapped: str) -> None:
    field, said, type_, held = MODES[mode]
    fields = [{"field": "id", "type": "int32"}, {**field, "field": "v"}]
    of_value = {"field": "value", "type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    payload = {"op": "c", "before": None, "after": {"id": 1, "v": said}, "source": {"table": "t", "version": "3.0.0.Final"}}
    event: Any = {"key": {"id": 1}, "value": {"schema": of_value, "payload": payload}}
    if wrapped == "both":
        event = {"schema": {"type": "struct", "fields": [of_value]}, "payload": {"key": {"id": 1}, "value": payload}}
    tables = Memory()
    tables.apply([Message(0, 0, json.dumps(event).encode())])
    assert tables.stopped == {}
    assert tables.rows() == {"t": {(1,): {"id": 1, "v": held}}}
    (target,) = tables.targets.values()
    assert [str(column.type) for column in target.columns] == ["int", type_]


TIMES: dict[str, tuple[object, tuple[str, ...]]] = {
    "timestamp": (INSTANT, ("timestamp: ", "timestamp with")),
    "timestamp_ntz": (LOCAL, ("timestamp: ", "timestamp with")),
    "date": (date(2023, 11, 14), ("date: ",)),
}


@pytest.mark.parametrize(
    ("declared", "held", "mode"),
    [(kind, held, mode) for kind, (held, some) in TIMES.items() for mode in MODES if mode.startswith(some) and "1970" not in mode],
)
def test_a_column_keeps_its_type_when_the_mode_changes(declared: str, held: object, mode: str) -> None:
    assert applied(declared, MODES[mode].field, MODES[mode].said) == held


@pytest.mark.parametrize(
    ("declared", "mode", "held"),
    [
        ("string", "timestamp: adaptive, microseconds", "2023-11-14T22:13:20.123000"),
        ("string", "date: adaptive", "2023-11-14"),
        ("string", "date: isostring", "2023-11-14"),
        ("string", "decimal: precise", "-123.45"),
        ("bigint", "timestamp: adaptive, milliseconds", 1_700_000_000_123),
        ("int", "date: adaptive", 19_675),
        ("bigint", "time: adaptive_time_microseconds", 80_000_123_000),
        ("decimal(12,2)", "decimal: string", Decimal("123.45")),
        ("decimal(12,2)", "decimal: precise, of any scale", Decimal("123.45")),
        ("decimal(12,2)", "decimal: double", Decimal("123.45")),
        ("double", "decimal: precise", -123.45),
        ("binary from hex", "binary: hex", b"\x00\xff"),
        ("binary from base64-url-safe", "binary: base64-url-safe", b"\xfb\xff"),
    ],
)
def test_a_column_of_another_type_holds_what_fits_it(declared: str, mode: str, held: object) -> None:
    assert applied(declared, MODES[mode].field, MODES[mode].said) == held


@pytest.mark.parametrize(
    ("field", "said", "reason"),
    [
        (decimal("x", "5"), "MDk=", "the event's schema part cannot be read: 'x'"),
        (decimal("2", []), "MDk=", r"the event's schema part cannot be read: \[\]"),
        (decimal("2", "10"), "12.34", "column v: '12.34' is no base64, as the event's schema says of this decimal"),
        (decimal("2", "3"), "MDk=", r"column v: 123.45 does not fit decimal\(3,2\)"),
        (MODES["decimal: precise, of any scale"].field, {"scale": 2}, "column v: {'scale': 2} is no decimal of any scale"),
        (column("int32"), "x", "column v: 'x' does not fit int"),
        (column("int32"), 2**31, "column v: 2147483648 does not fit int"),
        (column("boolean"), "maybe", "column v: 'maybe' does not fit boolean"),
        (column("bytes"), "a b", "column v: 'a b' does not fit binary"),
        (time("MicroTimestamp"), "soon", "column v: 'soon' does not fit timestamp_ntz"),
        (time("Date", "int32"), 2**31 - 1, "column v: .*5881580-07-11 is in no year from 1 to 9999"),
        (time("ZonedTimestamp", "string"), "infinity", "column v: 'infinity' does not fit timestamp"),
        (time("StructuredDate", "struct"), {"year": 0, "month": 0, "day": 0}, "column v: 0000-00-00 is no day"),
        (time("StructuredDate", "struct"), {"specialValue": "POSITIVE_INFINITY"}, "column v: infinity is in no year"),
        (
            time("StructuredTimestamp", "struct"),
            AT | CLOCK | {"picoseconds": 1},
            "column v: 2023-11-14T22:13:20.000000000001 is more precise than microseconds",
        ),
    ],
)
def test_a_schema_that_cannot_be_read_or_says_something_else_than_its_values_stops_the_table(
    field: dict[str, Any], said: object, reason: str
) -> None:
    with pytest.raises(UnfitValue, match=reason):
        applied(None, field, said)


@pytest.mark.parametrize("schema", [5, "string", [1]])
def test_a_schema_part_that_is_no_object_is_refused(schema: object) -> None:
    payload = {"op": "c", "after": {"id": 1}, "source": {"table": "t"}}
    tables = Memory()
    tables.apply([Message(0, 0, json.dumps({"key": {"id": 1}, "value": {"schema": schema, "payload": payload}}).encode())])
    ((_, reason),) = tables.stopped[TableId(None, "t")].values()
    assert reason.startswith("the event's schema part cannot be read")


@pytest.mark.parametrize("field", [{"name": {}}, {"type": []}, {"parameters": 5}, {"items": 5}, {"type": "array"}])
def test_what_is_odd_in_a_schema_says_nothing(field: dict[str, Any]) -> None:
    assert applied(None, {"type": "string", **field}, "x") == "x"


@pytest.mark.parametrize("levels", [17, 200, 900, 100_000])
def test_a_schema_of_arrays_in_arrays_ends_no_sync(levels: int) -> None:
    """Neither where it is read, nor where it is too deep for that."""
    items = '{"type": "array", "items": ' * levels + '{"type": "int32"}' + "}" * levels
    fields = f'[{{"field": "id", "type": "int32"}}, {{"field": "v", "type": "array", "items": {items}}}]'
    payload = '{"op": "c", "after": {"id": 1, "v": [[1]]}, "source": {"table": "t"}}'
    schema = f'{{"type": "struct", "fields": [{{"field": "after", "type": "struct", "fields": {fields}}}]}}'
    tables = Memory()
    tables.apply([Message(0, 0, f'{{"key": {{"id": 1}}, "value": {{"schema": {schema}, "payload": {payload}}}}}'.encode())])
    if tables.stopped:
        assert "nested too deep" in tables.stopped[TableId(None, "t")][0][1]
    else:
        assert tables.rows() == {"t": {(1,): {"id": 1, "v": "[[1]]"}}}


def test_each_event_is_read_by_its_own_schema_however_many_take_turns() -> None:
    tables, held = Memory(TableDeclarations.of({"t": {"v": "decimal(38,10)"}}, None)), {}
    for number in range(200):
        scale = number % 100 // 10
        fields = [{"field": "id", "type": "int32"}, {**decimal(str(scale), str(10 + number % 100)), "field": "v"}]
        schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
        payload = {"op": "c", "before": None, "after": {"id": number, "v": unscaled(number)}, "source": {"table": "t"}}
        body = json.dumps({"key": {"id": number}, "value": {"schema": schema, "payload": payload}}).encode()
        tables.apply([Message(0, number, body)])
        held[number,] = {"id": number, "v": Decimal(number).scaleb(-scale)}
    assert tables.rows() == {"t": held}


def applied(declared: str | None, field: dict[str, Any], said: object) -> object:
    """What a column holds after an event with this schema. Raises `UnfitValue` where the table stops."""
    fields = [{"field": "id", "type": "int32"}, {**field, "field": "v"}]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    payload = {"op": "c", "before": None, "after": {"id": 1, "v": said}, "source": {"table": "t"}}
    tables = Memory(TableDeclarations.of({"t": {"v": declared}} if declared else None, None))
    tables.apply([Message(0, 0, json.dumps({"key": {"id": 1}, "value": {"schema": schema, "payload": payload}}).encode())])
    for stopped in tables.stopped.values():
        raise UnfitValue(stopped[0][1])
    return tables.rows()["t"][1,]["v"]

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.events.connect import schema_of_key
from penstock.cdc.events.debezium import parse_change, position_of
from penstock.cdc.events.standard_envelope import standard_change
from penstock.log.errors import InvalidArgument

POSTGRES = {
    "before": None,
    "after": {"id": 7, "name": "x"},
    "source": {
        "connector": "postgresql",
        "db": "shop",
        "schema": "public",
        "table": "users",
        "sequence": '["800", "700"]',
        "lsn": 700,
    },
    "op": "c",
    "transaction": {"id": "5:800", "total_order": 3, "data_collection_order": 1},
}
MYSQL = {
    "before": {"id": 7},
    "after": None,
    "source": {
        "connector": "mysql",
        "db": "shop",
        "table": "users",
        "file": "mysql-bin.000003",
        "pos": 484,
        "row": 1,
        "gtid": None,
    },
    "op": "d",
}


def wrapped(payload: Any) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": []}, "payload": payload}


@pytest.mark.parametrize(
    "event",
    [
        {"topic": "shop.public.users", "key": {"id": 7}, "value": POSTGRES},
        {"key": wrapped({"id": 7}), "value": wrapped(POSTGRES)},
        wrapped({"key": {"id": 7}, "value": POSTGRES}),
    ],
)
def test_every_way_to_wrap_an_event_with_its_key_reads_the_same(event: object) -> None:
    change = parse_change(event)
    assert change is not None
    assert (change.table, change.schema, change.op, change.key) == ("users", "public", "c", {"id": 7})
    assert change.row == {"id": 7, "name": "x"}
    assert change.position == (800 >> 3) << 20 | 3


@pytest.mark.parametrize("event", [MYSQL, wrapped(MYSQL)])
def test_an_envelope_alone_has_no_key(event: object) -> None:
    change = parse_change(event)
    assert change is not None
    assert (change.table, change.schema, change.op, change.key, change.row) == ("users", "shop", "d", {}, {"id": 7})
    assert change.position == 3 << 44 | 484 << 12
    assert change.sequence == 3 << 44 | 484 << 12 | 1


@pytest.mark.parametrize(
    "event", [None, {"key": {"id": 7}, "value": None}, wrapped(None), {"key": wrapped({}), "value": wrapped(None)}]
)
def test_a_tombstone_says_nothing(event: object) -> None:
    assert parse_change(event) is None


@pytest.mark.parametrize(
    "event",
    [
        [],
        "text",
        {},
        {"op": "c"},
        {**POSTGRES, "op": "z"},
        {**POSTGRES, "op": ["c"]},
        {**POSTGRES, "source": {"table": 3}},
        {"key": 5, "value": POSTGRES},
        {**POSTGRES, "after": "text"},
        {**POSTGRES, "op": "u", "before": {"id": 7, "name": "the row before"}, "after": None},
        {**POSTGRES, "op": "r", "after": None},
    ],
)
def test_what_is_no_envelope_is_refused(event: object) -> None:
    with pytest.raises(InvalidArgument):
        parse_change(event)


@pytest.mark.parametrize("member", ["after", "before"])
def test_avros_json_encoding_is_told_as_such_and_makes_no_column(member: str) -> None:
    row = {"srv.public.users.Value": {"id": 7, "name": {"string": "x"}}}
    event = {**POSTGRES, "op": "d" if member == "before" else "c", "after": None, member: row}
    for one in (event, {"key": {"id": 7}, "value": event}):
        assert standard_change(json.dumps(one).encode()) is None
        with pytest.raises(InvalidArgument, match=r"Avro's JSON encoding.*JsonConverter.*observed: srv.public.users.Value"):
            parse_change(one)
    rows: list[dict[str, Any]] = [{"a.Value": "text"}, {"a.Value": {}, "id": 7}, {"Value": {}}]
    for ours in rows:
        change = parse_change({**POSTGRES, "after": ours})
        assert change is not None
        assert change.row == ours


@given(st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**20 - 1)), unique=True))
def test_positions_are_in_the_order_of_commit_and_number(places: list[tuple[int, int]]) -> None:
    def position(place: tuple[int, int]) -> int:
        commit, order = place
        found = position_of({"sequence": json.dumps([str(commit * 8), "1"])}, {"total_order": order})
        assert found is not None
        return found

    assert sorted(places, key=position) == sorted(places)


@pytest.mark.parametrize(
    ("source", "transaction"),
    [
        ({"sequence": '["800", "700"]'}, None),
        ({"sequence": '["800", "700"]'}, {"total_order": 2**20}),
        ({"sequence": f'["{2**63}", "700"]'}, {"total_order": 1}),
        ({"sequence": "[]"}, {"total_order": 1}),
        ({"sequence": "no JSON"}, {"total_order": 1}),
        ({"sequence": None}, {"total_order": 1}),
        ({"sequence": '["\u0668\u0660\u0660", "700"]'}, {"total_order": 1}),
        ({"sequence": '["8_00", "700"]'}, {"total_order": 1}),
        ({"sequence": "[800.5, 700]"}, {"total_order": 1}),
        ({"sequence": "[" * 100_000}, {"total_order": 1}),
        ({"sequence": '["800", "700"]'}, {"total_order": 1.5}),
        ({"sequence": '["800", "700"]'}, {"total_order": True}),
        ({"file": "binlog.000001", "pos": 4.5}, None),
        ({"file": "binlog.000001", "pos": " 4"}, None),
        ({"file": "binlog", "pos": 4}, None),
        ({"file": "binlog.000001", "pos": 2**32, "row": 0}, None),
        ({}, None),
    ],
)
def test_a_position_that_is_not_there_or_does_not_fit_is_none(source: dict[str, Any], transaction: object) -> None:
    assert position_of(source, transaction) is None


def test_a_binlog_s_event_has_its_position_also_where_it_tells_its_transaction() -> None:
    """As Debezium 3 writes them: all connectors write a sequence, these as null."""
    source = {"file": "binlog.000003", "pos": 484, "row": 1, "sequence": None}
    assert position_of(source, {"id": "0-7-12", "total_order": 3}) == position_of(source, None) == (3 << 32 | 484) << 12


def test_a_first_transaction_without_a_commit_before_it_has_a_position() -> None:
    assert position_of({"sequence": '[null, "700"]'}, {"total_order": 1}) == 1


@pytest.mark.parametrize("sequence", ['["800", "700"]', '["800"]', "[800, 700]", '[ "800" ]', r'["\u0038\u0030\u0030", "700"]'])
def test_a_position_is_the_same_however_its_json_is_written(sequence: str) -> None:
    assert position_of({"sequence": sequence}, {"total_order": 1}) == (800 >> 3) << 20 | 1


@pytest.mark.parametrize("fields", [None, "text", {}, []])
def test_a_schema_without_fields_says_nothing_of_the_row(fields: object) -> None:
    change = parse_change({"key": {"id": 7}, "value": {"schema": {"type": "struct", "fields": fields}, "payload": POSTGRES}})
    assert change is not None
    assert (change.schema_of_row, change.row) == (None, {"id": 7, "name": "x"})


def test_the_row_s_schema_is_found_below_one_wrapper_around_key_and_value() -> None:
    row = {"field": "after", "type": "struct", "fields": [{"field": "id", "type": "int32"}]}
    value = {"field": "value", "type": "struct", "fields": [{"field": "op", "type": "string"}, row]}
    key = {"field": "key", "type": "struct", "fields": [{"field": "id", "type": "int32"}]}
    schema = {"type": "struct", "fields": [key, value]}
    change = parse_change({"schema": schema, "payload": {"key": {"id": 7}, "value": POSTGRES}})
    assert change is not None
    assert (change.schema_of_key, change.schema_of_row) == (schema_of_key(key), schema_of_key(row))


def test_a_message_of_an_application_is_of_no_table() -> None:
    source = {"connector": "postgresql", "db": "shop", "schema": "", "table": "", "name": "srv"}
    told = {"op": "m", "source": source, "message": {"prefix": "audit", "content": "AAE="}}
    change = parse_change(told)
    assert change is not None
    assert (change.op, change.table) == ("m", "audit")
    with pytest.raises(InvalidArgument, match="does not name its table"):
        parse_change({**told, "op": "c", "after": {"id": 1}, "source": {**source, "table": None}})


@pytest.mark.parametrize("row", [None, 0, 1, 2**12 - 1, 2**12, 2**30])
def test_a_row_of_a_statement_has_its_position_and_a_sequence_of_its_own_where_that_fits(row: int | None) -> None:
    place: Any = MYSQL["source"]
    change = parse_change({**MYSQL, "source": {**place, "row": row}})
    assert change is not None
    assert change.position == 3 << 44 | 484 << 12
    assert change.sequence == (None if row is not None and row >= 2**12 else change.position + (row or 0))

"""Where the usual envelope is read by its types, the change is what the general way reads."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.demo.shipped import PACKED, unpacked
from penstock.cdc.events.debezium import decode_event, parse_change
from penstock.cdc.events.standard_envelope import standard_change
from penstock.log.errors import InvalidArgument
from tests.thorough import examples, thoroughly

WORDS = st.sampled_from(["", "a", "public", "mysql-bin.000003", "bin.x", '["800", "700"]', "[null]", "[", "7", "é"])
NUMBERS = st.sampled_from([0, 1, -1, 2**20, 2**43, 2**63, 2**64, 1.5, True])
ANY = st.one_of(st.none(), WORDS, NUMBERS, st.just({}), st.just([1]), st.just({"total_order": 3}))
ROWS = st.one_of(
    ANY,
    st.dictionaries(st.sampled_from(["id", "x", "schema", "payload"]), ANY, max_size=3),
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of these fields, and perhaps with one of another type."""
    return st.fixed_dictionaries({}, optional=fields)


SOURCES = some(
    table=WORDS,
    schema=WORDS,
    db=st.one_of(WORDS, ANY),
    keyspace=WORDS,
    database_id=WORDS,
    name=st.one_of(WORDS, ANY),
    version=ANY,
    sequence=st.one_of(WORDS, ANY),
    file=st.one_of(WORDS, ANY),
    pos=st.one_of(NUMBERS, ANY),
    row=ANY,
    ts_us=ANY,
    ts_ms=ANY,
    lsn=ANY,
    types=ANY,
    not_sent=st.one_of(ANY, st.just(["x"]), st.just([])),
)
ENVELOPES = some(
    op=st.sampled_from(["c", "u", "d", "r", "t", "m", "x", None]),
    source=st.one_of(SOURCES, ANY),
    before=ROWS,
    after=ROWS,
    transaction=st.one_of(some(total_order=st.one_of(NUMBERS, ANY), id=ANY), ANY),
    ts_ms=ANY,
)


def same(drawn: Any) -> Any:
    """It makes one choice of several in `st.one_of`."""
    return drawn


NAMES = st.sampled_from(["", "io.debezium.time.Date", "org.apache.kafka.connect.data.Decimal"])
COLUMNS = some(
    field=st.one_of(st.sampled_from(["id", "x"]), ANY),
    type=st.one_of(st.sampled_from(["int32", "string", "bytes", "array"]), ANY),
    name=st.one_of(NAMES, ANY),
    items=st.one_of(some(type=WORDS, name=NAMES), ANY),
    parameters=st.one_of(some(scale=st.sampled_from(["2", "-1", "x", 2, 1.5]), other=ANY), ANY),
    default=ANY,
)
FITTING = st.fixed_dictionaries(
    {"field": st.sampled_from(["id", "x"]), "type": st.sampled_from(["int32", "string", "bytes", "array"])},
    optional={"name": NAMES, "items": some(type=WORDS, name=NAMES), "parameters": some(scale=st.sampled_from(["2", "-1", 2]))},
)
OF_ROWS = st.one_of(
    *[st.lists(FITTING, min_size=1, max_size=3).map(lambda fields: {"type": "struct", "fields": fields})] * 3,
    some(type=st.just("struct"), fields=st.one_of(st.lists(st.one_of(COLUMNS, ANY), max_size=3), ANY)).map(same),
)


def with_fields(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The schema of a struct with these fields."""

    def struct(drawn: dict[str, dict[str, Any]]) -> dict[str, Any]:
        return {"type": "struct", "fields": [{**schema, "field": name} for name, schema in drawn.items()]}

    return st.fixed_dictionaries(fields).map(struct)


OF_ENVELOPES = with_fields(before=OF_ROWS, after=OF_ROWS)
SCHEMAS = st.one_of(ANY, OF_ENVELOPES, with_fields(key=OF_ROWS, value=OF_ENVELOPES), OF_ROWS)


def wrapped(payload: st.SearchStrategy[Any], *schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """It with Connect's schema part; rarely with something else beside."""
    schema = st.one_of(*[one.map(same) for one in schemas * 4], SCHEMAS.map(same))
    beside = st.sampled_from([*[{}] * 8, {"topic": "t"}, {"value": None}])
    return st.builds(lambda part, inner, more: {"schema": part, "payload": inner, **more}, schema, payload, beside)


KEYS = st.one_of(ROWS.map(same), wrapped(st.one_of(st.just({"id": 1}), ROWS.map(same)), OF_ROWS))
EVENTS = st.one_of(
    ENVELOPES,
    some(key=ROWS, value=ENVELOPES, op=ANY, topic=ANY),
    some(key=KEYS, value=wrapped(ENVELOPES)),
    wrapped(some(key=KEYS, value=ENVELOPES)),
    wrapped(ENVELOPES),
)
USUAL = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["c", "u", "d", "r"]),
        "source": st.fixed_dictionaries(
            {"table": st.just("t")}, optional={"version": ANY, "ts_ms": ANY, "pos": NUMBERS, "row": ANY}
        ),
        "after": st.fixed_dictionaries({"id": ANY}, optional={"x": ANY}),
    },
    optional={"before": st.one_of(st.none(), some(id=ANY, x=ANY)), "ts_ms": ANY},
)
NEARLY_USUAL = ENVELOPES.map(lambda drawn: {"op": "c", "source": {"table": "t"}, "after": {"id": 1}, **drawn})


def general(body: bytes) -> object:
    try:
        return parse_change(decode_event(body))
    except InvalidArgument as error:
        return str(error)


@given(EVENTS)
def test_what_is_read_by_types_is_what_the_general_way_reads(event: object) -> None:
    body = json.dumps(event).encode()
    found = standard_change(body)
    assert found is None or found == general(body)


@given(NEARLY_USUAL, ROWS)
def test_the_same_holds_of_events_that_are_nearly_usual(envelope: object, key: object) -> None:
    body = json.dumps({"key": key, "value": envelope}).encode()
    found = standard_change(body)
    assert found is None or found == general(body)


BOTH_SCHEMAS = with_fields(key=OF_ROWS, value=OF_ENVELOPES)
WITH_SCHEMAS = st.one_of(
    *[
        one
        for envelopes in (USUAL, NEARLY_USUAL)
        for one in (
            st.builds(lambda key, value: {"key": key, "value": value}, KEYS, wrapped(envelopes, OF_ENVELOPES)),
            st.builds(lambda value: {"value": value}, wrapped(envelopes, OF_ENVELOPES)),
            wrapped(st.builds(lambda key, value: {"key": key, "value": value}, KEYS, envelopes), BOTH_SCHEMAS),
            wrapped(envelopes, OF_ENVELOPES),
        )
    ]
)


@settings(max_examples=examples(300))
@given(WITH_SCHEMAS)
def test_the_same_holds_with_schemas(event: object) -> None:
    body = json.dumps(event).encode()
    found = standard_change(body)
    assert found is None or found == general(body)


OF_KEY = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}
OF_ENVELOPE = {"type": "struct", "fields": [{**OF_KEY, "field": "before"}, {**OF_KEY, "field": "after"}]}
ENVELOPE = {"op": "c", "source": {"table": "t", "schema": "s"}, "before": None, "after": {"id": 7}}
KEY = {"schema": OF_KEY, "payload": {"id": 7}}
VALUE = {"schema": OF_ENVELOPE, "payload": ENVELOPE}
OF_BOTH = {"type": "struct", "fields": [{**OF_KEY, "field": "key"}, {**OF_ENVELOPE, "field": "value"}]}


@pytest.mark.parametrize(
    ("event", "of_key"),
    [
        ({"key": KEY, "value": VALUE}, True),
        ({"topic": "srv.s.t", "key": KEY, "value": VALUE}, True),
        ({"key": {"id": 7}, "value": VALUE}, False),
        ({"key": None, "value": VALUE}, False),
        ({"value": VALUE}, False),
        (VALUE, False),
        ({"schema": OF_BOTH, "payload": {"key": {"id": 7}, "value": ENVELOPE}}, True),
        ({"schema": None, "payload": ENVELOPE}, False),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_every_way_to_carry_a_schema_is_read_by_types(event: dict[str, Any], of_key: bool, indent: int | None) -> None:
    body = json.dumps(event, indent=indent).encode()
    found = standard_change(body)
    assert found is not None
    assert found == general(body)
    assert (found.schema_of_key is not None) == of_key
    assert (found.schema_of_row is None) == (event.get("schema", "") is None)


def test_a_schema_is_read_once_however_often_it_comes() -> None:
    first, second = (standard_change(json.dumps({"key": KEY, "value": VALUE}).encode()) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.schema_of_row is second.schema_of_row
    assert first.schema_of_key is second.schema_of_key


def test_a_schema_that_is_too_large_to_be_kept_is_read_all_the_same() -> None:
    wide = {"type": "struct", "fields": [{"field": f"c{n}", "type": "int64"} for n in range(4_000)]}
    value = {"schema": {"type": "struct", "fields": [{**wide, "field": "after"}]}, "payload": ENVELOPE}
    body = json.dumps({"key": {"schema": wide, "payload": {"id": 7}}, "value": value}).encode()
    found = standard_change(body)
    assert found is not None
    assert found.schema_of_row is not None
    assert len(found.schema_of_row.fields) == 4_000
    assert found == general(body)


def test_every_event_of_a_real_stream_is_read_by_types() -> None:
    for line in itertools.islice(unpacked(PACKED.read_bytes()), 0, None, thoroughly(1, 7)):
        found = standard_change(line)
        assert found is not None
        assert found == general(line)


@pytest.mark.parametrize("file", ["mysql-bin.000003", None, 7])
def test_changes_of_mysql_are_read_too(file: object) -> None:
    source = {"db": "shop", "table": "t", "file": file, "pos": 484, "row": 2}
    body = json.dumps({"key": {"id": 1}, "value": {"op": "c", "after": {"id": 1}, "source": source}}).encode()
    found = standard_change(body)
    assert (found is None) is (file != "mysql-bin.000003")
    assert found is None or (found == general(body) and found.sequence == (found.position or 0) | 2)


def test_changes_of_mysql_that_tell_their_transaction_have_their_position() -> None:
    source = {"db": "shop", "table": "t", "file": "mysql-bin.000003", "pos": 484, "row": 2, "sequence": None}
    value = {"op": "c", "after": {"id": 1}, "source": source, "transaction": {"id": "0-7-12", "total_order": 3}}
    body = json.dumps({"key": {"id": 1}, "value": value}).encode()
    found = standard_change(body)
    assert found is not None
    assert found.position is not None
    assert found == general(body)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"null", b"[]", b'{"value": NaN}', b"[" * 5_000])
def test_what_is_no_event_is_left_to_the_general_way(body: bytes) -> None:
    assert standard_change(body) is None

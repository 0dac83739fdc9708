"""Where the usual envelope is read by its types, the change is what the general way reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.events.debezium import decode_event, parse_change
from penstock.cdc.events.usual import usual_change
from penstock.infra.demo.shipped import PACKED, unpacked
from penstock.log.errors import InvalidArgument

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
)
ENVELOPES = some(
    op=st.sampled_from(["c", "u", "d", "r", "t", "m", "x", None]),
    source=st.one_of(SOURCES, ANY),
    before=ROWS,
    after=ROWS,
    transaction=st.one_of(some(total_order=st.one_of(NUMBERS, ANY), id=ANY), ANY),
    ts_ms=ANY,
)
EVENTS = st.one_of(
    ENVELOPES,
    some(key=ROWS, value=ENVELOPES, op=ANY, topic=ANY),
    some(key=ROWS, value=some(schema=ANY, payload=ENVELOPES)),
    some(schema=ANY, payload=some(key=ROWS, value=ENVELOPES)),
)


def general(body: bytes) -> object:
    try:
        return parse_change(decode_event(body))
    except InvalidArgument as error:
        return str(error)


@given(EVENTS)
def test_what_is_read_by_types_is_what_the_general_way_reads(event: object) -> None:
    body = json.dumps(event).encode()
    found = usual_change(body)
    assert found is None or found == general(body)


@given(ENVELOPES.map(lambda drawn: {"op": "c", "source": {"table": "t"}, "after": {"id": 1}, **drawn}), ROWS)
def test_the_same_holds_of_events_that_are_nearly_usual(envelope: object, key: object) -> None:
    body = json.dumps({"key": key, "value": envelope}).encode()
    found = usual_change(body)
    assert found is None or found == general(body)


def test_every_event_of_a_real_stream_is_read_by_types() -> None:
    for line in unpacked(PACKED.read_bytes()):
        found = usual_change(line)
        assert found is not None
        assert found == general(line)


@pytest.mark.parametrize("file", ["mysql-bin.000003", None, 7])
def test_changes_of_mysql_are_read_too(file: object) -> None:
    source = {"db": "shop", "table": "t", "file": file, "pos": 484, "row": 2}
    body = json.dumps({"key": {"id": 1}, "value": {"op": "c", "after": {"id": 1}, "source": source}}).encode()
    found = usual_change(body)
    assert (found is None) is (file != "mysql-bin.000003")
    assert found is None or (found == general(body) and found.sequence == (found.position or 0) | 2)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"null", b"[]", b'{"value": NaN}', b"[" * 5_000])
def test_what_is_no_event_is_left_to_the_general_way(body: bytes) -> None:
    assert usual_change(body) is None

"""What stands for values that the source did not log, in every form, with Debezium's placeholder and another."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import Any

import pytest

from penstock.cdc.events.conversion import KEEP, converter
from penstock.cdc.events.placeholders import PLACEHOLDER, UnavailablePlaceholder
from penstock.cdc.events.sources import TableId
from penstock.cdc.events.target_types import parse_target_type
from penstock.cdc.fold.fold import Fold
from penstock.cdc.fold.plan import FoldPlan
from penstock.cdc.fold.row_decoder import ValueOptions
from penstock.cdc.target import Target
from penstock.log.errors import InvalidArgument
from tests.cdc.applied import Memory
from tests.cdc.columns import target_column
from tests.cdc.reference import Message

GEOMETRY = base64.b64encode(bytes.fromhex("0101000020E6100000000000FC83D797C1000000FC83D797C1")).decode()
GEOGRAPHY = base64.b64encode(bytes.fromhex("0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640")).decode()


def forms(placeholder: str) -> dict[str, Any]:
    """As Debezium's converters write it, by type of column."""
    data = placeholder.encode()
    signed = [one - 256 if one > 127 else one for one in data]
    digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
    digest[6], digest[8] = digest[6] & 0x0F | 0x30, digest[8] & 0x3F | 0x80
    of_uuid = str(uuid.UUID(bytes=bytes(digest)))
    plain = base64.b64encode(data).decode()
    return {
        "text": placeholder,
        "bytea, base64": plain,
        "bytea, base64-url-safe": base64.urlsafe_b64encode(data).decode(),
        "bytea, hex": data.hex(),
        "text[]": [placeholder],
        "bytea[]": [plain],
        "int[]": signed,
        "float[]": [float(one) for one in signed],
        "boolean[]": [True] * len(data),
        "numeric[], precise": [base64.b64encode(bytes([one])).decode() for one in data],
        "numeric[], of any scale": [{"scale": 0, "value": base64.b64encode(bytes([one])).decode()} for one in data],
        "uuid[]": [of_uuid],
        "uuid": of_uuid,
        "hstore, map": {placeholder: placeholder},
        "hstore, json": json.dumps({placeholder: placeholder}, separators=(",", ":"), ensure_ascii=False),
        "geometry": {"wkb": GEOMETRY, "srid": 4326},
        "geography": {"wkb": GEOGRAPHY, "srid": 4326},
        "point": {"x": -99999999.0, "y": -99999999.0, "wkb": "AQEAAAAAAAD8g9eXwQAAAPyD15fB", "srid": None},
    }


OTHER = "nicht geändert"


@pytest.mark.parametrize("form", forms(PLACEHOLDER))
@pytest.mark.parametrize("placeholder", [PLACEHOLDER, OTHER])
@pytest.mark.parametrize("kind", ["string", "binary", "int", "decimal(12,2)", "timestamp", "boolean", "double"])
def test_every_form_keeps_what_the_row_has_in_columns_of_every_type(placeholder: str, form: str, kind: str) -> None:
    assert converter(parse_target_type(kind), UnavailablePlaceholder.of([OTHER]))(forms(placeholder)[form]) is KEEP


@pytest.mark.parametrize(
    "value",
    [
        ["a", PLACEHOLDER],
        [PLACEHOLDER, PLACEHOLDER],
        {"a": PLACEHOLDER},
        f"it says {PLACEHOLDER}",
        [],
        [[PLACEHOLDER]],
        {"x": 1.0, "y": -99999999.0, "wkb": None, "srid": None},
        {"wkb": GEOMETRY, "srid": 25832},
        OTHER,
        *forms("short").values(),
    ],
)
def test_a_value_that_has_the_placeholder_among_others_is_a_value(value: object) -> None:
    if isinstance(value, dict) and {"wkb", "x"} & value.keys() and value.get("srid") != 25832 and value.get("x") != 1.0:
        return  # the places are the same whatever the placeholder is
    assert converter(parse_target_type("string"))(value) is not KEEP


def test_a_short_placeholder_stands_for_itself_and_not_for_numbers_that_a_row_may_have() -> None:
    unavailable = UnavailablePlaceholder.of(["1"])
    assert all(unavailable.is_it(one) for one in ("1", ["1"], {"1": "1"}))
    assert not any(unavailable.is_it(one) for one in ("31", "MQ==", [49], [True], [1]))


def test_a_placeholder_may_be_said_in_hex_as_the_connector_s_configuration_has_it() -> None:
    assert UnavailablePlaceholder.of(["hex:" + OTHER.encode().hex()]) == UnavailablePlaceholder.of([OTHER])
    for bad in ("hex:5", "hex:", "", "\ud800"):
        with pytest.raises(InvalidArgument, match="placeholder"):
            UnavailablePlaceholder.of([bad])


def event(op: str, key: int, **row: Any) -> bytes:
    return json.dumps({"key": {"id": key}, "value": {"op": op, "after": {"id": key, **row}, "source": {"table": "t"}}}).encode()


@pytest.mark.parametrize(("form", "value"), forms(PLACEHOLDER).items())
def test_it_says_nothing_of_a_column_s_type(form: str, value: object) -> None:
    memory = Memory()
    memory.apply(
        [Message(0, 0, event("u", 1, large=value)), Message(0, 1, event("u", 2, large="" if isinstance(value, str) else 7))]
    )
    memory.apply([Message(0, 2, event("u", 2, large=value))])
    assert memory.stopped == {}, form
    assert memory.rows() == {"t": {(1,): {"id": 1, "large": None}, (2,): {"id": 2, "large": "" if isinstance(value, str) else 7}}}


def test_a_fold_reads_as_it_is_told_and_typed_columns_too() -> None:
    source = TableId(None, "t")
    target = Target(source, "t", (target_column("id", "bigint"), target_column("n", "decimal(10,2)")), ("id",))
    fold = Fold(FoldPlan({source: target}, value_options=ValueOptions(UnavailablePlaceholder.of([OTHER]))))
    schema = {
        "type": "struct",
        "fields": [
            {
                "field": "after",
                "type": "struct",
                "fields": [
                    {"field": "id", "type": "int64"},
                    {"field": "n", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
                ],
            }
        ],
    }
    for offset, value in enumerate([OTHER, PLACEHOLDER, forms(OTHER)["bytea, base64"]]):
        payload = {"op": "u", "after": {"id": offset, "n": value}, "source": {"table": "t"}}
        fold.add(0, offset, json.dumps({"key": {"id": offset}, "value": {"schema": schema, "payload": payload}}).encode())
    folded = fold.result()
    assert folded.refused == {}
    assert [net.values[1] for _, net in folded.nets[source]] == [KEEP] * 3


def test_events_that_name_what_was_not_sent_have_no_placeholder() -> None:
    """Of one topic: the older ones name nothing."""

    def told(op: str, unsent: list[str] | None, key: str, **row: Any) -> bytes:
        source = {"table": "t"} if unsent is None else {"table": "t", "not_sent": unsent}
        return json.dumps({"key": {"id": key}, "value": {"op": op, "after": {"id": key, **row}, "source": source}}).encode()

    values = {"v": PLACEHOLDER, "list": [PLACEHOLDER], "map": {PLACEHOLDER: PLACEHOLDER}}
    written = {
        "v": PLACEHOLDER,
        "list": json.dumps([PLACEHOLDER]),
        "map": json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":")),
    }
    memory = Memory()
    memory.apply([Message(0, 0, told("c", None, "old", v="a", list="a", map="a"))])
    memory.apply([Message(0, 1, told("u", None, "old", **values)), Message(0, 2, told("c", [], PLACEHOLDER, **values))])
    assert memory.stopped == {}
    assert memory.rows()["t"][("old",)] == {"id": "old", "v": "a", "list": "a", "map": "a"}
    assert memory.rows()["t"][(PLACEHOLDER,)] == {"id": PLACEHOLDER, **written}
    memory.apply([Message(0, 3, told("u", ["v"], PLACEHOLDER, v=PLACEHOLDER, list="b", map="b"))])
    assert memory.rows()["t"][(PLACEHOLDER,)] == {"id": PLACEHOLDER, "v": PLACEHOLDER, "list": "b", "map": "b"}
    memory.apply([Message(0, 4, told("u", ["list"], "old", v=None, list=PLACEHOLDER, map="c"))])
    assert memory.rows()["t"][("old",)] == {"id": "old", "v": None, "list": "a", "map": "c"}


def test_only_what_is_too_short_to_be_told_from_values_has_no_form_in_bytes() -> None:
    for length in (7, 8):
        said = "x" * length
        stands = UnavailablePlaceholder.of([said])
        assert stands.is_it(said)
        assert stands.is_it(base64.b64encode(said.encode()).decode()) == (length == 8)
        assert stands.is_it([ord("x")] * length) == (length == 8)

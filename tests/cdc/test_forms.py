"""How events without a schema write what has no form of its own in JSON, as it is declared with the type."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.cdc.events.connect import schema_of_key
from penstock.cdc.events.conversion import KEEP, UnfitValue
from penstock.cdc.events.placeholders import PLACEHOLDER
from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.fold import Fold
from penstock.cdc.fold.plan import FoldPlan
from penstock.cdc.fold.row_decoder import RowDecoder, ValueOptions
from penstock.cdc.target import TableDeclarations, Target, TargetColumn
from penstock.log.errors import InvalidArgument
from tests.cdc.columns import target_column

INSTANT = datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)


def reader(declared: str, *, key: str = "id") -> RowDecoder:
    said = TableDeclarations.of({"t": {"v": declared}}, None)
    target = Target(TableId("s", "t"), "t", (target_column("id", "bigint"), TargetColumn("v", said.columns["t"]["v"])), (key,))
    return RowDecoder(target, ValueOptions(), said.forms.get("t"))


def read(declared: str, value: object, field: dict[str, Any] | None = None) -> object:
    schema = None if field is None else {"type": "struct", "fields": [{**field, "field": "v"}]}
    return reader(declared).values({"id": 1, "v": value}, schema_of_key(schema))[1]


def folded(
    declared: str, value: object, field: dict[str, Any] | None = None, *, version: str | None = "3.0.0.Final", key: str = "id"
) -> object:
    """What a whole event's column is in its target."""
    said, source = TableDeclarations.of({"t": {"v": declared}}, None), TableId("s", "t")
    target = Target(source, "t", (target_column("id", "bigint"), TargetColumn("v", said.columns["t"]["v"])), (key,))
    fold = Fold(FoldPlan({source: target}, value_options=ValueOptions(forms=said.forms)))
    row = {"id": 1, "v": value}
    body: Any = {"op": "c", "after": row, "source": {"schema": "s", "table": "t", "version": version}}
    if field is not None:
        fields = [{"field": "id", "type": "int32"}, {**field, "field": "v"}]
        body = {"schema": {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}, "payload": body}
    fold.add(0, 0, json.dumps({"key": {key: row[key]}, "value": body}).encode())
    found = fold.result()
    if found.refused:
        raise UnfitValue(found.refused[source][0].reason)
    ((_, net),) = found.nets[source]
    return net.values[1]


DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
VARIABLE = {"scale": 2, "value": "MDk="}


@pytest.mark.parametrize(
    ("declared", "value", "held"),
    [
        ("timestamp from milliseconds", 1_700_000_000_123, INSTANT),
        ("Timestamp FROM Microseconds", 1_700_000_000_123_000, INSTANT),
        ("timestamp from nanoseconds", 1_700_000_000_123_000_000, INSTANT),
        ("timestamp_ntz from seconds", 1_700_000_000, datetime.fromisoformat("2023-11-14T22:13:20")),
        ("timestamp from seconds", "2023-11-14T22:13:20.123Z", INSTANT),
        ("decimal(12,2)", "1234", Decimal(1234)),
        ("decimal(12,2) from base64", "1234", Decimal("-26588.24")),
        ("decimal(12,2) from base64", "MDk=", Decimal("123.45")),
        ("decimal(12) from base64", "MDk=", Decimal(12345)),
        ("decimal(12,2) from base64", Decimal("1.5"), Decimal("1.50")),
        ("decimal(12,2) from base64", VARIABLE, Decimal("123.45")),
        ("decimal(12,2)", VARIABLE, Decimal("123.45")),
        ("binary", "00ff", b"\xd3G\xdf"),
        ("binary from hex", "00ff", b"\x00\xff"),
        ("binary from base64-url-safe", "-_8", b"\xfb\xff"),
        ("binary from base64", "AP8=", b"\x00\xff"),
        ("decimal(12,2) from base64", PLACEHOLDER, KEEP),
        ("decimal(12,2) from base64", None, None),
    ],
)
def test_a_value_is_read_as_it_is_declared_to_be_written(declared: str, value: object, held: object) -> None:
    assert read(declared, value) == held
    if value is not None and value != PLACEHOLDER:
        assert reader(declared, key="v").key({"v": value}, None) == (held,)


def test_a_schema_of_the_event_goes_before_it() -> None:
    assert read("decimal(12,2) from base64", "MDk=", DECIMAL) == Decimal("123.45")
    micro = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
    assert read("timestamp from milliseconds", 1_700_000_000_123_000, micro) == INSTANT
    assert read("binary from hex", "00ff", {"type": "string"}) == b"\x00\xff"


@pytest.mark.parametrize(
    ("declared", "value", "said"),
    [
        ("decimal(12,2)", "MDk=", r"declare 'decimal\(12,2\) from base64'"),
        ("decimal(12,2)", "12,50", "it is no number"),
        ("decimal(12,2) from base64", "12.34", r"'12.34' is no base64, as declared by 'decimal\(12,2\) from base64'"),
        ("decimal(12,2) from base64", "", "'' is no base64"),
        ("decimal(4,2) from base64", "AYag", r"does not fit decimal\(4,2\)"),
        ("decimal(12,2)", {"scale": 2, "value": 5}, "does not fit"),
        ("decimal(12,2)", {"scale": 3, "value": "MDk="}, "does not fit"),
        ("binary from hex", "0xff", "'0xff' is no hex"),
        ("binary from hex", "00 ff", "is no hex"),
        ("binary from base64-url-safe", "+/8=", "is no base64-url-safe"),
        ("timestamp", 1_700_000_000_123, "declare 'timestamp from milliseconds'"),
        ("timestamp", "171112151234560000", "does not fit timestamp"),
        ("timestamp from milliseconds", True, "does not fit timestamp"),
        ("binary from hex", 5, "does not fit binary"),
        ("timestamp from nanoseconds", 1, "more precise than microseconds"),
    ],
)
def test_what_is_not_written_so_is_refused_and_the_reason_names_what_to_declare(declared: str, value: object, said: str) -> None:
    with pytest.raises(UnfitValue, match=said):
        read(declared, value)


@pytest.mark.parametrize(
    ("declared", "value", "hint"),
    [
        ("decimal(12,2)", "1234", r"declare 'decimal\(12,2\) from base64' or 'decimal\(12,2\) from text'"),
        ("decimal(12,2)", "1E+5", r"declare 'decimal\(12,2\) from base64' or"),
        ("binary", "00ff", "declare 'binary from base64' or 'binary from hex'"),
    ],
)
def test_text_of_debezium_s_that_may_be_written_in_two_ways_is_refused_until_the_form_is_declared(
    declared: str, value: str, hint: str
) -> None:
    """Its connectors write ``source.version``. Who writes none is no connector with modes, and writes digits and base64."""
    held = {"decimal(12,2)": Decimal(value) if declared != "binary" else None, "binary": b"\xd3G\xdf"}[declared]
    assert folded(declared, value, version=None) == held
    with pytest.raises(UnfitValue, match=hint):
        folded(declared, value)
    with pytest.raises(UnfitValue, match=hint):
        folded(declared, value, field={"type": "struct"})
    with pytest.raises(UnfitValue, match=hint):
        folded(declared, value, key="v")
    for form in ("text", "base64") if declared != "binary" else ("hex", "base64"):
        assert folded(f"{declared} from {form}", value) is not None


@pytest.mark.parametrize(
    ("declared", "value", "held"),
    [
        ("decimal(12,2)", "12.34", Decimal("12.34")),
        ("decimal(12,2)", "-123", Decimal(-123)),
        ("decimal(12,2)", 1234, Decimal(1234)),
        ("decimal(12,2)", VARIABLE, Decimal("123.45")),
        ("decimal(12,2)", PLACEHOLDER, KEEP),
        ("decimal(12,2) from text", "1234", Decimal(1234)),
        ("decimal(12,2) from text", 12, Decimal(12)),
        ("binary", "", b""),
        ("binary", "AP8=", b"\x00\xff"),
        ("binary", "00FF", b"\xd3A\x45"),
    ],
)
def test_text_of_debezium_s_that_can_be_read_in_one_way_only_is_read(declared: str, value: object, held: object) -> None:
    assert folded(declared, value) == held


def test_a_schema_of_the_event_says_how_text_is_written() -> None:
    assert folded("decimal(12,2)", "1234", field={"type": "string"}) == Decimal(1234)
    assert folded("decimal(12,2) from base64", "1234", field={"type": "string"}) == Decimal(1234)
    assert folded("binary", "00ff", field={"type": "bytes"}) == b"\xd3G\xdf"
    assert folded("binary from hex", "00ff", field={"type": "bytes"}) == b"\xd3G\xdf"
    assert folded("binary from hex", "00ff", field={"type": "string"}) == b"\x00\xff"


@pytest.mark.parametrize(
    "declared", ["timestamp from", "timestamp from hours", "date from days", "decimal(4,2) from hex", "string from base64"]
)
def test_forms_that_no_type_has_are_refused(declared: str) -> None:
    with pytest.raises(InvalidArgument):
        TableDeclarations.of({"t": {"v": declared}}, None)


def test_the_fold_reads_them() -> None:
    said = TableDeclarations.of({"s.t": {"v": "decimal(12,2) from base64"}}, None)
    source = TableId("s", "t")
    target = Target(source, "t", (target_column("id", "bigint"), target_column("v", "decimal(12,2)")), ("id",))
    fold = Fold(FoldPlan({source: target}, value_options=ValueOptions(forms=said.forms)))
    row = {"id": 1, "v": "1234"}
    fold.add(
        0, 0, json.dumps({"key": {"id": 1}, "value": {"op": "c", "after": row, "source": {"schema": "s", "table": "t"}}}).encode()
    )
    ((_, net),) = fold.result().nets[source]
    assert net.values == (1, Decimal("-26588.24"))

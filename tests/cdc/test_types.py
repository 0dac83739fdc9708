from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cdc.events.connect import column_type, reader, schema_of_key
from penstock.cdc.events.conversion import KEEP, UnfitValue, converter, exact_json, key_converter
from penstock.cdc.events.floats import nearest_single
from penstock.cdc.events.placeholders import PLACEHOLDER as MARKER
from penstock.cdc.events.placeholders import UnavailablePlaceholder
from penstock.cdc.events.target_types import infer, joined, parse_target_type
from penstock.log.errors import InvalidArgument
from penstock.log.schema.arrow_types import arrow_type
from penstock.log.schema.fields import FieldType, PrimitiveType


@pytest.mark.parametrize(
    ("kind", "said", "held"),
    [
        ("bigint", 2**63 - 1, 2**63 - 1),
        ("bigint", "12", 12),
        ("bigint", -(2**63), -(2**63)),
        ("tinyint", 127, 127),
        ("int", Decimal("7.0"), 7),
        ("bigint", Decimal("9.2e18"), 9_200_000_000_000_000_000),
        ("bigint", Decimal("0e999999999999999"), 0),
        ("decimal(38,0)", "-" + "9" * 38, Decimal("-" + "9" * 38)),
        ("decimal(12,2)", "1.5", Decimal("1.50")),
        ("decimal(12,2)", Decimal("1.500"), Decimal("1.50")),
        ("double", Decimal("0.1"), 0.1),
        ("double", Decimal("0.10000000000000001"), 0.1),
        ("double", Decimal("4.9E-324"), 5e-324),
        ("double", Decimal("5.960464477539063e-08"), 2.0**-24),
        ("double", "1.7976931348623157E308", 1.7976931348623157e308),
        ("float", Decimal("0.5"), 0.5),
        ("float", Decimal("7.038531e-26"), 7.038530691851209e-26),  # by way of a double it would be 7.0385313e-26
        ("float", "3.4028235e38", 2.0**128 - 2.0**104),
        ("float", Decimal("1e-45"), 2.0**-149),
        ("float", "-Infinity", float("-inf")),
        ("double", "NaN", pytest.approx(float("nan"), nan_ok=True)),
        ("boolean", "t", True),
        ("boolean", 0, False),
        ("boolean", 1, True),
        ("boolean", False, False),
        ("boolean", True, True),
        ("string", {"a": [1, Decimal("1.10")]}, '{"a":[1,1.10]}'),
        ("string", "", ""),
        ("string", Decimal("1.10"), "1.10"),
        ("string", Decimal("1E-7"), "0.0000001"),
        ("string", [Decimal("1E+2")], "[100]"),
        ("binary", "AAE=", b"\x00\x01"),
        ("binary", b"\x00", b"\x00"),
        ("date", 19_000, date(2022, 1, 8)),
        ("date", date(2022, 1, 8), date(2022, 1, 8)),
        ("date", "2022-01-08", date(2022, 1, 8)),
        ("timestamp", "2026-11-20 12:17:33.188143+00", datetime(2026, 11, 20, 12, 17, 33, 188143, UTC)),
        ("timestamp", "2026-11-20T14:17:33.188143000+02:00", datetime(2026, 11, 20, 12, 17, 33, 188143, UTC)),
        ("timestamp", "2026-11-20T12:17:33", datetime(2026, 11, 20, 12, 17, 33, tzinfo=UTC)),
        ("timestamp", "2026-11-20T12:17", datetime(2026, 11, 20, 12, 17, tzinfo=UTC)),
        ("timestamp", "20261120T121733,1881430", datetime(2026, 11, 20, 12, 17, 33, 188143, UTC)),
        ("timestamp_ntz", "2026-11-20T12:17:33", datetime.fromisoformat("2026-11-20T12:17:33")),
    ],
)
def test_what_fits_is_held_exactly(kind: str, said: Any, held: Any) -> None:
    found = converter(parse_target_type(kind))(said)
    assert found == held
    assert pa.array([found], arrow_type(parse_target_type(kind))).to_pylist() == [held]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("int", 2**31),
        ("bigint", Decimal("1.5")),
        ("bigint", True),
        ("bigint", "much"),
        ("boolean", Decimal(1)),
        ("binary", 5),
        ("binary", ["AAE="]),
        ("bigint", Decimal("1e3000000")),  # as an int it has three million digits
        ("bigint", Decimal("-1e999999999999999")),
        ("bigint", Decimal("1e-3000000")),
        ("bigint", Decimal("Infinity")),
        ("decimal(38,0)", Decimal("1e999999999999999")),
        ("double", Decimal("1e999999999999999")),
        ("decimal(12,2)", "1.005"),
        ("decimal(12,2)", True),
        ("double", True),
        ("double", [1]),
        ("date", True),
        ("date", Decimal("1.5")),
        ("date", ["2022-01-08"]),
        ("date", datetime(2022, 1, 8, tzinfo=UTC)),
        ("timestamp", "2026-11-20"),
        ("timestamp", "20261120T121733.1881439"),
        ("timestamp", "2026-11-20T12:17:33,1881439"),
        ("int", -(2**31) - 1),
        ("decimal(3,2)", "10"),
        ("decimal(3,2)", "NaN"),
        ("double", 2**53 + 1),
        ("double", Decimal("1e999")),
        ("double", Decimal("1e-400")),
        ("double", Decimal("12345678901234567.89")),
        ("double", "1.0000000000000001"),
        ("float", Decimal("0.123456789")),
        ("float", 2**24 + 1),
        ("float", Decimal("3.4028236e38")),
        ("boolean", 2),
        ("binary", "not base64!"),
        ("date", "2022-13-01"),
        ("timestamp", "2026-11-20T12:17:33.1881431Z"),
        ("timestamp", "20261120T121733.1881431567Z"),
        ("timestamp", "2026-11-20T12:17:33.18814xZ"),
        ("decimal(12,2)", "NaN"),
        ("decimal(12,2)", "-Infinity"),
        ("timestamp", "infinity"),
        ("timestamp", 1_795_177_053),
    ],
)
def test_what_does_not_fit_is_refused_and_never_rounded(kind: str, said: Any) -> None:
    with pytest.raises(UnfitValue, match=f"does not fit {kind.replace('(', '.').replace(')', '.')}"):
        converter(parse_target_type(kind))(said)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(7.038530691851209e-26, 7.038531308148791e-26)
def test_a_number_is_the_nearest_float_of_32_bits(one: float, other: float) -> None:
    """Also just beside the middle of two of them, where a double's digits end."""
    assert nearest_single(str(np.float32(one))) == one
    near = float(np.nextafter(np.float32(one), np.float32(other)))
    middle = (Fraction(one) + Fraction(near)) / 2
    for side, held in ((one, one), (near, near)):
        said = middle + (Fraction(side) - middle) / 10**30
        with localcontext(Context(prec=1200)):
            assert nearest_single(Decimal(said.numerator) / Decimal(said.denominator)) == held


def test_the_largest_float_of_32_bits_is_nearest_to_what_only_a_double_of_it_is_beyond() -> None:
    assert nearest_single("3.4028235677973365e38") == 2.0**128 - 2.0**104
    assert nearest_single("3.4028235677973367e38") == float("inf")


@pytest.mark.parametrize("kind", ["string", "binary", "int", "decimal(12,2)", "timestamp", "boolean"])
def test_the_marker_keeps_what_the_row_has_in_columns_of_every_type(kind: str) -> None:
    convert = converter(parse_target_type(kind))
    assert convert(MARKER) is KEEP
    assert convert(base64.b64encode(MARKER.encode()).decode()) is KEEP
    assert convert([MARKER]) is KEEP


@pytest.mark.parametrize(
    ("kind", "said"),
    [("timestamp", "0001-01-01 00:00:00.000000+00"), ("timestamp", "9999-12-31T00:00:00.000000Z"), ("decimal(12,2)", "-1.00")],
)
def test_a_declared_marker_that_fits_the_column_keeps_what_the_row_has(kind: str, said: str) -> None:
    assert converter(parse_target_type(kind))(said) is not KEEP
    assert converter(parse_target_type(kind), UnavailablePlaceholder.of([said]))(said) is KEEP


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30))
def test_decimals_keep_every_digit(number: Decimal) -> None:
    assert converter(parse_target_type("decimal(38,4)"))(str(number)) == number
    assert Decimal(exact_json(number)) == number


@pytest.mark.parametrize(
    ("field", "kind", "said", "held"),
    [
        ({"type": "int32"}, "int", 5, 5),
        (
            {
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            },
            "decimal(10,2)",
            base64.b64encode((-12345).to_bytes(3, "big", signed=True)).decode(),
            Decimal("-123.45"),
        ),
        (
            {
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "0", "connect.decimal.precision": "10"},
            },
            "decimal(10,0)",
            "Cg==",
            Decimal(10),
        ),
        ({"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, "string", {"scale": 1, "value": "Cg=="}, "1.0"),
        (
            {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
            "timestamp_ntz",
            1_000_001,
            datetime(1970, 1, 1, 0, 0, 1, 1),  # noqa: DTZ001 - a local time
        ),
        (
            {"type": "int64", "name": "io.debezium.time.NanoTimestamp"},
            "timestamp_ntz",
            2_000,
            datetime(1970, 1, 1, 0, 0, 0, 2),  # noqa: DTZ001
        ),
        ({"type": "int32", "name": "io.debezium.time.Date"}, "date", 1, date(1970, 1, 2)),
        ({"type": "array"}, "string", [1, 2], "[1,2]"),
    ],
)
def test_connect_s_schemas_say_the_type_and_how_to_read(field: dict[str, Any], kind: str, said: Any, held: Any) -> None:
    schema = schema_of_key({"type": "struct", "fields": [{**field, "field": "v"}]})
    assert schema is not None
    type_ = parse_target_type(kind)
    assert column_type(schema.fields["v"]) == type_
    read = reader(schema.fields["v"], type_)
    assert converter(type_)(read(said) if read is not None else said) == held


def text(type_: FieldType | None) -> str | None:
    return None if type_ is None else str(type_)


def test_types_are_inferred_and_joined() -> None:
    assert [text(infer(value)) for value in (None, True, 1, 2**63, Decimal("1.0"), "x", [1])] == [
        None,
        "boolean",
        "bigint",
        "decimal(38,0)",
        "double",
        "string",
        "string",
    ]
    assert [text(infer(value)) for value in (-(2**63) - 1, -(2**63), 2**63 - 1)] == ["decimal(38,0)", "bigint", "bigint"]
    assert joined(PrimitiveType.BIGINT, PrimitiveType.DOUBLE) == joined(PrimitiveType.DOUBLE, PrimitiveType.BIGINT) == "double"
    assert joined(None, PrimitiveType.BOOLEAN) == "boolean"
    assert joined(PrimitiveType.BOOLEAN, PrimitiveType.BIGINT) == "string"
    assert text(joined(infer(2**63), infer(1))) == text(joined(infer(1), infer(2**63))) == "decimal(38,0)"


def test_type_names_have_one_spelling_and_unknown_ones_are_refused() -> None:
    assert [str(parse_target_type(name)) for name in ("LONG", " Decimal( 12 , 2 ) ", "decimal", "integer")] == [
        "bigint",
        "decimal(12,2)",
        "decimal(10,0)",
        "int",
    ]
    for name in ("decimal(1,0)", "decimal(1,1)", "decimal(38,38)"):
        assert str(parse_target_type(name)) == name
    for name in ("map<int,int>", "decimal(39,0)", "decimal(0,0)", "decimal(2,3)", "money"):
        with pytest.raises(InvalidArgument, match="this is no type that a column of a target can have"):
            parse_target_type(name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2022, 1, 8, 1, 2, 3, tzinfo=UTC), "2022-01-08T01:02:03+00:00"),
        (date(2022, 1, 8), "2022-01-08"),
        (b"\x00\xff", "AP8="),
        (Decimal("1e19999"), "1" + "0" * 19_999),
        (Decimal("1e20000"), "1E+20000"),
        (Decimal("1e-19999"), "0." + "0" * 19_998 + "1"),
        (Decimal("1e-20000"), "1E-20000"),
    ],
)
def test_text_of_what_is_no_text_has_all_of_it(value: Any, text: str) -> None:
    assert converter(parse_target_type("string"))(value) == text


def test_an_empty_text_is_a_key_too() -> None:
    assert key_converter(parse_target_type("string"))("") == ""
    assert key_converter(parse_target_type("binary"))("") == b""


@pytest.mark.parametrize(("said", "shown"), [("x" * 60, f"'{'x' * 60}' does"), ("x" * 61, f"'{'x' * 57}…' does")])
def test_a_value_that_does_not_fit_is_shown_as_far_as_a_line_has_room(said: str, shown: str) -> None:
    with pytest.raises(UnfitValue, match=shown):
        converter(parse_target_type("int"))(said)


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_text_is_nested_to_the_last_level_that_is_allowed_and_no_deeper(opens: str, closes: str) -> None:
    def nested(levels: int) -> Any:
        return json.loads(opens * levels + "0" + closes * levels)

    assert converter(parse_target_type("string"))(nested(200)) == opens * 200 + "0" + closes * 200
    with pytest.raises(UnfitValue, match="nested deeper than 200 levels"):
        converter(parse_target_type("string"))(nested(201))
    with pytest.raises(UnfitValue, match="nested deeper than 200 levels"):
        converter(parse_target_type("int"))(nested(201))

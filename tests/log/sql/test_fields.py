"""Conditions on fields of typed messages: drawn ones beside a model that takes one row after the other, and what is refused."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.errors import InvalidArgument
from penstock.log.filter.filters import check_filter, columns_read, filters_of, parse_filter
from penstock.log.filter.sql_evaluate import SqlFilter
from penstock.log.schema.sources import fields_of
from penstock.log.schema.stored_columns import shown_value
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from penstock.log.schema.values import convert
from tests.log.sql.interpreter import NoNumber, Tree, _truth
from tests.log.sql.messages import rows
from tests.thorough import examples

SCHEMA = first_schema(
    fields_of(
        "tiny tinyint, n int, big bigint, f float, d double, p decimal(4,2), q decimal(38,10), ok boolean, s string, größe string, "
        "b binary, day date, at timestamp, local timestamp_ntz, c struct<name: string, n: int, `in`: struct<ok: boolean>>, "
        "l array<int>, m map<string, int>, `order-id` bigint"
    )
)


def typed(
    values: Sequence[Mapping[str, Any] | None], properties: Sequence[Mapping[str, str]] | None = None, of: TopicSchema = SCHEMA
) -> Any:
    """Messages with these values."""
    made = convert([{} if value is None else value for value in values], of)
    assert not made.bad
    value = shown_value(made.value, of)
    nulls = pa.array([one is None for one in values], pa.bool_())
    value = pa.StructArray.from_arrays(value.flatten(), fields=list(value.type), mask=nulls)
    return rows(properties or [{}] * len(values)).append_column("value", value)


def passes(expression: str, value: Mapping[str, Any] | None, **properties: str) -> bool:
    return bool(SqlFilter.parse(expression).apply(typed([value], [properties])).num_rows == 1)


# --- Drawn conditions -----------------------------------------------------------------------------------------------------------------

_TEXTS = ["", "a", "ab", "it's", "true", "ü", "5"]
_DAYS = ["0001-01-01", "2026-01-31", "9999-12-31"]
_MOMENTS = ["2026-01-31T12:00:00Z", "2026-01-31T14:00:00+02:00", "2026-01-31T12:00:00.000001Z", "0001-01-01T00:00:00Z"]
_LOCALS = ["2026-01-31", "2026-01-31T00:00:00", "2026-01-31T12:00:00.000001", "9999-12-31T23:59:59.999999"]
_INTS = [-(2**63), -(2**31), -129, -128, -1, 0, 1, 2, 99, 100, 127, 128, 2**31, 2**53, 2**53 + 1, 2**63 - 1]
_NUMBERS = [*_INTS, 0.0, 0.1, -0.1, 0.5, 1.005, 1.5, 99.99, 99.991, 1e300, -1e300, 1e-20, 9007199254740993.0]


def _fitting(bits: int) -> list[Any]:
    return [one for one in _INTS if -(2 ** (bits - 1)) <= one < 2 ** (bits - 1)]


_VALUES: dict[str, Sequence[Any]] = {
    "tiny": _fitting(8),
    "n": _fitting(32),
    "big": _fitting(64),
    "f": [0.0, 0.5, 1.5, math.inf, math.nan, 2.0**24, 0.10000000149011612],
    "d": [0.0, -0.0, 0.1, 1.5, 2.0**53, 2.0**63, 1e300, -1e300, 1.7976931348623157e308, math.inf, -math.inf, math.nan],
    "p": list(map(Decimal, ["0", "-0.10", "0.10", "1.00", "1.01", "99.99", "-99.99"])),
    "q": list(map(Decimal, ["0.1", "1.005", "0.3", "100", "-9999999999999999999999999999.9999999999"])),
    "ok": [True, False],
    "s": _TEXTS,
    "größe": _TEXTS,
    "day": list(map(date.fromisoformat, _DAYS)),
    "at": list(map(datetime.fromisoformat, _MOMENTS)),
    "local": list(map(datetime.fromisoformat, _LOCALS)),
    "c": [{}, {"name": "a", "n": 100}, {"name": "ab", "n": 2, "in": {"ok": True}}, {"in": None}, {"in": {"ok": False}}],
    "l": [[], [1]],
}
_PROPERTIES = [{}, {"a": "5"}, {"a": "a"}, {"a": "a", "b": "5"}, {"b": "it's"}]
_SYMBOLS = ["=", "<>", ">", ">=", "<", "<="]
_NUMERIC = ["tiny", "n", "big", "f", "d", "p", "q", "c.n"]
ROWS = 60


def _drawn_rows(seed: int) -> list[tuple[dict[str, Any] | None, dict[str, str]]]:
    """Values with properties. Drawn by a seed alone: what conditions ask of them needs many."""
    random = Random(seed)
    values = [{name: random.choice([None, *those]) for name, those in _VALUES.items()} for _ in range(ROWS)]
    return [(value if random.random() < 0.95 else None, random.choice(_PROPERTIES)) for value in values]


_numeric = st.sampled_from(_NUMERIC)
_textual = st.sampled_from(["s", "größe", "c.name"])
_boolean = st.sampled_from(["ok", "c.in.ok"])
_any = st.sampled_from(["n", "q", "s", "ok", "day", "at", "l", "c", "c.in", "c.in.ok"])
_orders = st.sampled_from(_SYMBOLS)
_equals = st.sampled_from(["=", "<>"])
_words = st.sampled_from(["contains", "startswith", "endswith", "not contains", "not startswith", "not endswith"])


def _field(names: st.SearchStrategy[str]) -> st.SearchStrategy[Tree]:
    return st.tuples(st.just("field"), names)


def _literal(values: list[Any]) -> st.SearchStrategy[Tree]:
    return st.tuples(st.just("literal"), st.sampled_from(values))


def _of_type(name: str, texts: list[str]) -> st.SearchStrategy[Tree]:
    field, literal = _field(st.just(name)), _literal(texts)
    return st.one_of(
        st.tuples(_orders, field, literal | field),
        st.tuples(_equals, literal, field),
        st.tuples(st.sampled_from(["between", "not between"]), field, literal, literal),
        st.tuples(st.sampled_from(["in", "not in"]), field, st.lists(st.sampled_from(texts), min_size=1, max_size=3).map(tuple)),
    )


def _ascending(tree: Tree) -> Tree:
    return (*tree[:2], *sorted(tree[2:], key=lambda one: one[1])) if tree[0].endswith("between") else tree


_property = st.tuples(st.just("property"), st.sampled_from(["a", "b"]))
_LEAVES = st.one_of(
    st.tuples(_orders, _field(_numeric), _field(_numeric) | _literal(_NUMBERS)),
    st.tuples(_orders, _literal(_NUMBERS), _field(_numeric)),
    st.tuples(st.sampled_from(["between", "not between"]), _field(_numeric), _literal(_NUMBERS), _literal(_NUMBERS)).map(
        _ascending
    ),
    st.tuples(st.sampled_from(["in", "not in"]), _field(_numeric), st.lists(st.sampled_from(_NUMBERS), min_size=1).map(tuple)),
    st.tuples(_equals, _field(_textual), _field(_textual) | _literal(_TEXTS) | _property),
    st.tuples(_equals, _literal(_TEXTS) | _property, _field(_textual)),
    st.tuples(st.sampled_from(["in", "not in"]), _field(_textual), st.lists(st.sampled_from(_TEXTS), min_size=1).map(tuple)),
    st.tuples(_words, _field(_textual), st.sampled_from(_TEXTS)),
    _of_type("day", _DAYS),
    _of_type("at", _MOMENTS),
    _of_type("local", _LOCALS),
    st.tuples(_equals, _field(_boolean), _field(_boolean) | _literal([True, False])),
    st.tuples(_equals, _literal([True, False]), _field(_boolean)),
    st.tuples(st.sampled_from(["is null", "is not null"]), _field(_any)),
    _field(_boolean),
    st.tuples(st.just(">"), _property, _literal([0, 1])),
)


def _nested(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(_equals, inner, inner | _field(_boolean)),
        st.tuples(st.sampled_from(["is null", "is not null"]), inner),
    )


_TREES = st.recursive(_LEAVES, _nested, max_leaves=6)


@settings(max_examples=examples(400))
@given(_TREES, st.integers(0, 2**32), st.integers(0, ROWS))
def test_messages_pass_as_the_model_says(tree: Tree, seed: int, cut: int) -> None:
    _check(tree, _drawn_rows(seed), cut)


def test_numbers_are_compared_exactly() -> None:
    for name in _NUMERIC[:-1]:
        drawn: list[tuple[Any, dict[str, str]]] = [({name: value}, {}) for value in _VALUES[name]]
        batch = _batch(drawn)
        for symbol, number in product(_SYMBOLS, _NUMBERS):
            _check((symbol, ("field", name), ("literal", number)), drawn, batch=batch)


def test_numbers_of_two_fields_are_compared_whatever_their_types_are() -> None:
    drawn = _drawn_rows(1)
    batch = _batch(drawn)
    for symbol, left, right in product(["=", "<="], _NUMERIC, _NUMERIC):
        _check((symbol, ("field", left), ("field", right)), drawn, batch=batch)


def _check(tree: Tree, drawn: list[tuple[Any, dict[str, str]]], cut: int = 0, *, batch: Any = None) -> None:
    batch = _batch(drawn) if batch is None else batch
    condition = SqlFilter.parse(_written(tree))
    check_filter(condition, SCHEMA)
    batch = pa.Table.from_batches([batch[:cut], batch[cut:]]) if cut else batch
    expected = [row for row, (value, one) in enumerate(drawn) if _delivered(tree, value, one)]
    assert condition.apply(batch).column("queue").to_pylist() == expected, _written(tree)


def _batch(drawn: list[tuple[Any, dict[str, str]]]) -> Any:
    return typed([value for value, _ in drawn], [one for _, one in drawn])


def _delivered(tree: Tree, value: Any, properties: Mapping[str, str]) -> bool:
    try:
        return _value(tree, value, properties) is True
    except NoNumber:
        return False


def _value(tree: Tree, value: Any, properties: Mapping[str, str]) -> Any:
    kind, *parts = tree
    if kind == "field":
        for name in parts[0].split("."):
            value = None if value is None else value.get(name)
        return value
    if kind == "literal":
        return parts[0]
    if kind == "property":
        return properties.get(parts[0])
    if kind == "not":
        inner = _value(parts[0], value, properties)
        return None if inner is None else not inner
    if kind in ("and", "or"):
        first = _value(parts[0], value, properties)
        if first is (kind == "or"):
            return first
        second = _value(parts[1], value, properties)
        return second if second is (kind == "or") or first is not None else None
    if kind in ("is null", "is not null"):
        return (_value(parts[0], value, properties) is None) == (kind == "is null")
    if kind == ">" and parts[0][0] == "property":
        return _truth(tree, properties)
    return _compared(tree, value, properties)


def _compared(tree: Tree, value: Any, properties: Mapping[str, str]) -> bool | None:
    kind, *parts = tree
    left = _value(parts[0], value, properties)
    if kind.removeprefix("not ") in ("contains", "startswith", "endswith"):
        if left is None or not parts[1]:
            return False
        word = kind.removeprefix("not ")
        return (parts[1] in left if word == "contains" else getattr(left, word)(parts[1])) == (word == kind)
    if kind.removeprefix("not ") == "in":
        return (
            None if left is None else any(_holds("=", parts[0], left, ("literal", one), one) for one in parts[1]) == (kind == "in")
        )
    if kind.removeprefix("not ") == "between":
        if left is None:
            return None
        inside = _holds(">=", parts[0], left, parts[1], parts[1][1]) and _holds("<=", parts[0], left, parts[2], parts[2][1])
        outside = _holds("<", parts[0], left, parts[1], parts[1][1]) or _holds(">", parts[0], left, parts[2], parts[2][1])
        return inside if kind == "between" else outside
    right = _value(parts[1], value, properties)
    if kind in ("=", "<>"):
        if left is None or right is None:
            equal = right is None if left is None and right is None else None if left is None else False
        else:
            equal = _holds("=", parts[0], left, parts[1], right)
        return None if equal is None else equal == (kind == "=")
    return None if left is None or right is None else _holds(kind, parts[0], left, parts[1], right)


_HOLDS = {"=": operator.eq, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_FLOATS = ("f", "d")


def _holds(symbol: str, first: Tree, left: Any, second: Tree, right: Any) -> bool:
    """A comparison of two values that are there; a literal is read as the field beside it asks."""
    for one, other in ((first, second), (second, first)):
        if one[0] != "field" or other[0] == "property":
            continue
        if one[1] in _FLOATS and other[0] == "field" and other[1] not in _FLOATS:
            left, right = float(left), float(right)
        elif other[0] == "literal":
            found = _read(one[1], other[1])
            left, right = (left, found) if other is second else (found, right)
    if any(isinstance(side, float) and not math.isfinite(side) for side in (left, right)):
        left, right = float(left), float(right)
    return bool(_HOLDS[symbol](left, right))


def _read(name: str, literal: Any) -> Any:
    match name:
        case "day":
            return date.fromisoformat(literal)
        case "at" | "local":
            return datetime.fromisoformat(literal)
        case "f" | "d":
            return Fraction(literal)
    return Decimal(repr(literal)) if isinstance(literal, float) else literal


def _written(tree: Tree) -> str:
    kind, *parts = tree
    if kind == "field":
        return "value." + ".".join(f"`{name}`" if name == "in" else name for name in parts[0].split("."))
    if kind == "property":
        return str(parts[0])
    if kind == "literal":
        return _quoted(parts[0])
    operands = [
        _written(part) if part[0] in ("field", "property", "literal") else f"({_written(part)})"
        for part in parts
        if isinstance(part, tuple) and part and part[0].__class__ is str and kind.removeprefix("not ") != "in"
    ]
    if kind.removeprefix("not ") == "in":
        return f"{_written(parts[0])} {kind} ({', '.join(map(_quoted, parts[1]))})"
    if kind == "not":
        return f"NOT {operands[0]}"
    if kind.endswith("null"):
        return f"{operands[0]} {kind}"
    if kind.endswith("between"):
        return f"{operands[0]} {kind} {operands[1]} AND {operands[2]}"
    if isinstance(parts[-1], str):
        return f"{operands[0]} {kind} {_quoted(parts[-1])}"
    return f" {kind} ".join(operands)


def _quoted(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).upper()


# --- What the language says -----------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SAID: list[tuple[str, dict[str, Any] | None, bool]] = [
    ("value.big > 100", {"big": 101}, True),
    ("value.big > 100", {"big": 100}, False),
    ("value.big > 100", {}, False),
    ("value.big > 100", None, False),
    ("value.big > 9007199254740992.5", {"big": 2**53 + 1}, True),
    ("value.tiny < 1000", {"tiny": 1}, True),
    ("value.p = 0.1", {"p": Decimal("0.10")}, True),
    ("value.p >= 1.005", {"p": Decimal("1.00")}, False),
    ("value.p > 1.005", {"p": Decimal("1.01")}, True),
    ("value.p < 1e300 AND value.p > -1e300", {"p": Decimal("99.99")}, True),
    ("value.d > value.n", {"d": 2.5, "n": 2}, True),
    ("value.q = value.p", {"q": Decimal("1.5"), "p": Decimal("1.50")}, True),
    ("value.p = value.d", {"p": Decimal("99.99"), "d": 99.99}, True),  # Arrow's own cast gives 99.99000000000001
    ("value.n IN (1, 2, -3)", {"n": -3}, True),
    ("value.n NOT IN (1, 2)", {"n": None}, False),
    ("value.n BETWEEN 1 AND 3", {"n": 3}, True),
    ("5 < value.n", {"n": 6}, True),
    ("value.s = 'x'", {"s": "x"}, True),
    ("value.s IN ('x', 'y') AND value.s CONTAINS 'y'", {"s": "y"}, True),
    ("value.größe STARTSWITH 'g'", {"größe": "groß"}, True),
    ("value.c.name = 'x'", {"c": {"name": "x"}}, True),
    ("value.c.name IS NULL", {"c": None}, True),
    ("value.c IS NULL", {"c": {}}, False),
    ("value.`order-id` = 7", {"order-id": 7}, True),
    ("value.c.`in`.ok", {"c": {"in": {"ok": True}}}, True),
    ("value.ok", {"ok": True}, True),
    ("value.ok", {"ok": None}, False),
    ("NOT value.ok", {"ok": None}, False),
    ("NOT value.ok", {"ok": False}, True),
    ("value.ok = FALSE AND value.ok IS NOT NULL", {"ok": False}, True),
    ("value.ok = (value.n > 1)", {"ok": True, "n": 2}, True),
    ("value.at >= '2026-01-31T12:00:00Z'", {"at": NOON}, True),
    ("value.at < '2026-01-31T14:00:00+02:00'", {"at": NOON}, False),
    ("value.at BETWEEN '2026-01-31T11:59:00Z' AND '2026-01-31T12:00:00Z'", {"at": NOON}, True),
    ("value.day = '2026-01-31'", {"day": NOON.date()}, True),
    ("value.local > '2026-01-31'", {"local": NOON.replace(tzinfo=None)}, True),
    ("value.l IS NOT NULL AND value.b IS NULL", {"l": []}, True),
    ("value = '5'", {"n": 5}, False),  # the property named value
]


@pytest.mark.parametrize(("expression", "value", "passing"), SAID, ids=range(len(SAID)))
def test_what_fields_say(expression: str, value: dict[str, Any] | None, passing: bool) -> None:
    assert passes(expression, value) is passing


def test_fields_and_properties_stand_side_by_side() -> None:
    assert passes("value.n > 1 AND a = 'x' AND TAGS = value.s", {"n": 2, "s": "t"}, a="x", TAGS="t")
    assert not passes("a > 1 OR value.n > 1", {"n": 2}, a="no number")


REFUSED = [
    ("value.amount > 1", "object: value.amount; expected: value.tiny, value.n, "),
    ("value.N > 1", "names are told apart by case: value.n"),
    ("value.n.x > 1", "object: value.n.x"),
    ("value.c.l IS NULL", "object: value.c.l"),
    ("value.l.element > 1", "object: value.l.element"),
    ("value.n > '5'", "object: value.n; expected: int is compared with numbers; observed: > '5'"),
    ("value.n = 'x'", "object: value.n; expected: int is compared with numbers; observed: = 'x'"),
    ("'x' = value.p", "object: value.p; expected: decimal(4,2) is compared with numbers; observed: = 'x'"),
    ("value.n IN (1, 'x')", "object: value.n; expected: int is compared with numbers; observed: = 'x'"),
    ("value.n CONTAINS 'x'", "object: value.n; expected: int is compared with numbers; observed: CONTAINS"),
    ("value.n CONTAINS ''", "object: value.n"),
    ("value.n", "object: value.n; expected: int is compared with numbers; observed: it stands where a condition is called for"),
    ("value.n = TRUE", "object: value.n"),
    ("value.n = a", "object: value.n; expected: int is compared with numbers; observed: = the property a"),
    ("a > value.n", "object: value.n; expected: int is compared with numbers; observed: < the property a"),
    ("value.s > 'x'", "object: value.s; expected: string is compared by =, <>, IN, CONTAINS, STARTSWITH and ENDSWITH with texts"),
    ("value.s > 5", "object: value.s; expected: string is compared by"),
    ("value.s = 5", "object: value.s; expected: string is compared by"),
    ("value.s IN ('x', 5)", "object: value.s; expected: string is compared by"),
    ("value.s = value.n", "object: value.s; expected: string is compared by"),
    ("value.ok > 5", "object: value.ok; expected: boolean is a condition"),
    ("value.ok = 5", "object: value.ok; expected: boolean is a condition"),
    ("value.ok = 'true'", "object: value.ok; expected: boolean is a condition"),
    ("a = value.ok", "object: value.ok; expected: boolean is a condition"),
    ("value.ok IN ('true')", "object: value.ok; expected: boolean is a condition"),
    (
        "value.day > '2026-02-30'",
        "object: value.day; expected: date is compared with texts such as '2026-01-31'; observed: > '2026-02-30'",
    ),
    ("value.day = 5", "object: value.day"),
    (
        "value.day = value.at",
        "object: value.day; expected: date is compared with texts such as '2026-01-31'; observed: = value.at, which",
    ),
    (
        "value.at > '2026-01-31T12:00:00'",
        "object: value.at; expected: timestamp is compared with texts such as '2026-01-31T12:00:00Z'",
    ),
    ("value.at > '2026-01-31T12:00:00.1234567Z'", "object: value.at"),
    ("value.at > a", "object: value.at"),
    ("value.local > '2026-01-31T12:00:00Z'", "object: value.local; expected: timestamp_ntz is compared with texts"),
    ("value.at = value.local", "object: value.at"),
    ("value.b = 'x'", "object: value.b; expected: of binary only IS NULL and IS NOT NULL are asked; observed: = 'x'"),
    ("value.l = value.l", "object: value.l; expected: of array<int> only IS NULL and IS NOT NULL are asked"),
    ("value.m CONTAINS 'x'", "object: value.m; expected: of map<string, int> only"),
    ("value.c", "object: value.c; expected: of struct<name: string, n: int, in: struct<ok: boolean>> only"),
    ("value.n > 1 OR value.no", "object: value.no"),
]


@pytest.mark.parametrize(("expression", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_has_no_meaning_is_refused_before_reading_and_then(expression: str, said: str) -> None:
    condition = parse_filter(f"SQL92: {expression}")
    for refuse in (lambda: check_filter(condition, SCHEMA), lambda: condition.apply(typed([{}]))):
        with pytest.raises(InvalidArgument) as found:
            refuse()
        assert said in str(found.value)
    check_filter(condition, None)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("value. = 1", "a field of a typed topic is value.name"),
        ("value.a$ = 1", "a field of a typed topic is value.name"),
        ("VALUE.a = 1", "a field of a typed topic is value.name"),
        ("a > '5'", "only numbers are more or less than others"),
        ("value.n BETWEEN 3 AND 1", "nothing is between them"),
        ("value.n IN (TRUE)", "expected: a text in single quotes or a number"),
        ("a IN (1)", "expected: a text in single quotes"),
        ("-value.n > 1", "minus stands before a number only"),
        ("value.n = NULL", "nothing is equal to NULL"),
    ],
)
def test_what_cannot_be_read_is_refused(expression: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as found:
        SqlFilter.parse(expression)
    assert said in str(found.value)


def test_only_the_fields_that_are_named_are_read() -> None:
    filters = filters_of("paid", "value.c.name = 'x' OR value.n > 1 OR a = '1'")
    assert columns_read(filters, typed=True) == {"tag", "value.c", "value.n", "properties"}
    assert columns_read(filters, typed=False) == {"tag", "properties"}


@pytest.mark.parametrize(
    ("expression", "properties", "passing"),
    [
        ("value.a = 'x'", {"value.a": "x"}, True),
        ("value.a > 1", {"value.a": "2"}, True),
        ("value.a > 1", {"value.a": "no number"}, False),
        ("value.a > '1' AND value.a <= '2.0'", {"value.a": "2"}, True),
        ("NOT (value.a > 'x')", {"value.a": "2"}, False),
        ("value.a IN (1, 2)", {"value.a": "2"}, True),
        ("value.a NOT IN (1, 'x')", {"value.a": "2"}, True),
        ("value.a IN ('1', '2')", {"value.a": "2"}, True),
        ("value.a.b CONTAINS 'x' AND value.c IS NULL AND NOT value.a.b", {"value.a.b": "x"}, True),
        ("value.a = value.b OR value.a = TRUE", {"value.a": "true"}, True),
    ],
)
def test_messages_without_a_schema_have_properties_only(expression: str, properties: dict[str, str], passing: bool) -> None:
    assert bool(SqlFilter.parse(expression).apply(rows([properties])).num_rows) is passing

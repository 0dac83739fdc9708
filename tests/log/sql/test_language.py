"""What the language says of single expressions: RocketMQ's own examples, its rules of NULL and types, and the errors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.log.errors import CallError, InvalidArgument, LimitExceeded
from penstock.log.filter.filters import parse_filter
from penstock.log.filter.sql_evaluate import SqlFilter
from tests.log.sql.messages import rows


def passes(expression: str, **properties: str) -> bool:
    return bool(SqlFilter.parse(expression).apply(rows([properties])).num_rows == 1)


# The expressions of RocketMQ's manual (filter by SQL92) and of the tests of its filter module (ExpressionTest), with what they say of messages.
@pytest.mark.parametrize(
    ("expression", "properties", "passing"),
    [
        ("a > 5 AND b = 'abc'", {"a": "10", "b": "abc", "c": "true"}, True),
        ("a > 5 AND b = 'abc'", {"a": "1", "b": "abc", "c": "true"}, False),
        ("a between 0 and 3", {"a": "0"}, True),
        ("a between 0 and 3", {"a": "4"}, False),
        (
            "(TAGS is not null and TAGS in ('TagA', 'TagB')) and (a is not null and a between 0 and 3)",
            {"TAGS": "TagB", "a": "3"},
            True,
        ),
        (
            "(TAGS is not null and TAGS in ('TagA', 'TagB')) and (a is not null and a between 0 and 3)",
            {"TAGS": "TagC", "a": "3"},
            False,
        ),
        ("a=3 and b<>4 And c>5 AND d<=4", {"a": "3", "b": "5", "c": "6", "d": "1"}, True),
        ("a=3 and b<>4 And c>5 AND d<=4", {"a": "4", "b": "5", "c": "6", "d": "1"}, False),
        ("a=3 or b<>4 Or c>5 OR d<=4", {"a": "3"}, True),
        ("a=3 or b<>4 Or c>5 OR d<=4", {"a": "4", "b": "4", "c": "3", "d": "2"}, True),
        ("a=3 or b<>4 Or c>5 OR d<=4", {"a": "4", "b": "4", "c": "3", "d": "10"}, False),
        ("a in ('3', '4', '5')", {"a": "4"}, True),
        ("a in ('3', '4', '5')", {"a": "8"}, False),
        ("a not in ('3', '4', '5')", {"a": "8"}, True),
        ("a not in ('3', '4', '5')", {"a": "5"}, False),
        ("a between 2 and 10", {"a": "10"}, True),
        ("a between 2 and 10", {"a": "11"}, False),
        ("a not between 2 and 10", {"a": "1"}, True),
        ("a not between 2 and 10", {"a": "2"}, False),
        ("a is null", {"abc": "2"}, True),
        ("a is null", {"a": "2"}, False),
        ("a is not null", {"a": "2"}, True),
        ("a is not null and a='hello'", {"a": "hello"}, True),
        ("a is not null and a='hello'", {}, False),
        ("a=TRUE OR b=FALSE", {"a": "true", "b": "false"}, True),
        ("a=TRUE OR b=FALSE", {"a": "false", "b": "true"}, False),
        ("a is null OR a='hello'", {}, True),
        ("a is null OR a='hello'", {"a": "abc"}, False),
        ("TAGS is not null and TAGS='''''tag'''''", {"TAGS": "''tag''"}, True),
        ("a > 3.1E10", {"a": "3.1415E10"}, True),
        ("a > 3.14", {"a": "3.1415"}, True),
        ("a > b", {"a": "10", "b": "20"}, False),
        ("a > b", {"a": "20", "b": "10"}, True),
        ("a between up and low", {"a": "3.14", "up": "up", "low": "low"}, False),
        ("key is not null and key between 0 and 100", {"key": "con"}, False),
        ("a=b", {"a": "3.14", "b": "3.14"}, True),
        ("a<>b", {"a": "3.14", "b": "3.141"}, True),
    ],
)
def test_what_rocketmq_says(expression: str, properties: dict[str, str], passing: bool) -> None:
    assert passes(expression, **properties) is passing


@pytest.mark.parametrize(
    ("expression", "properties", "passing"),
    [
        ("a > 5", {"a": "5.5"}, False),  # a whole number is compared with whole numbers
        ("a > 5.0", {"a": "5.5"}, True),
        ("a > 5", {"a": "abc"}, False),
        ("NOT (a > 5)", {"a": "abc"}, False),  # what cannot be compared does not pass, either way
        ("a > 5 OR b = 'x'", {"a": "abc", "b": "x"}, False),
        ("b = 'x' OR a > 5", {"a": "abc", "b": "x"}, True),  # decided before
        ("b <> 'x' AND a > 5", {"a": "abc", "b": "x"}, False),
        ("NOT (b <> 'x' AND a > 5)", {"a": "abc", "b": "x"}, True),
        ("a <> 'x'", {}, False),
        ("NOT (a = 'x')", {}, False),
        ("'x' <> a", {}, True),  # only the left side's NULL is unknown
        ("a = b", {}, True),
        ("a > 5", {"a": "3000000000"}, True),  # 64 bits, where RocketMQ has 32 (docs/0012)
        ("a = 9223372036854775807", {"a": "9223372036854775807"}, True),
        ("a >= -9223372036854775808", {"a": "-9223372036854775809"}, False),
        ("a = 7L", {"a": "+007"}, True),
        ("a > 0.0", {"a": ".5"}, True),
        ("a < 1.", {"a": "5e-1"}, True),
        ("a = 0.0", {"a": "-0.0"}, True),
        ("a > 1", {"a": "NaN"}, False),
        ("a", {"a": "true"}, False),  # a text is no truth value
        ("NOT a", {"a": "true"}, True),
        ("a = true", {"a": "TRUE"}, True),
        ("true = a", {"a": "True"}, True),
        ("(a > 1) = FALSE", {"a": "0"}, True),
        ("a CONTAINS 'ell'", {"a": "hello"}, True),
        ("a STARTSWITH 'he' AND a ENDSWITH 'lo'", {"a": "hello"}, True),
        ("a not contains 'x'", {"a": "hello"}, True),
        ("a NOT CONTAINS 'x'", {}, False),
        ("a CONTAINS ''", {"a": "hello"}, False),
        ("-5 < a", {"a": "-4"}, True),
        ("a = +5", {"a": "5"}, True),
        ("$a_1 = 'ü'", {"$a_1": "ü"}, True),
        ("A = 'x'", {"a": "x"}, False),
        ("a = 'x' /* of\nthe * north */ -- only", {"a": "x"}, True),
        ("TRUE", {}, True),
        ("NULL", {}, False),
        ("a IS NULL IS NOT NULL", {}, True),
        ("a = 1 OR b = 2 AND c = 3", {"a": "1", "b": "0", "c": "0"}, True),
        ("NOT (a = 1) AND b = 2", {"a": "0", "b": "2"}, True),
        ("NOT a = b", {"a": "x", "b": "TRUE"}, True),  # (NOT a) = b
    ],
)
def test_rules(expression: str, properties: dict[str, str], passing: bool) -> None:
    assert passes(expression, **properties) is passing


def test_keys_are_one_text() -> None:
    found = SqlFilter.parse("KEYS CONTAINS 'order-7' AND KEYS IS NOT NULL").apply(rows([{}, {}], keys=[["x", "order-7"], []]))
    assert found.column("queue").to_pylist() == [0]


def test_a_table_of_several_chunks_and_a_slice() -> None:
    batch = rows([{"a": str(n)} for n in range(10)])
    table = pa.Table.from_batches([batch.slice(2, 3), batch.slice(7)])
    assert SqlFilter.parse("a >= 4 AND a <> 8").apply(table).column("queue").to_pylist() == [4, 7, 9]
    assert SqlFilter.parse("a >= 4").apply(batch.slice(0, 0)).num_rows == 0


def test_a_long_chain_of_terms() -> None:
    assert passes(" OR ".join(f"a={n}" for n in range(450)), a="449")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("a > > 5", "cannot be read.*expected: a property, a literal.*column 5: > 5"),
        ("a like 'x%'", "column 3: like.*CONTAINS, STARTSWITH and ENDSWITH"),
        ("a LIKE 'x%'", "CONTAINS, STARTSWITH and ENDSWITH"),
        ("a NOT LIKE 'x%'", "column 3: NOT LIKE.*CONTAINS, STARTSWITH and ENDSWITH"),
        ("a = NOW()", r"column 8: \(\).*there are no functions: NOW would be a property"),
        ("now 'x'", r"expected: an operator, AND, OR, or the end; observed: column 5: 'x'\)$"),
        ("a = 'x", "a text is not closed.*column 5: 'x"),
        ("a = 'it's'", "a text is not closed.*column 10: '"),
        ('a = "x"', "column 5.*single quotes"),
        ("a != 3", "column 3: != 3.*unequal is <>"),
        ("a == 3", "column 3: == 3.*equal is ="),
        ("a + 1 > 3", r"column 3: \+ 1.*"),
        ("a * 2 > 3", "column 3.*no arithmetic"),
        ("a > 5 && b > 5", "column 7.*write AND"),
        ("a || b", "column 3.*write OR.*TAGS IN"),
        ("(a = 3", r"expected: \); observed: column 7: the end"),
        ("a = 3)", r"column 6: \)"),
        ("a = 3 b = 4", "expected: an operator, AND, OR, or the end; observed: column 7: b = 4"),
        ("a and between 2 and 10", "column 7: between"),
        ("a between 10 and 0", "nothing is between them.*column 11: 10 and 0"),
        ("a in (3)", "expected: a text in single quotes; observed: column 7"),
        ("a in ()", "a text in single quotes"),
        ("'a' in ('b')", "IN is asked of something else than a property"),
        ("a contains b", "a text in single quotes; observed: column 12"),
        ("'x' or a", "a value stands where a condition is called for.*column 1"),
        ("5", "a value stands where a condition"),
        ("a > 'x'", "only numbers are more or less.*column 5"),
        ("a > TRUE", "only numbers are more or less.*column 5"),
        ("(a > 1) > 2", "only numbers are more or less.*column 1"),
        ("a = NULL", "nothing is equal to NULL.*column 5.*IS NULL"),
        ("1 = TRUE", "a truth value is compared with another"),
        ("NOT a = 1", r"a truth value is compared with another.*column 9: 1\)\. NOT binds what follows it alone: write NOT \(…\)"),
        ("NOT a = 'x' OR b = 1", "NOT binds what follows it alone"),
        ("NOT a > 1", r"more or less.*column 1: NOT a > 1.*write NOT \(…\)"),
        ("-a > 3", "minus stands before a number only.*column 2"),
        ("a > 9223372036854775808", "out of range.*column 5"),
        ("a > 1e999", "out of range"),
        ("", "column 1: the end"),
        ("a is 3", "expected: NULL; observed: column 6: 3"),
        ("a = 'x' /* never", "a comment is not closed.*column 9"),
        ("straße = 1", "column 5"),
    ],
)
def test_errors_say_what_is_wrong_and_at_which_column(expression: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as error:
        SqlFilter.parse(expression)
    assert error.value.object == expression


def test_behind_the_prefix_columns_are_counted_in_what_the_error_shows() -> None:
    with pytest.raises(InvalidArgument, match=r"unknown character.*object: price ~ 3; observed: column 7: ~ 3"):
        parse_filter("SQL92:  price ~ 3")


@pytest.mark.parametrize("deep", ["NOT " * 100 + "a", "(" * 100 + "a" + ")" * 100, "a" + " IS NULL" * 100, "a = " * 100 + "a"])
def test_what_is_nested_too_deeply(deep: str) -> None:
    with pytest.raises(LimitExceeded, match=r"nested too deeply.*at most 64 levels"):
        SqlFilter.parse(deep)


@pytest.mark.parametrize("other", [5, b"a = 1", ["a = 1"], True, "a = '\ud800'"])
def test_what_is_no_text(other: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"a condition is a text.*expected: a str of Unicode characters"):
        SqlFilter.parse(other)


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("TRUE", set()),
        ("TAGS = 'paid'", {"tag"}),
        ("KEYS CONTAINS 'x' OR TAGS IS NULL", {"tag", "keys"}),
        ("NOT (a > 1) AND b IN ('x') OR a BETWEEN 2 AND 3", {"properties"}),
        ("(TAGS IN ('x')) = (5 > a)", {"tag", "properties"}),
        ("KEYS AND a ENDSWITH 'x'", {"keys", "properties"}),
    ],
)
def test_only_what_the_condition_names_is_looked_at(expression: str, columns: set[str]) -> None:
    keep = SqlFilter.parse(expression)
    assert keep.columns == columns
    batch = rows([{"a": "7", "TAGS": "paid"}])
    assert keep.apply(batch.select(["queue", *columns])).num_rows == keep.apply(batch).num_rows


def test_what_is_too_long() -> None:
    with pytest.raises(LimitExceeded, match="at most 4096 characters; observed: 4099 characters"):
        SqlFilter.parse("a = '" + "x" * 4093 + "'")


def test_a_filter_is_tags_or_what_stands_behind_sql92() -> None:
    assert parse_filter(" SQL92: a > 5") == SqlFilter.parse("a>5")
    assert parse_filter("paid || made") == parse_filter("made||paid")
    assert parse_filter("SQL92") == parse_filter(" SQL92 ")  # a tag
    with pytest.raises(CallError, match="column 4"):
        parse_filter("SQL92: a =")

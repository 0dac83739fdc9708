"""Drawn expressions on drawn messages, compiled and interpreted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.filter.sql_evaluate import SqlFilter
from tests.log.sql.interpreter import Tree, delivered
from tests.log.sql.messages import rows
from tests.thorough import examples

_NAMES = st.sampled_from(["a", "b", "$c", "TAGS"])
_NUMBERS = st.one_of(
    st.integers(-3, 3), st.sampled_from([2**31, -(2**63), 2**63 - 1]), st.sampled_from([0.0, 0.5, 1.0, 2.5, 1e3, 3.5e-2, 9.2e18])
)
_DIGITS = (
    "1 2 -3 +2 007 1.0 2.5 1e3 .5 5. 1e999 9223372036854775807 9223372036854775808 -9223372036854775808 00000000000000000000007"
)
_TEXTS = st.sampled_from(["", "a", "ab", "it's", "true", "TRUE", "false", "ü", " 1", "1 ", "0x1", "NaN", "-", *_DIGITS.split()])
_PROPERTIES = st.dictionaries(_NAMES, _TEXTS, max_size=4)

_property = st.tuples(st.just("property"), _NAMES)
_number = st.tuples(st.just("literal"), _NUMBERS)
_text = st.tuples(st.just("literal"), _TEXTS)
_truth = st.tuples(st.just("literal"), st.sampled_from([True, False, None]))
_comparable = st.one_of(_property, _number)
_ordering = st.tuples(st.sampled_from([">", ">=", "<", "<="]), _comparable, _comparable)
_equality = st.tuples(st.sampled_from(["=", "<>"]), st.one_of(_property, _number, _text), st.one_of(_property, _number, _text))
_between = st.tuples(
    st.sampled_from(["between", "not between"]), _comparable, st.one_of(_property, st.just(("literal", -(2**63)))), _comparable
)
_in = st.tuples(st.sampled_from(["in", "not in"]), _NAMES, st.lists(_TEXTS, min_size=1, max_size=3).map(tuple))
_words = ["contains", "startswith", "endswith"]
_matching = st.tuples(st.sampled_from(_words + [f"not {word}" for word in _words]), st.one_of(_property, _text, _number), _TEXTS)
_null = st.tuples(st.sampled_from(["is null", "is not null"]), st.one_of(_property, _text, _number, _truth))


def _nested(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    operand = st.one_of(inner, _property)
    truths = st.one_of(inner, _property, st.just(("literal", True)), st.just(("literal", False)))
    return st.one_of(
        st.tuples(st.just("not"), operand),
        st.tuples(st.sampled_from(["and", "or"]), operand, operand),
        st.tuples(st.sampled_from(["and", "or"]), operand, operand, operand),
        st.tuples(st.sampled_from(["=", "<>"]), inner, truths).map(_without_null),
        st.tuples(st.sampled_from(["is null", "is not null"]), inner),
        st.tuples(st.sampled_from(["contains", "not endswith"]), inner, _TEXTS),
    )


def _without_null(tree: Tree) -> Tree:
    return tuple(("literal", True) if part == ("literal", None) else part for part in tree)


_TREES = st.recursive(st.one_of(_ordering, _equality, _between, _in, _matching, _null, _truth, _property), _nested, max_leaves=12)


@settings(max_examples=examples(400))
@given(_TREES, st.lists(_PROPERTIES, max_size=8))
def test_messages_pass_as_the_interpreter_says(tree: Tree, messages: list[dict[str, str]]) -> None:
    passed = SqlFilter.parse(_written(tree)).apply(rows(messages)).column("queue").to_pylist()
    assert passed == [row for row, properties in enumerate(messages) if delivered(tree, properties)]


def _written(tree: Tree) -> str:
    """The expression as a user writes it; every part in parentheses, so that precedence is not what is tested here."""
    kind, *parts = tree
    if kind == "property":
        return str(parts[0])
    if kind == "literal":
        return _literal(parts[0])
    if kind in ("in", "not in"):
        return f"{parts[0]} {kind.upper()} ({', '.join(map(_literal, parts[1]))})"
    operands = [
        _written(part) if part[0] in ("property", "literal") else f"({_written(part)})" for part in parts if isinstance(part, tuple)
    ]
    if kind == "not":
        return f"NOT {operands[0]}"
    if kind.endswith("null"):
        return f"{operands[0]} {kind.upper()}"
    if kind.endswith("between"):
        return f"{operands[0]} {kind.upper()} {operands[1]} AND {operands[2]}"
    if isinstance(parts[-1], str):
        return f"{operands[0]} {kind} {_literal(parts[-1])}"
    return f" {kind} ".join(operands)


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return {True: "TRUE", False: "false", None: "Null"}[value] if value is None or isinstance(value, bool) else repr(value)

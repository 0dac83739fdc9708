"""Conditions evaluated on whole columns, with RocketMQ's rules of NULL and types (docs/0012).

A condition has two columns: its truth (true, false, NULL), and where it *failed*: a text that is no number was compared with a number. There RocketMQ
does not deliver the message, unless an AND or OR was decided before.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ..schema.fields import PrimitiveType
from ..schema.topic_schema import TopicSchema
from .sql_bodies import body_columns
from .sql_expressions import (
    And,
    BodyField,
    Cast,
    Compare,
    Condition,
    Equal,
    Expression,
    FieldReference,
    In,
    IsNull,
    Literal,
    Matches,
    Not,
    Or,
    Property,
    Scalar,
    named_in,
    without_fields,
)
from .sql_fields import FieldValues, mirrored
from .sql_numbers import doubles, integers, number_of
from .sql_parser import parse

_ORDERINGS: dict[str, tuple[Callable[..., bool], Callable[..., pa.Array]]] = {
    ">": (operator.gt, pc.greater),
    ">=": (operator.ge, pc.greater_equal),
    "<": (operator.lt, pc.less),
    "<=": (operator.le, pc.less_equal),
    "=": (operator.eq, pc.equal),
}
_Operand: TypeAlias = Property | FieldReference | Literal
_COLUMNS = {"TAGS": "tag", "KEYS": "keys"}
_LABELS = (
    pa.field("tag", pa.string()),
    pa.field("keys", pa.list_(pa.string())),
    pa.field("properties", pa.map_(pa.string(), pa.string())),
)
_MATCHERS = {"CONTAINS": pc.match_substring, "STARTSWITH": pc.starts_with, "ENDSWITH": pc.ends_with}


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A condition. Messages pass for which it is true and nothing failed."""

    condition: Condition

    @classmethod
    def parse(cls, expression: str) -> SqlFilter:
        """Raises `InvalidArgument`, naming the column, and `LimitExceeded`."""
        return cls(parse(expression))

    @property
    def columns(self) -> frozenset[str]:
        """A field such as ``value.amount`` is read from ``properties`` in a topic without a schema."""
        return frozenset(
            one.name
            if isinstance(one, FieldReference)
            else "body"
            if isinstance(one, BodyField)
            else _COLUMNS.get(one.name, "properties")
            for one in named_in(self.condition)
        )

    @property
    def reads_bodies(self) -> bool:
        """Whether it costs the reading of each body."""
        return any(isinstance(one, BodyField) for one in named_in(self.condition))

    def apply(self, rows: pa.RecordBatch | pa.Table, schema: TopicSchema | None = None) -> pa.RecordBatch | pa.Table:
        if rows.num_rows == 0:
            return rows
        typed = "value" in rows.schema.names and pa.types.is_struct(rows.schema.field("value").type)
        return rows.filter(_Evaluation(rows, schema).passing(self.condition if typed else without_fields(self.condition)))

    def check(self, schema: TopicSchema) -> None:
        """Raise `InvalidArgument` for an unknown field, or a comparison without a meaning."""
        columns = [*_LABELS, pa.field("value", schema.arrow)]
        _Evaluation(pa.RecordBatch.from_pylist([], pa.schema(columns)), schema).passing(self.condition)


@dataclass(frozen=True, slots=True)
class _Found:
    truth: pa.Array
    failed: pa.Array


class _Evaluation:
    """One condition on one batch; each property is looked up once."""

    def __init__(self, rows: pa.RecordBatch | pa.Table, schema: TopicSchema | None) -> None:
        self._rows = rows
        self._schema = schema
        self._columns: dict[str, pa.Array] = {}
        self._fields: dict[FieldReference, FieldValues] = {}
        self._nowhere = self._all(False)

    def passing(self, condition: Condition) -> pa.Array:
        self._columns |= body_columns(self._rows, (one for one in named_in(condition) if isinstance(one, BodyField)))
        found = self._condition(condition)
        return pc.and_not(pc.fill_null(found.truth, False), found.failed)

    def _condition(self, of: Condition) -> _Found:
        match of:
            case Literal(value):
                return self._always(value if isinstance(value, bool) else None)
            case Cast(FieldReference() as field):
                return self._sure(self._field(field).truths)
            case Cast(named):
                return self._sure(pc.if_else(self._is_absent(named), self._all(None), self._nowhere))
            case Not(inner):
                found = self._condition(inner)
                return _Found(pc.invert(found.truth), found.failed)
            case And(terms):
                return self._joined(terms, pc.and_kleene, decided=pc.invert)
            case Or(terms):
                return self._joined(terms, pc.or_kleene, decided=lambda truth: truth)
            case Equal(left, right):
                return self._equal(left, right)
            case Compare(symbol, left, right):
                return self._compare(symbol, left, right)
            case IsNull(inner):
                return self._is_null(inner)
            case In(named, values, negated):
                inside = self._inside(named, values)
                return self._sure(pc.invert(inside) if negated else inside)
            case Matches(word, of=text, sought=sought, negated=negated):
                return self._matches(word, text, sought, negated=negated)

    def _joined(self, terms: tuple[Condition, ...], join: Callable[..., pa.Array], *, decided: Callable[..., pa.Array]) -> _Found:
        found = self._condition(terms[0])
        for term in terms[1:]:
            # A term fails only where those before it have not decided.
            more = self._condition(term)
            open_here = pc.invert(pc.fill_null(decided(found.truth), False))
            found = _Found(join(found.truth, more.truth), pc.or_(found.failed, pc.and_(more.failed, open_here)))
        return found

    # --- Comparisons --------------------------------------------------------------------------------------------------------

    def _equal(self, left: Expression, right: Expression) -> _Found:
        if (
            not isinstance(left, Property | FieldReference | Literal)
            or not isinstance(right, Property | FieldReference | Literal)
            or self._is_truth(left)
            or self._is_truth(right)
        ):
            return self._equal_truths(left, right)
        if isinstance(left, FieldReference) or isinstance(right, FieldReference):
            found = self._sure(self._typed("=", left, right))
        elif _is_text(left) and _is_text(right):
            found = self._sure(pc.equal(self._texts(left), self._texts(right)))
        else:
            found = self._compare("=", left, right)
        return _Found(_null_rule(self._is_absent(left), self._is_absent(right), found.truth), found.failed)

    def _equal_truths(self, left: Expression, right: Expression) -> _Found:
        """A text is true if it is "true" in any case, else false. A number equals none."""
        for side, other in ((left, right), (right, left)):
            if isinstance(side, FieldReference) and (isinstance(other, Property) or _is_value(other)):
                raise self._field(side).refusal(f"= {_shown(other)}")
        if any(isinstance(side, Literal) and not isinstance(side.value, bool | str) for side in (left, right)):
            return self._always(False)
        first, second = self._truths(left), self._truths(right)
        truth = _null_rule(pc.is_null(first.truth), pc.is_null(second.truth), pc.equal(first.truth, second.truth))
        return _Found(truth, pc.or_(first.failed, second.failed))

    def _compare(self, symbol: str, left: _Operand, right: _Operand) -> _Found:
        if isinstance(left, FieldReference) or isinstance(right, FieldReference):
            return self._sure(self._typed(symbol, left, right))
        on_values, on_columns = _ORDERINGS[symbol]
        whole = any(isinstance(side, Literal) and isinstance(side.value, int) for side in (left, right))
        if isinstance(left, Literal) and isinstance(right, Literal):
            assert left.value is not None  # the parser refuses NULL where numbers are compared
            assert right.value is not None
            first, second = number_of(left.value, whole=whole), number_of(right.value, whole=whole)
            if first is None or second is None:
                return _Found(self._all(None), self._all(True))
            return self._always(on_values(first, second))
        truth = on_columns(self._numbers(left, whole=whole), self._numbers(right, whole=whole))
        absent = pc.or_(self._is_absent(left), self._is_absent(right))
        return _Found(truth, pc.and_not(pc.is_null(truth), absent))

    def _typed(self, symbol: str, left: _Operand, right: _Operand) -> pa.Array:
        if not isinstance(left, FieldReference):
            left, right, symbol = right, left, mirrored(symbol)
        assert isinstance(left, FieldReference)
        field = self._field(left)
        match right:
            case FieldReference():
                return field.compared(symbol, self._field(right))
            case Literal(value):
                return field.compared(symbol, value)
            case Property(name) if symbol == "=" and field.type is PrimitiveType.STRING:
                return pc.equal(field.texts, self._column(name))
            case Property():
                raise field.refusal(f"{symbol} {_shown(right)}")

    def _inside(self, named: Property | FieldReference, values: tuple[str | int | float, ...]) -> pa.Array:
        if isinstance(named, FieldReference) and self._field(named).type is not PrimitiveType.STRING:
            return reduce(pc.or_, [self._field(named).compared("=", value) for value in values])
        if (
            isinstance(named, FieldReference)
            and (odd := next((value for value in values if not isinstance(value, str)), None)) is not None
        ):
            raise self._field(named).refusal(f"IN ({odd})")
        column = self._texts(named)
        inside = pc.is_in(column, value_set=pa.array(values, pa.string()))
        return pc.if_else(pc.is_null(column), self._all(None), inside)

    def _numbers(self, of: Property | Literal, *, whole: bool) -> pa.Array | pa.Scalar:
        if isinstance(of, Literal):
            assert of.value is not None  # the parser refuses NULL where numbers are compared
            return pa.scalar(number_of(of.value, whole=whole), pa.int64() if whole else pa.float64())
        return integers(self._column(of.name)) if whole else doubles(self._column(of.name))

    def _is_null(self, of: Expression) -> _Found:
        match of:
            case Property() | FieldReference():
                return self._sure(self._is_absent(of))
            case Literal(value):
                return self._always(value is None)
            case _:
                found = self._condition(of)
                return _Found(pc.is_null(found.truth), found.failed)

    def _matches(self, word: str, text: Expression, sought: str, *, negated: bool) -> _Found:
        if isinstance(text, FieldReference) and self._field(text).type is not PrimitiveType.STRING:
            raise self._field(text).refusal(word)
        if not sought:
            return self._always(False)
        if not isinstance(text, Property | FieldReference | Literal):
            return _Found(self._nowhere, self._condition(text).failed)
        if isinstance(text, Literal) and not _is_text(text):
            return self._always(False)
        truth = _MATCHERS[word](self._texts(text), sought)
        return self._sure(pc.fill_null(pc.invert(truth) if negated else truth, False))

    # --- Columns ------------------------------------------------------------------------------------------------------------

    def _truths(self, of: Expression) -> _Found:
        match of:
            case FieldReference():
                return self._sure(self._field(of).truths)
            case Property() | Literal(str()):
                return self._sure(pc.equal(pc.utf8_lower(self._texts(of)), "true"))
            case _:
                return self._condition(of)

    def _texts(self, of: _Operand) -> pa.Array:
        match of:
            case Property(name):
                return self._column(name)
            case FieldReference():
                return self._field(of).texts
            case Literal(value):
                return self._repeated(str(value), pa.string())

    def _is_absent(self, of: _Operand) -> pa.Array:
        match of:
            case Property(name):
                return pc.is_null(self._column(name))
            case FieldReference():
                return pc.is_null(self._field(of).values)
            case Literal():
                return self._nowhere

    def _is_truth(self, of: _Operand) -> bool:
        return _is_truth(of) or (isinstance(of, FieldReference) and self._field(of).type is PrimitiveType.BOOLEAN)

    def _field(self, of: FieldReference) -> FieldValues:
        if of not in self._fields:
            self._fields[of] = FieldValues.of(self._rows.column("value"), of, self._schema)
        return self._fields[of]

    def _column(self, name: str) -> pa.Array:
        if name not in self._columns:
            self._columns[name] = self._looked_up(name)
        return self._columns[name]

    def _looked_up(self, name: str) -> pa.Array:
        if name == "TAGS":
            return _one(self._rows.column("tag"))
        if name == "KEYS":
            joined = pc.binary_join(_one(self._rows.column("keys")), " ")
            return pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), joined)
        return pc.map_lookup(_one(self._rows.column("properties")), pa.scalar(name), "first")

    def _all(self, value: bool | None) -> pa.Array:
        return self._repeated(value, pa.bool_())

    def _repeated(self, value: Scalar, type: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, type), self._rows.num_rows)

    def _always(self, value: bool | None) -> _Found:
        return self._sure(self._all(value))

    def _sure(self, truth: pa.Array) -> _Found:
        return _Found(truth, self._nowhere)


def _is_truth(of: _Operand) -> bool:
    return isinstance(of, Literal) and isinstance(of.value, bool)


def _is_text(of: Property | Literal) -> bool:
    return isinstance(of, Property) or isinstance(of.value, str)


def _is_value(of: Expression) -> bool:
    return isinstance(of, Literal) and not isinstance(of.value, bool)


def _shown(of: Expression) -> str:
    return f"the property {of.name}" if isinstance(of, Property) else repr(of.value) if isinstance(of, Literal) else "a condition"


def _null_rule(no_left: pa.Array, no_right: pa.Array, truth: pa.Array) -> pa.Array:
    """True if both sides are NULL, NULL if only the left is, false if only the right is."""
    truth = pc.if_else(pc.and_not(no_right, no_left), pa.scalar(False), truth)
    return pc.if_else(pc.and_(no_left, no_right), pa.scalar(True), truth)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

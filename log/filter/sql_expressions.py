"""What an expression is made of. A value is a text (a property), a field of a typed message, a literal, or a condition: true, false or
NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast
from typing import Literal as OneOf

Scalar: TypeAlias = str | int | float | bool | None
Ordering: TypeAlias = OneOf[">", ">=", "<", "<="]
Matching: TypeAlias = OneOf["CONTAINS", "STARTSWITH", "ENDSWITH"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal value. TRUE, FALSE and NULL are conditions too."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the message; ``TAGS`` is its tag, ``KEYS`` its keys with a space between them. NULL if the message lacks it."""

    name: str


@dataclass(frozen=True, slots=True)
class FieldReference:
    """A field of the message's value. In a topic without a schema it is the property of this name."""

    path: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the column, such as ``value.customer.name``."""
        return ".".join(("value", *self.path))


@dataclass(frozen=True, slots=True)
class Cast:
    """A property or a field where a condition is expected. A property is NULL if the message lacks it, else false: a text is no truth
    value. A field is boolean.
    """

    of: Property | FieldReference


@dataclass(frozen=True, slots=True)
class Not:
    """A negation. NULL stays NULL."""

    of: Condition


@dataclass(frozen=True, slots=True)
class And:
    """A conjunction. False if one term is false, else NULL if one is NULL. Terms behind a false one are not evaluated."""

    terms: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A disjunction. True if one term is true, else NULL if one is NULL. Terms behind a true one are not evaluated."""

    terms: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """An equality. NULL if only the left side is NULL, false if only the right side is, true if both are."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of numbers, of texts that are numbers, or of a field that is a time with a text. NULL if either side is NULL."""

    operator: Ordering
    left: Property | FieldReference | Literal
    right: Property | FieldReference | Literal


@dataclass(frozen=True, slots=True)
class IsNull:
    """A test for NULL; its own result is never NULL."""

    of: Expression


@dataclass(frozen=True, slots=True)
class In:
    """A membership test. NULL if the message lacks the property, or the field is NULL. Numbers are looked for in fields only."""

    of: Property | FieldReference
    values: tuple[str | int | float, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """Whether a text contains another. False, also when negated, if there is no text or the text to find is empty."""

    operator: Matching
    of: Expression
    sought: str
    negated: bool


Condition: TypeAlias = Cast | Not | And | Or | Equal | Compare | IsNull | In | Matches | Literal
Expression: TypeAlias = Condition | Property | FieldReference


def named_in(expression: Expression) -> Iterator[Property | FieldReference]:
    """The properties and fields in an expression, repeated as often as they occur."""
    match expression:
        case Property() | FieldReference():
            yield expression
        case And(terms) | Or(terms):
            for term in terms:
                yield from named_in(term)
        case Equal(left, right) | Compare(left=left, right=right):
            yield from named_in(left)
            yield from named_in(right)
        case Cast(inner) | Not(inner) | IsNull(inner) | In(of=inner) | Matches(of=inner):
            yield from named_in(inner)


def without_fields(condition: Condition) -> Condition:
    """The same condition where messages have no fields: each is the property of its name."""
    return cast(Condition, _without_fields(condition))


def _without_fields(of: Expression) -> Any:  # noqa: ANN401 - an expression of the same place
    match of:
        case FieldReference():
            return Property(of.name)
        case Property() | Literal():
            return of
        case And(terms) | Or(terms):
            return replace(of, terms=tuple(map(_without_fields, terms)))
        case Equal(left, right) | Compare(left=left, right=right):
            return replace(of, left=_without_fields(left), right=_without_fields(right))
        case In(FieldReference() as field, values, negated) if not all(isinstance(value, str) for value in values):
            one_of = Or(tuple(Equal(_without_fields(field), Literal(value)) for value in values))
            return Not(one_of) if negated else one_of
        case Cast(inner) | Not(inner) | IsNull(inner) | In(of=inner) | Matches(of=inner):
            return replace(of, of=_without_fields(inner))

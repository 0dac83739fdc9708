"""What an expression is made of. Every value is a text (a property), a literal, or a condition: true, false or NULL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

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
class Cast:
    """A property where a condition is expected. NULL if the message lacks it, else false: a text is no truth value."""

    of: Property


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
    """A comparison of numbers, or of texts that are numbers. NULL if either side is NULL."""

    operator: Ordering
    left: Property | Literal
    right: Property | Literal


@dataclass(frozen=True, slots=True)
class IsNull:
    """A test for NULL; its own result is never NULL."""

    of: Expression


@dataclass(frozen=True, slots=True)
class In:
    """A membership test. NULL if the message lacks the property."""

    of: Property
    texts: tuple[str, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """Whether a text contains another. False, also when negated, if there is no text or the text to find is empty."""

    operator: Matching
    of: Expression
    sought: str
    negated: bool


Condition: TypeAlias = Cast | Not | And | Or | Equal | Compare | IsNull | In | Matches | Literal
Expression: TypeAlias = Condition | Property


def properties_of(expression: Expression) -> Iterator[str]:
    """The names of the properties in an expression, repeated as often as they occur."""
    match expression:
        case Property(name):
            yield name
        case And(terms) | Or(terms):
            for term in terms:
                yield from properties_of(term)
        case Equal(left, right) | Compare(left=left, right=right):
            yield from properties_of(left)
            yield from properties_of(right)
        case Cast(inner) | Not(inner) | IsNull(inner) | In(of=inner) | Matches(of=inner):
            yield from properties_of(inner)

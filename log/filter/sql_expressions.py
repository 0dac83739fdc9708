"""The parts of an expression. A value is a property (a text), a field of a typed message, a literal, or a condition."""

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
    """TRUE, FALSE and NULL are conditions too."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Property:
    """NULL where the message lacks it. ``TAGS`` is the tag, ``KEYS`` the keys with a space between them."""

    name: str


@dataclass(frozen=True, slots=True)
class BodyField(Property):
    """A field of a JSON body, read as a property is: ``body.customer.id``. No property has a name with a dot."""

    path: tuple[str, ...]

    @staticmethod
    def of(path: tuple[str, ...]) -> BodyField:
        return BodyField("\0".join(("body", *path)), path)


@dataclass(frozen=True, slots=True)
class FieldReference:
    """A field of the message's value; in a topic without a schema, the property of this name."""

    path: tuple[str, ...]

    @property
    def name(self) -> str:
        """Such as ``value.customer.name``."""
        return ".".join(("value", *self.path))


@dataclass(frozen=True, slots=True)
class Cast:
    """A property or a boolean field as a condition. A property is NULL if missing, else false: a text is no truth value."""

    of: Property | FieldReference


@dataclass(frozen=True, slots=True)
class Not:
    """A negation. NULL stays NULL."""

    of: Condition


@dataclass(frozen=True, slots=True)
class And:
    """False if one term is false, else NULL if one is NULL. Terms behind a false one are not evaluated."""

    terms: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if one term is true, else NULL if one is NULL. Terms behind a true one are not evaluated."""

    terms: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Equal:
    """NULL if only the left side is NULL, false if only the right side is, true if both are."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of numbers, of texts that are numbers, or of a time field with a text. NULL if either side is NULL."""

    operator: Ordering
    left: Property | FieldReference | Literal
    right: Property | FieldReference | Literal


@dataclass(frozen=True, slots=True)
class IsNull:
    """A test for NULL, never NULL itself."""

    of: Expression


@dataclass(frozen=True, slots=True)
class In:
    """A membership test, NULL for NULL. Only fields are looked for among numbers."""

    of: Property | FieldReference
    values: tuple[str | int | float, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """Whether a text contains another. False, also when negated, for no text or an empty sought one."""

    operator: Matching
    of: Expression
    sought: str
    negated: bool


Condition: TypeAlias = Cast | Not | And | Or | Equal | Compare | IsNull | In | Matches | Literal
Expression: TypeAlias = Condition | Property | FieldReference


def named_in(expression: Expression) -> Iterator[Property | FieldReference]:
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
    """Each field becomes the property of its name."""
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

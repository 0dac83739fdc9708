"""The rules for the fields of every schema, whatever its source."""

from __future__ import annotations

import unicodedata

from ..errors import InvalidArgument, LimitExceeded
from ..limits import plain
from .fields import DECIMAL_DIGITS_MAX, DecimalType, Field, MapType, StructType, decimal_of, join, parts_of

FIELDS_MAX = 1_000
"""Nested and retired fields included."""
DEPTH_MAX = 16
_STEPS_MAX = 10 * FIELDS_MAX
FIELD_NAME_BYTES_MAX = 255
FORMER_NAMES_MAX = 100
DOC_CHARS_MAX = 1_000
RESERVED = frozenset(
    {
        *("queue", "offset", "message_id", "message_group", "tag", "keys", "properties", "body", "value", "key", "headers"),
        *("born_timestamp", "store_timestamp", "delivery_timestamp", "producer", "sequence"),
    }
)
"""The columns of messages, which no top field may be called."""
_FORBIDDEN = frozenset(" ,;{}()\n\t=.`")
"""Refused by Delta in a column's name, or used in paths and quotes."""
_UNICODE = unicodedata.ucd_3_2_0
"""Every Python has it: the fold's verdict on names must not depend on the version."""
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"})
_SURROGATES = frozenset(map(chr, range(0xD800, 0xE000)))
_INVISIBLE_SINCE = frozenset({"\xad", "\u061c", "\u180f", *map(chr, range(0x2064, 0x206A)), *map(chr, range(0xFFF0, 0xFFF9))})
"""Characters that later versions of Unicode made invisible."""
_OPERATION = "read a schema"


class Descent:
    """Bounds the way through a schema whose types name each other."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._steps = 0

    def step(self, path: str, depth: int) -> None:
        """Raises `LimitExceeded` for a type too deep, or too many."""
        self._steps += 1
        if depth > DEPTH_MAX:
            raise LimitExceeded(
                "the schema is too deep, or refers to itself",
                operation=self._operation,
                object=plain(path),
                expected=f"at most {DEPTH_MAX} levels",
            )
        if self._steps > _STEPS_MAX:
            raise LimitExceeded(
                "the schema has too many fields", operation=self._operation, object=plain(path), expected=f"at most {FIELDS_MAX}"
            )


def check_fields(fields: tuple[Field, ...]) -> None:
    """Raise `InvalidArgument` or `LimitExceeded`, naming the field by its path, unless a topic can have these fields."""
    if all(field.retired for field in fields):
        raise InvalidArgument("a schema has at least one field", operation=_OPERATION, observed="none")
    count = _check_level(fields, "", 1)
    if count > FIELDS_MAX:
        raise LimitExceeded(
            "the schema has too many fields",
            operation=_OPERATION,
            object="the schema",
            expected=f"at most {FIELDS_MAX}, nested and retired ones included",
            observed=f"{count}",
            hint="a map holds many values of one type under names; or use several topics",
        )


def no_type_fits(operation: str, expected: str, observed: object, path: str) -> InvalidArgument:
    return InvalidArgument(
        "no type of a topic fits this schema",
        operation=operation,
        object=path or "the schema",
        expected=expected,
        observed=plain(observed),
    )


def too_deep(path: str) -> LimitExceeded:
    return LimitExceeded(
        "the schema is too deep",
        operation=_OPERATION,
        object=path,
        expected=f"at most {DEPTH_MAX} levels",
        hint="keep what lies deeper as text, such as JSON",
    )


def is_name(name: str) -> bool:
    """Whether all readers of the table can name a column so."""
    return bool(name) and not (_FORBIDDEN | _INVISIBLE_SINCE) & set(name) and _INVISIBLE.isdisjoint(map(_UNICODE.category, name))


def folded(name: str) -> str:
    """Equal for names that Spark does not distinguish, by the upper and lower form of each character."""
    return "".join(map(_folded, name)).replace("i\u0307", "i").replace("\u1e9e", "ß")


def _folded(character: str) -> str:
    if _UNICODE.category(character) == "Cn":
        return character
    upper = character.upper()
    return (upper if len(upper) == 1 else character).lower()[0]


def _check_level(fields: tuple[Field, ...], under: str, depth: int) -> int:
    if depth > DEPTH_MAX:
        raise too_deep(under)
    names: dict[str, str] = {}
    count = 0
    for field in fields:
        path = join(under, field.name)
        if not field.retired:
            _check_name(field.name, path, top=not under)
            if (other := names.get(folded(field.name))) is not None:
                raise InvalidArgument(
                    "two fields have the same name",
                    operation=_OPERATION,
                    object=path,
                    observed=f"{other}, {field.name}",
                    hint="name one otherwise"
                    + ("; Spark and Delta do not tell names apart by case" if other != field.name else ""),
                )
            names[folded(field.name)] = field.name
        if len(field.former_names) > FORMER_NAMES_MAX:
            raise LimitExceeded(
                "the field was renamed too often", operation=_OPERATION, object=path, expected=f"at most {FORMER_NAMES_MAX} times"
            )
        _check_type(field, path)
        if not _SURROGATES.isdisjoint(field.doc):
            raise InvalidArgument(
                "the field's description is no text", operation=_OPERATION, object=path, observed=plain(field.doc)
            )
        if len(field.doc) > DOC_CHARS_MAX:
            raise LimitExceeded(
                "the field's description is too long",
                operation=_OPERATION,
                object=path,
                expected=f"at most {DOC_CHARS_MAX} characters",
                observed=f"{len(field.doc)} characters",
            )
        count += 1 + (_check_level(parts_of(field.type), path, depth + 1) if parts_of(field.type) else 0)
    return count


def _check_name(name: str, path: str, *, top: bool) -> None:
    if not is_name(name):
        raise InvalidArgument(
            "this cannot be a field's name",
            operation=_OPERATION,
            object=plain(path),
            expected="visible characters without spaces and , ; { } ( ) = . `",
            observed=plain(name),
        )
    if len(name.encode("utf-8", "replace")) > FIELD_NAME_BYTES_MAX:
        raise LimitExceeded(
            "a field's name is too long",
            operation=_OPERATION,
            object=plain(path),
            expected=f"at most {FIELD_NAME_BYTES_MAX} bytes",
        )
    if top and folded(name) in RESERVED:
        raise InvalidArgument(
            "the name is a message's own",
            operation=_OPERATION,
            object=path,
            expected=f"none of {', '.join(sorted(RESERVED))}",
            hint=f"name it otherwise, such as order_{name}; a nested field may have this name",
        )


def _check_type(field: Field, path: str) -> None:
    match field.type:
        case DecimalType(precision, scale):
            if decimal_of(precision, scale) is None:
                raise InvalidArgument(
                    "there is no such decimal",
                    operation=_OPERATION,
                    object=path,
                    expected=f"decimal(p,s) with 1 ≤ p ≤ {DECIMAL_DIGITS_MAX} and 0 ≤ s ≤ p",
                    observed=f"decimal({precision},{scale})",
                    hint="a string holds numbers of more digits" if precision > DECIMAL_DIGITS_MAX else None,
                )
        case StructType() as struct:
            if not struct.live:
                raise InvalidArgument("a struct has at least one field", operation=_OPERATION, object=path, observed="none")
        case MapType(key, _):
            if key.nullable or parts_of(key.type):
                raise InvalidArgument(
                    "the keys of a map are plain values that are never NULL",
                    operation=_OPERATION,
                    object=path,
                    hint="use an array of structs",
                )
        case _:
            pass

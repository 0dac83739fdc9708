"""The rules that the fields of every schema keep, whatever they were made from."""

from __future__ import annotations

from ..errors import InvalidArgument, LimitExceeded
from ..limits import plain
from .fields import DECIMAL_DIGITS_MAX, DecimalType, Field, MapType, StructType, join, parts_of

FIELDS_MAX = 1_000
"""The most fields of a schema, nested and retired ones included."""
DEPTH_MAX = 16
FIELD_NAME_BYTES_MAX = 255
DOC_CHARS_MAX = 1_000
RESERVED = frozenset(
    {
        *("queue", "offset", "message_id", "message_group", "tag", "keys", "properties", "body", "value", "key", "headers"),
        *("born_timestamp", "store_timestamp", "delivery_timestamp", "producer", "sequence"),
    }
)
"""The columns of messages. A field at the top may not have these names: batches and flat views have both side by side."""
_FORBIDDEN = frozenset(" ,;{}()\n\t=.`")
"""The characters that Delta refuses in a column's name, and those that paths and quotes are made of."""
_OPERATION = "read a schema"


def check_fields(fields: tuple[Field, ...]) -> None:
    """Raise `InvalidArgument` or `LimitExceeded`, naming the field by its path, unless a topic can have these fields."""
    if not fields:
        raise InvalidArgument("a schema has at least one field", operation=_OPERATION, observed="none")
    count = _check_level(fields, "", 1)
    if count > FIELDS_MAX:
        raise LimitExceeded(
            "the schema has too many fields", operation=_OPERATION, expected=f"at most {FIELDS_MAX}", observed=f"{count}"
        )


def is_name(name: str) -> bool:
    """Whether all readers of the table can name a column so."""
    return bool(name) and name.isprintable() and not _FORBIDDEN & set(name)


def _check_level(fields: tuple[Field, ...], under: str, depth: int) -> int:
    """Check the fields of one struct and all below. Returns how many there are."""
    if depth > DEPTH_MAX:
        raise LimitExceeded("the schema is too deep", operation=_OPERATION, object=under, expected=f"at most {DEPTH_MAX} levels")
    names: dict[str, str] = {}
    count = 0
    for field in fields:
        path = join(under, field.name)
        if not field.retired:
            _check_name(field.name, path, top=not under)
            if (other := names.get(field.name.lower())) is not None:
                raise InvalidArgument(
                    "two fields have the same name",
                    operation=_OPERATION,
                    object=path,
                    observed=f"{other}, {field.name}",
                    hint="Spark and Delta do not tell names apart by case" if other != field.name else None,
                )
            names[field.name.lower()] = field.name
        _check_type(field, path)
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
    if top and name.lower() in RESERVED:
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
            if not 1 <= precision <= DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
                raise InvalidArgument(
                    "there is no such decimal",
                    operation=_OPERATION,
                    object=path,
                    expected=f"decimal(p,s) with 1 ≤ p ≤ {DECIMAL_DIGITS_MAX} and 0 ≤ s ≤ p",
                    observed=f"decimal({precision},{scale})",
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

"""The fields of a row that are its message group, tag and keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import InvalidArgument
from ..limits import plain
from .fields import INTEGER_BITS, Field, FieldType, PrimitiveType, StructType
from .topic_schema import TopicSchema

_TEXTS: frozenset[FieldType] = frozenset({PrimitiveType.STRING, *INTEGER_BITS, PrimitiveType.DATE, PrimitiveType.BOOLEAN})
"""Types with one text for each value, whatever system writes it."""
_FILTERED = (_TEXTS - {PrimitiveType.BOOLEAN}) | {PrimitiveType.BINARY, PrimitiveType.TIMESTAMP, PrimitiveType.TIMESTAMP_NTZ}
"""Types that Parquet's Bloom filters take."""


def check_label_path(path: str, schema: TopicSchema | None) -> None:
    """Raise `InvalidArgument` unless the field at ``path`` can be a label."""
    _check_path(
        path,
        schema,
        _TEXTS,
        "messages cannot take their group, tag or keys from this field",
        ("to take message groups, tags or keys from", "leave message_group, tag and keys to the sender"),
    )


def check_bloom_path(path: str, schema: TopicSchema | None) -> None:
    """Raise `InvalidArgument` unless files can have a Bloom filter of the field at ``path``."""
    _check_path(
        path,
        schema,
        _FILTERED,
        "files cannot have a Bloom filter of this field",
        ("to make Bloom filters of", "message ids, message groups and keys have filters anyway"),
    )


def _check_path(path: str, schema: TopicSchema | None, types: frozenset[FieldType], refusal: str, without: tuple[str, str]) -> None:
    if schema is None:
        what, otherwise = without
        raise InvalidArgument(
            f"a topic without a schema has no fields {what}",
            operation="topic settings",
            observed=plain(path),
            hint=f"give a schema; {otherwise}",
        )
    found = _field_path(path, schema.fields)
    if not found or found[-1].type not in types:
        raise InvalidArgument(
            refusal,
            operation="topic settings",
            object=plain(path),
            expected=f"a field of type {', '.join(sorted(map(str, types)))}",
            observed="no such field" if not found else str(found[-1].type),
        )


def stored_path(path: str, first: TopicSchema) -> str:
    """The stored column, inside ``value``, of a field of the first version."""
    return ".".join(field.stored_name for field in _field_path(path, first.fields))


def label_paths(paths: object) -> tuple[str, ...]:
    """Paths given as one text, or a list. Raises `InvalidArgument`."""
    if isinstance(paths, str):
        return (paths,)
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise InvalidArgument(
            "fields are named by their paths", operation="topic settings", expected="a list of texts", observed=plain(paths)
        )
    return tuple(paths)


def label_ids(path: str, first: TopicSchema) -> tuple[int, ...]:
    """The numbers of the fields down to ``path`` in the first version."""
    return tuple(field.id for field in _field_path(path, first.fields))


def sent_label_ids(path: str, schema: TopicSchema) -> tuple[int, ...]:
    """`label_ids` for a path in any version's names; empty: no such field."""
    return tuple(field.id for field in _field_path(path, schema.fields, named=lambda of: of.by_sent_name))


def labelled_fields(ids: tuple[int, ...], schema: TopicSchema) -> tuple[Field, ...]:
    """The fields with these numbers in a later version."""
    found: list[Field] = []
    fields = schema.fields
    for number in ids:
        found.append(next(field for field in fields if field.id == number))
        fields = found[-1].type.fields if isinstance(found[-1].type, StructType) else ()
    return tuple(found)


def label_name(ids: tuple[int, ...], schema: TopicSchema) -> str:
    """A field's present path."""
    return ".".join(field.name for field in labelled_fields(ids, schema))


def _in_use(of: StructType) -> dict[str, Field]:
    return {field.name: field for field in of.live}


def _field_path(
    path: str, fields: tuple[Field, ...], *, named: Callable[[StructType], Mapping[str, Field]] = _in_use
) -> tuple[Field, ...]:
    found: list[Field] = []
    for name in path.split(".") if isinstance(path, str) else ():
        one = named(StructType(fields)).get(name)
        if one is None:
            return ()
        found.append(one)
        fields = one.type.fields if isinstance(one.type, StructType) else ()
    return tuple(found)

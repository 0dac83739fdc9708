"""The fields of a row whose texts are its message group, its tag and its keys, as a topic's settings say."""

from __future__ import annotations

from ..errors import InvalidArgument
from ..limits import plain
from .fields import Field, FieldType, Kind, StructType, type_text, walk
from .topic_schema import TopicSchema

_TEXTS: frozenset[FieldType] = frozenset({Kind.STRING, Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DATE, Kind.BOOLEAN})
"""The types that have one text for each value, whatever system writes it."""
_FILTERED = (_TEXTS - {Kind.BOOLEAN}) | {Kind.BINARY, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}
"""The types whose values are looked up, and that Parquet's Bloom filters take."""


def check_label_path(path: str, schema: TopicSchema | None) -> None:
    """Raise `InvalidArgument` unless messages can take a label from the field at ``path``."""
    if schema is None:
        raise InvalidArgument(
            "a topic without a schema has no fields to take message groups, tags or keys from",
            operation="topic settings",
            observed=plain(path),
            hint="give a schema, or leave message_group, tag and keys to the sender",
        )
    found = _field_path(path, schema.fields)
    if not found or found[-1].type not in _TEXTS:
        raise InvalidArgument(
            "messages cannot take their group, tag or keys from this field",
            operation="topic settings",
            object=plain(path),
            expected=f"a field of type {', '.join(sorted(map(str, _TEXTS)))}",
            observed="no such field" if not found else type_text(found[-1].type),
        )


def check_bloom_path(path: str, schema: TopicSchema | None) -> None:
    """Raise `InvalidArgument` unless files can have a Bloom filter of the field at ``path``."""
    if schema is None:
        raise InvalidArgument(
            "a topic without a schema has no fields to make Bloom filters of",
            operation="topic settings",
            observed=plain(path),
            hint="give a schema; message ids, message groups and keys have filters anyway",
        )
    found = _field_path(path, schema.fields)
    if not found or found[-1].type not in _FILTERED:
        raise InvalidArgument(
            "files cannot have a Bloom filter of this field",
            operation="topic settings",
            object=plain(path),
            expected=f"a field of type {', '.join(sorted(map(str, _FILTERED)))}",
            observed="no such field" if not found else type_text(found[-1].type),
        )


def stored_path(path: str, first: TopicSchema) -> str:
    """The column of stored files, inside ``value``, that has the field at ``path`` of the first version; evolutions do not change it."""
    return ".".join(field.stored_name for field in _field_path(path, first.fields))


def label_paths(paths: object) -> tuple[str, ...]:
    """Several paths as a caller gives them: one text, or a list. Raises `InvalidArgument` for anything else."""
    if isinstance(paths, str):
        return (paths,)
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) for path in paths):
        raise InvalidArgument(
            "fields are named by their paths", operation="topic settings", expected="a list of texts", observed=plain(paths)
        )
    return tuple(paths)


def label_ids(path: str, first: TopicSchema) -> tuple[int, ...]:
    """The numbers of the fields on the way to the one at ``path`` of the first version."""
    return tuple(field.id for field in _field_path(path, first.fields))


def sent_label_ids(path: str, schema: TopicSchema) -> tuple[int, ...]:
    """The same for a path as programs of any version name it. Empty: there is no such field."""
    found: list[int] = []
    fields = schema.fields
    for name in path.split("."):
        one = StructType(fields).by_sent_name.get(name)
        if one is None:
            return ()
        found.append(one.id)
        fields = one.type.fields if isinstance(one.type, StructType) else ()
    return tuple(found)


def labelled_fields(ids: tuple[int, ...], schema: TopicSchema) -> tuple[Field, ...]:
    """The fields with these numbers, each in the one before, as a later version has them."""
    found: list[Field] = []
    fields = schema.fields
    for number in ids:
        found.append(next(field for field in fields if field.id == number))
        fields = found[-1].type.fields if isinstance(found[-1].type, StructType) else ()
    return tuple(found)


def label_name(ids: tuple[int, ...], schema: TopicSchema) -> str:
    """The path by which people know a field now."""
    return ".".join(field.name for field in labelled_fields(ids, schema))


def is_label(field: Field, labels: tuple[tuple[int, ...], ...]) -> bool:
    """Whether a message's label comes from this field, or from a part of it."""
    ids = {field.id, *(part.id for _, part in walk((field,)))}
    return any(one[-1] in ids for one in labels)


def _field_path(path: str, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The fields on a path through structs. Empty: there is no such path."""
    found: list[Field] = []
    for name in path.split(".") if isinstance(path, str) else ():
        one = next((field for field in fields if field.name == name and not field.retired), None)
        if one is None:
            return ()
        found.append(one)
        fields = one.type.fields if isinstance(one.type, StructType) else ()
    return tuple(found)

"""The types of a table's columns by the source's catalogue: small objects beside the events, which name them.

A capture writes one before the first row of each form of a table. The name is a hash of the content, so an object never changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from ...log.errors import DataDamaged, InvalidArgument
from ...log.format.stored_json import StoredForm, parse_stored
from ...log.paths import topic_folder
from ...log.schema.fields import FieldType, PrimitiveType
from ...log.schema.widening import widest
from .target_types import parse_target_type

CAPTURES = "captures/"
_FORMAT = 1
_DIGEST_BYTES = 8
_NAME = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class TableTypes:
    """The types of one table's columns."""

    schema: str
    table: str
    columns: Mapping[str, FieldType]

    @cached_property
    def data(self) -> bytes:
        columns = {name: str(type_) for name, type_ in self.columns.items()}
        said = {"format": _FORMAT, "schema": self.schema, "table": self.table, "columns": columns}
        return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()

    @cached_property
    def name(self) -> str:
        return _name_of(self.data)


def types_key(topic: str, name: str) -> str:
    return f"{types_folder(topic_folder(topic))}{name}"


def types_folder(folder: str) -> str:
    return f"{CAPTURES}{folder}/types/"


def is_types_name(name: str) -> bool:
    """Whether this can be a name: the event's writer chose it."""
    return _NAME.fullmatch(name) is not None


class _Form(StoredForm, frozen=True):
    format: int
    schema: str
    table: str
    columns: dict[str, str]


def decode_types(data: bytes, name: str, *, where: str) -> TableTypes:
    """Text for types that no target can have. Raises `DataDamaged`, also when the name does not fit, and `NewerFormatError`."""
    form = parse_stored(data, _Form, what="the types of a table", where=where, operation="sync")
    if _name_of(data) != name:
        raise DataDamaged(
            "the types of a table are not those that its name says", operation="sync", object=where, observed=_name_of(data)
        )
    return TableTypes(form.schema, form.table, {column: _known(type_) for column, type_ in form.columns.items()})


def joined_types(tables: Iterable[TableTypes]) -> dict[str, FieldType]:
    """The types of columns that hold the values of all these forms of a table."""
    found: dict[str, FieldType] = {}
    for table in tables:
        for column, type_ in table.columns.items():
            found[column] = widest(found.get(column, type_), type_)
    return found


def _name_of(data: bytes) -> str:
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def _known(type_: str) -> FieldType:
    try:
        return parse_target_type(type_)
    except InvalidArgument:
        return PrimitiveType.STRING

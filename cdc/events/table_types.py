"""The types of a table's columns as the source's catalogue has them: small objects beside the events, which name them.

A capture writes one for each form that a table has, before the first event of a row of that form. The object's name is a hash of its
content. So an event costs a few bytes more, an object never changes, and whoever has its name knows whether it is the one that was meant.
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
from .type_widening import widest
from .types import normal_type

CAPTURES = "captures/"
"""The folder of what captures keep besides their topics."""
_FORMAT = 1
_DIGEST_BYTES = 8
_NAME = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class TableTypes:
    """The types of one table's columns, by Spark's names."""

    schema: str
    table: str
    columns: Mapping[str, str]

    @cached_property
    def data(self) -> bytes:
        """The object's content."""
        said = {"format": _FORMAT, "schema": self.schema, "table": self.table, "columns": dict(self.columns)}
        return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()

    @cached_property
    def name(self) -> str:
        """The object's name."""
        return _name_of(self.data)


def types_key(topic: str, name: str) -> str:
    """The key of an object in the lake."""
    return f"{types_folder(topic_folder(topic))}{name}"


def types_folder(folder: str) -> str:
    """The folder of the objects of a topic's folder."""
    return f"{CAPTURES}{folder}/types/"


def is_types_name(name: str) -> bool:
    """Whether this can be an object's name. Whoever wrote the event chose it."""
    return _NAME.fullmatch(name) is not None


class _Form(StoredForm, frozen=True):
    format: int
    schema: str
    table: str
    columns: dict[str, str]


def decode_types(data: bytes, name: str, *, where: str) -> TableTypes:
    """An object's content. A type that no target can have is text. Raises `DataDamaged`, also for other content than the name says, and
    `NewerFormatError`.
    """
    form = parse_stored(data, _Form, what="the types of a table", where=where, operation="sync")
    if _name_of(data) != name:
        raise DataDamaged(
            "the types of a table are not those that its name says", operation="sync", object=where, observed=_name_of(data)
        )
    return TableTypes(form.schema, form.table, {column: _known(type_) for column, type_ in form.columns.items()})


def joined_types(tables: Iterable[TableTypes]) -> dict[str, str]:
    """The types of columns that hold the values of each of these forms of a table."""
    found: dict[str, str] = {}
    for table in tables:
        for column, type_ in table.columns.items():
            found[column] = widest(found.get(column, type_), type_)
    return found


def _name_of(data: bytes) -> str:
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def _known(type_: str) -> str:
    try:
        return normal_type(type_)
    except InvalidArgument:
        return "string"

"""Fields of JSON bodies in conditions, read as texts like properties (docs/0012)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from ..errors import InvalidArgument
from .sql_expressions import BodyField

_OPENS: Final = (b"{", b"[")


def body_columns(rows: pa.RecordBatch | pa.Table, fields: Iterable[BodyField]) -> dict[str, pa.Array]:
    """The texts of fields by name, NULL where a body is no JSON or lacks them. Raises `InvalidArgument` for rows of a typed topic.

    Each body is read once, and of one at a time more is kept than the texts.
    """
    wanted = {one.name: one.path for one in fields}
    if not wanted:
        return {}
    if "body" not in rows.schema.names:
        raise InvalidArgument(
            "a typed topic has no bodies",
            operation="filter",
            object=min(wanted),
            hint="its fields are value.name",
            expected="value.…",
        )
    found: dict[str, list[str | None]] = {name: [] for name in wanted}
    for document in _documents(rows.column("body")):
        for name, path in wanted.items():
            found[name].append(_text(document, path))
    return {name: pa.array(texts, pa.string()) for name, texts in found.items()}


def _documents(bodies: pa.Array | pa.ChunkedArray) -> Iterator[Any]:
    for body in bodies:
        content = body.as_buffer()
        data = b"" if content is None else content.to_pybytes()
        try:
            # Digits stay as they are: numbers of any length, and none is rounded.
            yield json.loads(data.decode(), parse_int=str, parse_float=str, parse_constant=str) if _may_be(data) else None
        except (ValueError, RecursionError):
            yield None


def _may_be(data: bytes) -> bool:
    return data.lstrip(b" \t\r\n")[:1] in _OPENS


def _text(document: Any, path: tuple[str, ...]) -> str | None:  # noqa: ANN401 - JSON
    for part in path:
        if isinstance(document, Mapping):
            document = document.get(part)
        elif isinstance(document, list) and part.isascii() and part.isdecimal() and len(part) <= 9:
            document = document[int(part)] if int(part) < len(document) else None
        else:
            return None
    match document:
        case bool():
            return "true" if document else "false"
        case str():
            return document.encode("utf-8", "replace").decode()  # JSON can spell what is no text
        case _:
            return None

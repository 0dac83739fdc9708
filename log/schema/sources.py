"""The sources of schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from ..errors import InvalidArgument, LimitExceeded
from ..limits import MIB, plain
from .arrow_types import fields_of_arrow
from .avro import fields_of_avro
from .ddl import parse_ddl
from .fields import Field
from .json_schema import fields_of_json_schema
from .python_types import fields_of_class, is_class_of_fields
from .rules import check_fields


class ArrowSchema(Protocol):
    """What a type checker sees of a `pyarrow.Schema` or `pyarrow.StructType`, as pyarrow has no types."""

    def __arrow_c_schema__(self) -> object: ...


SchemaLike: TypeAlias = "ArrowSchema | str | type | Mapping[str, Any] | Path"
"""An Arrow schema; Spark's SQL; a dataclass, TypedDict, NamedTuple or pydantic model; JSON Schema or Avro as a dict; or a file of
SQL, JSON Schema or Avro.
"""

_FILE_BYTES_MAX = 4 * MIB
_OPERATION = "read a schema"


def fields_of(source: SchemaLike) -> tuple[Field, ...]:
    """The fields of a source, not numbered yet. Raises `InvalidArgument` or `LimitExceeded`, naming the field by its path."""
    fields = _fields_of(source)
    check_fields(fields)
    return fields


def _fields_of(source: object) -> tuple[Field, ...]:
    if isinstance(source, pa.Schema | pa.StructType):
        return fields_of_arrow(source)
    if isinstance(source, str):
        return parse_ddl(source)
    if isinstance(source, Path):
        return _fields_of_file(source)
    if isinstance(source, Mapping):
        return fields_of_avro(source) if source.get("type") == "record" else fields_of_json_schema(source)
    if isinstance(source, type) and is_class_of_fields(source):
        return fields_of_class(source)
    raise InvalidArgument(
        "no schema can be made from this",
        operation=_OPERATION,
        expected="an Arrow schema, Spark SQL, a dataclass, TypedDict or pydantic model, JSON Schema or Avro as a dict, or a Path to a file",
        observed=plain(source),
        hint="schema.toDDL() is the Spark SQL of Spark's StructType" if hasattr(source, "toDDL") else None,
    )


def _fields_of_file(path: Path) -> tuple[Field, ...]:
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            "the schema's file cannot be read", operation=_OPERATION, object=str(path), observed=str(error)
        ) from error
    if len(data) > _FILE_BYTES_MAX:
        raise LimitExceeded(
            "the schema's file is too large", operation=_OPERATION, object=str(path), expected=f"at most {_FILE_BYTES_MAX} bytes"
        )
    if not text.lstrip().startswith("{"):
        return parse_ddl(text)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(
            "the schema's file is not JSON", operation=_OPERATION, object=str(path), observed=str(error)
        ) from error
    return _fields_of(document)

"""Schemas from Avro's JSON (``.avsc``), as far as they map: a union is one type, or one type and null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .fields import ELEMENT, KEY, VALUE, ArrayType, DecimalType, Field, FieldType, MapType, PrimitiveType, StructType, join
from .rules import DOC_CHARS_MAX, Descent, no_type_fits

_OPERATION = "read an Avro schema"
_refusal = partial(no_type_fits, _OPERATION)
_PLAIN = {
    "boolean": PrimitiveType.BOOLEAN,
    "int": PrimitiveType.INT,
    "long": PrimitiveType.BIGINT,
    "float": PrimitiveType.FLOAT,
    "double": PrimitiveType.DOUBLE,
    "string": PrimitiveType.STRING,
    "bytes": PrimitiveType.BINARY,
    "fixed": PrimitiveType.BINARY,
    "enum": PrimitiveType.STRING,
}
_KINDS = {*_PLAIN, "record", "array", "map"}
_LOGICAL = {
    ("int", "date"): PrimitiveType.DATE,
    ("long", "timestamp-millis"): PrimitiveType.TIMESTAMP,
    ("long", "timestamp-micros"): PrimitiveType.TIMESTAMP,
    ("long", "local-timestamp-millis"): PrimitiveType.TIMESTAMP_NTZ,
    ("long", "local-timestamp-micros"): PrimitiveType.TIMESTAMP_NTZ,
    ("string", "uuid"): PrimitiveType.STRING,
    ("fixed", "uuid"): PrimitiveType.STRING,
}


def fields_of_avro(document: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields of a record. Raises `InvalidArgument`, naming the path."""
    if document.get("type") != "record":
        raise _refusal("a record", document.get("type"), "")
    return _Converter().fields(document, "", 1)


class _Converter:
    """Reads one schema, whose types may be named again. ``space`` is the enclosing namespace."""

    def __init__(self) -> None:
        self._descent = Descent(_OPERATION)
        self._named: dict[str, tuple[Mapping[str, Any], str]] = {}

    def fields(self, record: Mapping[str, Any], under: str, depth: int, space: str = "") -> tuple[Field, ...]:
        space = self._remember(record, space)
        listed = record.get("fields")
        if not isinstance(listed, Sequence) or not all(
            isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in listed
        ):
            raise _refusal("a record has a list of fields with names", listed, under)
        return tuple(self._field(one, join(under, one["name"]), depth, space) for one in listed)

    def _field(self, field: Mapping[str, Any], path: str, depth: int, space: str) -> Field:
        type_, nullable = self._type(field.get("type"), path, depth + 1, space)
        doc = field.get("doc")
        return Field(field["name"], type_, nullable, doc[:DOC_CHARS_MAX] if isinstance(doc, str) else "")

    def _type(self, schema: object, path: str, depth: int, space: str) -> tuple[FieldType, bool]:
        """A schema's type, and whether null is allowed."""
        self._descent.step(path, depth)
        if isinstance(schema, str):
            if (known := self._named.get(_full_name(schema, space)) or self._named.get(schema)) is not None:
                return self._type(known[0], path, depth + 1, known[1])
            schema = {"type": schema}
        if isinstance(schema, Sequence):
            others = [one for one in schema if one != "null"]
            if len(others) != 1:
                raise _refusal("a union of one type, or of one type and null", schema, path)
            return self._type(others[0], path, depth, space)[0], len(others) < len(schema)
        if not isinstance(schema, Mapping):
            raise _refusal("a type's name, an object or a union", schema, path)
        kind = schema.get("type")
        if isinstance(kind, str) and kind in _KINDS:
            return self._of_kind(kind, schema, path, depth, space), False
        if isinstance(kind, str) and _full_name(kind, space) not in self._named and kind not in self._named:
            raise _refusal(f"{', '.join(sorted(_KINDS))}, a union, or a type named before", kind, path)
        return self._type(kind, path, depth + 1, space)

    def _of_kind(self, kind: str, schema: Mapping[str, Any], path: str, depth: int, space: str) -> FieldType:
        if kind == "record":
            return StructType(self.fields(schema, path, depth, space))
        if kind == "array":
            type_, nullable = self._type(schema.get("items"), join(path, ELEMENT), depth + 1, space)
            return ArrayType(Field(ELEMENT, type_, nullable))
        if kind == "map":
            type_, nullable = self._type(schema.get("values"), join(path, VALUE), depth + 1, space)
            return MapType(Field(KEY, PrimitiveType.STRING, nullable=False), Field(VALUE, type_, nullable))
        if kind in ("enum", "fixed"):
            self._remember(schema, space)
        logical = schema.get("logicalType")
        if logical is None:
            return _PLAIN[kind]
        if logical == "decimal" and kind in ("bytes", "fixed"):
            digits, places = schema.get("precision"), schema.get("scale", 0)
            if not isinstance(digits, int) or not isinstance(places, int):
                raise _refusal("a decimal with its precision", schema, path)
            return DecimalType(digits, places)
        if not isinstance(logical, str) or (kind, logical) not in _LOGICAL:
            raise _refusal(f"a logical type among decimal, {', '.join(sorted({name for _, name in _LOGICAL}))}", logical, path)
        return _LOGICAL[kind, logical]

    def _remember(self, schema: Mapping[str, Any], space: str) -> str:
        """Keep a named type. Returns its namespace."""
        name, own = schema.get("name"), schema.get("namespace")
        if not isinstance(name, str):
            return space
        full = _full_name(name, own if isinstance(own, str) else space)
        inside = full.rpartition(".")[0]
        self._named[full] = schema, inside
        return inside


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"

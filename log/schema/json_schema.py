"""Schemas from JSON Schema, as far as they map: an object with properties is a struct, one with ``additionalProperties`` a map.

A property is NOT NULL when it is required and null is not among its types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..errors import InvalidArgument
from ..limits import plain
from .fields import ELEMENT, KEY, VALUE, ArrayType, Field, FieldType, MapType, PrimitiveType, StructType, join
from .rules import DOC_CHARS_MAX, Descent, no_type_fits

_OPERATION = "read a JSON Schema"
_refusal = partial(no_type_fits, _OPERATION)
_FORMATS = {"date": PrimitiveType.DATE, "date-time": PrimitiveType.TIMESTAMP}
_INTEGERS = {"int32": PrimitiveType.INT, "int64": PrimitiveType.BIGINT}
_PLAIN = {
    "boolean": PrimitiveType.BOOLEAN,
    "integer": PrimitiveType.BIGINT,
    "number": PrimitiveType.DOUBLE,
    "string": PrimitiveType.STRING,
}


def fields_of_json_schema(document: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields of an object's schema. Raises `InvalidArgument`, naming the path."""
    found = _Converter(document).type_of(document, "", 1)[0]
    if not isinstance(found, StructType):
        raise InvalidArgument(
            "the schema is not that of an object with properties", operation=_OPERATION, observed=plain(document.get("type"))
        )
    return found.fields


class _Converter:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._descent = Descent(_OPERATION)

    def type_of(self, schema: object, path: str, depth: int) -> tuple[FieldType, bool]:
        """A schema's type, and whether null is allowed."""
        self._descent.step(path, depth)
        if not isinstance(schema, Mapping):
            raise _refusal("a schema is an object", schema, path)
        if "$ref" in schema:
            return self.type_of(self._referred(schema["$ref"], path), path, depth + 1)
        for combined in ("anyOf", "oneOf", "allOf"):
            if combined in schema:
                return self._one_of(schema[combined], path, depth, every=combined == "allOf")
        if "enum" in schema or "const" in schema:
            return _enum(schema.get("enum", [schema.get("const")]), path)
        names = schema.get("type")
        listed = list(names) if isinstance(names, Sequence) and not isinstance(names, str) else [names]
        nullable = "null" in listed
        kinds = [one for one in listed if one != "null"]
        if len(kinds) != 1 or not isinstance(kinds[0], str):
            raise _refusal("a value has one type, or one type and null", names, path)
        return self._of_kind(kinds[0], schema, path, depth), nullable

    def _of_kind(self, kind: str, schema: Mapping[str, Any], path: str, depth: int) -> FieldType:
        form = schema.get("format")
        if kind == "object":
            return self._object(schema, path, depth)
        if kind == "array":
            if "items" not in schema:
                raise _refusal("an array says what its items are", schema, path)
            type_, nullable = self.type_of(schema["items"], join(path, ELEMENT), depth + 1)
            return ArrayType(Field(ELEMENT, type_, nullable))
        if kind == "string" and schema.get("contentEncoding") == "base64":
            return PrimitiveType.BINARY
        if kind == "string":
            return _FORMATS.get(form, PrimitiveType.STRING) if isinstance(form, str) else PrimitiveType.STRING
        if kind == "integer" and isinstance(form, str):
            return _INTEGERS.get(form, PrimitiveType.BIGINT)
        if kind == "number" and form == "float":
            return PrimitiveType.FLOAT
        if kind not in _PLAIN:
            raise _refusal(f"a type is object, array, {', '.join(_PLAIN)} or null", kind, path)
        return _PLAIN[kind]

    def _object(self, schema: Mapping[str, Any], path: str, depth: int) -> FieldType:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, Mapping) and properties:
            required = schema.get("required", ())
            needed = set(required) if isinstance(required, Sequence) and all(isinstance(one, str) for one in required) else set()
            return StructType(
                tuple(self._property(name, one, join(path, str(name)), depth, name in needed) for name, one in properties.items())
            )
        if isinstance(others, Mapping):
            type_, nullable = self.type_of(others, join(path, VALUE), depth + 1)
            return MapType(Field(KEY, PrimitiveType.STRING, nullable=False), Field(VALUE, type_, nullable))
        raise _refusal("an object has properties, or additionalProperties with a type", schema, path)

    def _property(self, name: object, schema: object, path: str, depth: int, required: bool) -> Field:
        type_, nullable = self.type_of(schema, path, depth + 1)
        said = schema.get("description") if isinstance(schema, Mapping) else None
        return Field(str(name), type_, nullable or not required, said[:DOC_CHARS_MAX] if isinstance(said, str) else "")

    def _one_of(self, schemas: object, path: str, depth: int, *, every: bool) -> tuple[FieldType, bool]:
        if not isinstance(schemas, Sequence) or isinstance(schemas, str):
            raise _refusal("a list of schemas", schemas, path)
        others = [one for one in schemas if not (isinstance(one, Mapping) and one.get("type") == "null")]
        if len(others) != 1 or (every and len(schemas) != 1):
            raise _refusal("one schema, or one schema and null", schemas, path)
        type_, nullable = self.type_of(others[0], path, depth + 1)
        return type_, nullable or len(others) < len(schemas)

    def _referred(self, reference: object, path: str) -> object:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise _refusal("a reference leads into the same document", reference, path)
        found: Any = self._document
        for step in reference[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise _refusal("the reference leads nowhere", reference, path)
            found = found[name]
        return found


def _enum(values: object, path: str) -> tuple[FieldType, bool]:
    listed = list(values) if isinstance(values, Sequence) else [values]
    others = [one for one in listed if one is not None]
    if not others or not all(isinstance(one, str) for one in others):
        raise _refusal("an enum of texts", values, path)
    return PrimitiveType.STRING, len(others) < len(listed)

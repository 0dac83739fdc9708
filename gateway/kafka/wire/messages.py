"""Requests out of bytes, and answers into bytes, by kafka-python's definitions; for a check also the reverse. Nothing else imports these.

An answer is a mapping of the protocol's field names in lower case with underscores, such as ``throttle_time_ms``; elements of arrays of structs are
mappings too. Absent fields have the protocol's defaults, and fields that the version does not have are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from struct import error as StructError  # noqa: N812 - a class under a name for classes
from typing import Any, Final, TypeAlias

from kafka.protocol import admin, consumer, metadata, producer, sasl

from .apis import Api
from .reading import malformed
from .shapes import Fixed, Many, Maybe, Shape, SizedText, Step, Tags, check_shape

Request: TypeAlias = Any
"""A decoded request: the protocol's fields as attributes, in lower case with underscores. Fields of other versions are their defaults."""
Fields: TypeAlias = Mapping[str, object]
"""An answer, or a struct in it."""
_ROOMS: Final = (admin, consumer, metadata, producer, sasl)
_BYTES_OF: Final = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "bool": 1, "uuid": 16}


def decode_request(api: Api, version: int, body: memoryview) -> Request:
    """The request of a served version. Raises `KafkaRefusal` with `INVALID_REQUEST` unless it is exactly that."""
    check_shape(request_shape(api, version), body, items_max=api.items_max)
    try:
        return _message(api, "Request").decode(body, version=version)
    except (StructError, IndexError, ValueError, AssertionError) as error:
        raise malformed(f"it is no {api.name} of version {version}: {type(error).__name__}") from None


def encode_answer(api: Api, version: int, fields: Fields) -> bytes:
    """The body of an answer. Raises `ValueError` for a field that the protocol does not know."""
    # The version is told at once: `encode(version=…)` fails once there is a header.
    encoded: bytes = _made(_message(api, "Response"), version, fields).encode()
    return encoded


def encode_request(api: Api, version: int, fields: Fields) -> bytes:
    """The body of a request. Raises `ValueError` for a field that the protocol does not know."""
    encoded: bytes = _made(_message(api, "Request"), version, fields).encode()
    return encoded


def decode_answer(api: Api, version: int, body: bytes) -> Request:
    """The answer of a gateway that one trusts, with its fields as attributes."""
    return _message(api, "Response").decode(body, version=version)


def has_answer_field(api: Api, version: int, name: str) -> bool:
    """Whether answers of the version have the field at their top."""
    field = _message(api, "Response").fields.get(name)
    return field is not None and bool(field.for_version_q(version))


@lru_cache(maxsize=512)
def request_shape(api: Api, version: int) -> Shape:
    """The shape of a served version's request."""
    return _struct_shape(_message(api, "Request")._struct, version, is_flexible=api.is_flexible(version))  # noqa: SLF001 - its only place


@lru_cache(maxsize=256)
def _message(api: Api, kind: str) -> Any:  # noqa: ANN401 - kafka-python has no types
    name = f"{api.name}{kind}"
    return next(getattr(room, name) for room in _ROOMS if hasattr(room, name))


def _made(kind: Any, version: int, fields: Fields) -> Any:  # noqa: ANN401 - the same
    known, values = kind.fields, {}
    for name, value in fields.items():
        field = known.get(name)
        if field is None:
            raise ValueError(f"{kind.__name__} has no {name}, but {', '.join(known)}")
        if field.for_version_q(version):
            values[name] = _value(field, version, value)
    return kind(version=version, **values)


def _value(field: Any, version: int, value: Any) -> Any:  # noqa: ANN401 - the same
    if value is None or not field.fields:
        return value
    if field.is_struct_array():
        return [_made(field.data_class, version, one) for one in value]
    return _made(field.data_class, version, value)


def _struct_shape(struct: Any, version: int, *, is_flexible: bool) -> Shape:  # noqa: ANN401 - the same
    steps: list[Step] = []
    for field in struct.untagged_fields(version):
        for step in _field_shape(field, version, is_flexible=is_flexible):
            if isinstance(step, Fixed) and steps and isinstance(last := steps[-1], Fixed):
                steps[-1] = Fixed(last.size + step.size)
            else:
                steps.append(step)
    if is_flexible:
        tagged = [field for field in struct.fields.values() if field.tagged_field_q(version)]
        steps.append(Tags({field.tag: _field_shape(field, version, is_flexible=True) for field in tagged}))
    return tuple(steps)


def _field_shape(field: Any, version: int, *, is_flexible: bool) -> Shape:  # noqa: ANN401 - the same
    nullable = field.nullable_for_version_q(version)
    if field.is_array():
        item = _struct_shape if field.is_struct_array() else partial(_plain_shape, nullable=False)
        return (Many(item(field.array_of, version, is_flexible=is_flexible), is_flexible, nullable),)
    if field.is_struct():
        inner = _struct_shape(field, version, is_flexible=is_flexible)
        return (Maybe(inner),) if nullable else inner
    return _plain_shape(field, version, is_flexible=is_flexible, nullable=nullable)


def _plain_shape(field: Any, _: int, *, is_flexible: bool, nullable: bool) -> Shape:  # noqa: ANN401 - the same
    size = _BYTES_OF.get(field.type_str)
    if size is not None:
        return (Fixed(size),)
    return (SizedText(is_flexible, nullable, is_bytes=field.type_str in {"bytes", "records"}),)

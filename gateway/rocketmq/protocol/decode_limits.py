"""The bounds of a request's fields, checked before it is decoded. Pure.

Decoding makes an object of each element, even of an empty one of two bytes. `_FIELD_BYTES` and `_FIELD_COUNTS` have the unusual bounds. A request of
`SMALL_BYTES` keeps all of them by its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from . import rocketmq_pb2 as pb
from .status import StatusError

SMALL_BYTES: Final = 1_024
FIELD_BYTES_MAX: Final = 4_096
FIELD_COUNT_MAX: Final = 1_024
FIELDS_MAX: Final = 262_144
"""The most fields over all messages of a request."""
_FIELD_BYTES: Final[Mapping[tuple[str, str], int | None]] = {
    ("Message", "body"): None,
    ("UserPropertiesEntry", "key"): None,
    ("UserPropertiesEntry", "value"): None,
    ("SystemProperties", "tag"): None,
    ("SystemProperties", "keys"): None,
    ("SystemProperties", "message_group"): None,
    ("FilterExpression", "expression"): 16_384,
}
"""The longest values in bytes. None: as long as the request, as topics have limits of their own."""
_FIELD_COUNTS: Final[Mapping[tuple[str, str], int]] = {
    ("Message", "user_properties"): 16_384,
    ("SystemProperties", "keys"): 16_384,
}
"""The most elements."""
_VARINT, _FIXED_64, _DELIMITED, _FIXED_32 = 0, 1, 2, 5
_VARINT_BYTES_MAX: Final = 10
_MORE_BYTES: Final = 0x80


@dataclass(slots=True)
class FieldBound:
    """The bounds of one field."""

    name: str
    count: int | None
    """None: a single field, whose last value counts."""
    length: int | None
    """The most bytes. None: as long as the request."""
    fields: dict[int, FieldBound] = field(default_factory=dict)
    """A message's fields, by number."""
    is_message: bool = False


def _bound_of(of: Descriptor, one: FieldDescriptor, made: dict[str, dict[int, FieldBound]], *, is_list: bool) -> FieldBound:
    key, message = (of.name, one.name), one.message_type
    count = _FIELD_COUNTS.get(key, FIELD_COUNT_MAX) if is_list else None if message is None else 1
    is_text = one.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}
    packed = count if is_list and message is None and not is_text else None  # an element of a packed list has a byte at least
    length = _FIELD_BYTES.get(key, FIELD_BYTES_MAX) if is_text else packed
    if message is None:
        return FieldBound(one.name, count, length)
    return FieldBound(one.name, count, length, _fields_of(message, made), is_message=True)


def _fields_of(message: Descriptor, made: dict[str, dict[int, FieldBound]]) -> dict[int, FieldBound]:
    if message.full_name not in made:
        fields = made[message.full_name] = {}
        stated = DescriptorProto()
        message.CopyToProto(stated)  # descriptors of Python's protobuf say it in other ways from version to version
        lists = {one.number for one in stated.field if one.label == FieldDescriptorProto.LABEL_REPEATED}
        fields.update({one.number: _bound_of(message, one, made, is_list=one.number in lists) for one in message.fields})
    return made[message.full_name]


def _requests() -> Iterator[Descriptor]:
    for method in pb.DESCRIPTOR.services_by_name["MessagingService"].methods:
        yield method.input_type


_MADE: Final[dict[str, dict[int, FieldBound]]] = {}
BOUNDS: Final[Mapping[str, dict[int, FieldBound]]] = {request.name: _fields_of(request, _MADE) for request in _requests()}


class _Malformed(ValueError):
    """Bytes that are no message; the decoder raises the error."""


def check_bounds(request: str, data: bytes) -> None:
    """Raise `StatusError` for an exceeded bound. Malformed requests are left to the decoder."""
    if len(data) <= SMALL_BYTES:
        return
    try:
        _Walk(data).message(0, len(data), BOUNDS[request])
    except (_Malformed, IndexError):
        return


class _Walk:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = FIELDS_MAX

    def message(self, at: int, end: int, fields: dict[int, FieldBound]) -> None:
        data = self._data
        counts: dict[int, int] = {}
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise _too_much(f"the request has more than {FIELDS_MAX:,} fields")
            tag = data[at]
            at += 1
            if tag >= _MORE_BYTES:
                tag, at = self._varint(at - 1)
            bound = fields.get(tag >> 3)
            if bound is not None and bound.count is not None:
                _count(bound, counts, tag >> 3)
            kind = tag & 7
            if kind == _DELIMITED:
                size = data[at]
                at += 1
                if size >= _MORE_BYTES:
                    size, at = self._varint(at - 1)
                if at + size > end:
                    raise _Malformed
                if bound is None:
                    pass
                elif bound.is_message:
                    self.message(at, at + size, bound.fields)
                elif bound.length is not None and size > bound.length:
                    raise _too_much(f"{bound.name} has {size:,} bytes, and at most {bound.length:,} are allowed")
                at += size
            elif kind == _VARINT:
                at = at + 1 if data[at] < _MORE_BYTES else self._varint(at)[1]
            elif kind == _FIXED_64:
                at += 8
            elif kind == _FIXED_32:
                at += 4
            else:
                raise StatusError(pb.BAD_REQUEST, "the request has a group, which the protocol does not know")

    def _varint(self, at: int) -> tuple[int, int]:
        found = shift = 0
        for byte in self._data[at : at + _VARINT_BYTES_MAX]:
            found |= (byte & 0x7F) << shift
            at += 1
            if byte < _MORE_BYTES:
                return found, at
            shift += 7
        raise _Malformed


def _count(bound: FieldBound, counts: dict[int, int], number: int) -> None:
    found = counts[number] = counts.get(number, 0) + 1
    if bound.count is not None and found > bound.count:
        raise _too_much(f"there are more than {bound.count:,} {bound.name}")


def _too_much(what: str) -> StatusError:
    return StatusError(pb.PAYLOAD_TOO_LARGE, f"{what}: send less in one request")

"""The forms in which events write values without a schema."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from ....log.errors import InvalidArgument
from ....log.schema.fields import DecimalType, FieldType, PrimitiveType
from ..conversion import BASE64, Convert, UnfitValue, each, unscaled
from ..target_types import element_of, innermost, parse_target_type
from .schema import FieldSchema
from .times import instants

_UNITS = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}
_SAFE = str.maketrans("-_+/", "+/..")
_BYTES: dict[str, Callable[[str], bytes]] = {
    "base64": lambda text: base64.b64decode(text, validate=True),
    "base64-url-safe": lambda text: base64.b64decode((text + "=" * (-len(text) % 4)).translate(_SAFE), validate=True),
    "hex": binascii.unhexlify,
}
_TEXT = "text"
_WRITTEN: Mapping[FieldType, tuple[str, ...]] = {
    PrimitiveType.TIMESTAMP: tuple(_UNITS),
    PrimitiveType.TIMESTAMP_NTZ: tuple(_UNITS),
    PrimitiveType.BINARY: tuple(_BYTES),
}
_HEX = re.compile(r"(?:[0-9a-f]{4})+")
"""Hexadecimal text that is valid base64 as well."""


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """A column's form in events without a schema of it."""

    type: FieldType
    form: str
    """A unit of time since 1970, an encoding of bytes, or text as it is."""

    def reader(self) -> Convert:
        """Raises `UnfitValue`. Self-describing numbers and texts stay as they are."""
        if (element := element_of(self.type)) is not None:
            return each(ColumnForm(element, self.form).reader())
        if self.form in _UNITS:
            return instants(_UNITS[self.form])
        if self.form == _TEXT:
            return lambda value: value
        decode = _BYTES[self.form]
        scale = self.type.scale if isinstance(self.type, DecimalType) else None

        def read(value: object) -> object:
            if not isinstance(value, str):
                return value
            try:
                return decode(value) if scale is None else unscaled(value, scale)
            except ValueError as error:
                raise UnfitValue(f"{value[:60]!r} is no {self.form}, as declared by '{self.type} from {self.form}'") from error

        return read


def says_form(field: FieldSchema, type_: FieldType) -> bool:
    """Whether Connect's field makes the form of text certain: bytes are base64, and no text of digits is bytes."""
    if (element := element_of(type_)) is not None:
        return field.items is not None and says_form(field.items, element)
    if isinstance(type_, DecimalType):
        return field.type == "string"
    return type_ is PrimitiveType.BINARY and field.type == "bytes"


def either(type_: FieldType) -> Convert | None:
    """A reader of text for an unknown mode of the connector; None for types without modes. Raises `UnfitValue` for ambiguous text."""
    if (element := element_of(type_)) is not None:
        read = either(element)
        return None if read is None else each(read)

    def number(value: object) -> object:
        if isinstance(value, str) and BASE64.fullmatch(value) and _is_number(value):
            raise _unsaid(value, "digits or bytes in base64", f"'{type_} from base64' or '{type_} from text'")
        return value

    def data(value: object) -> object:
        if isinstance(value, str) and _HEX.fullmatch(value):
            raise _unsaid(value, "base64 or hex", "'binary from base64' or 'binary from hex'")
        return value

    if isinstance(type_, DecimalType):
        return number
    return data if type_ is PrimitiveType.BINARY else None


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


def _unsaid(value: str, forms: str, declare: str) -> UnfitValue:
    return UnfitValue(f"nothing says whether {value[:60]!r} is {forms}: declare {declare}")


def declared_type(said: str) -> tuple[FieldType, ColumnForm | None]:
    """A declared type and its form, such as ``timestamp from milliseconds``. Raises `InvalidArgument`."""
    name, given, form = said.strip().lower().partition(" from ")
    kind, form = parse_target_type(name), form.strip()
    if not given:
        return kind, None
    inner = innermost(kind)
    if form not in (known := ("base64", _TEXT) if isinstance(inner, DecimalType) else _WRITTEN.get(inner, ())):
        raise InvalidArgument(
            "nothing of this type is written so",
            operation="sync",
            expected=f"{kind} from {', '.join(known)}" if known else kind,
            observed=repr(said),
        )
    return kind, ColumnForm(kind, form)

"""Debezium's placeholder for values that the source did not log.

PostgreSQL's log lacks large values that an update left alone, and Oracle's LOBs. Connectors write ``unavailable.value.placeholder`` in the
column's form: bytes for a binary one, an array of bytes for one of numbers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from types import EllipsisType

from ...log.errors import InvalidArgument

PLACEHOLDER = "__debezium_unavailable_value"
"""The connectors' default."""
_HEX = "hex:"
_NUMBERS_FROM = 8
"""Shorter placeholders, as numbers, look like a row's values."""
_POINT = -99_999_999.0
_SRID = 4_326
_WKB = frozenset(
    base64.b64encode(bytes.fromhex(one)).decode()
    for one in (
        "0101000020E6100000000000FC83D797C1000000FC83D797C1",  # geometry: POINT(-99999999 -99999999)
        "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640",  # geography: POINT(179.999999 89.999999)
    )
)


@dataclass(frozen=True, slots=True)
class UnavailablePlaceholder:
    """The forms of a missing value."""

    texts: frozenset[str]
    arrays: tuple[list[object], ...]
    objects: tuple[dict[str, object], ...]

    @classmethod
    def of(cls, placeholders: Collection[str] = ()) -> UnavailablePlaceholder:
        """Debezium's own placeholder and these: text, or ``hex:`` and digits. Raises `InvalidArgument`."""
        texts: set[str] = set()
        arrays: list[list[object]] = []
        objects: list[dict[str, object]] = []
        for said in dict.fromkeys([PLACEHOLDER, *placeholders]):
            data = _bytes_of(said)
            text = data.decode(errors="replace")
            of_uuid = str(uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
            as_text = {text, of_uuid}
            if len(data) >= _NUMBERS_FROM:
                as_text |= _encoded(data)
                arrays += _by_byte(data)
            arrays += [[one] for one in sorted(as_text)]
            objects.append({text: text})
            texts |= as_text | {json.dumps({text: text}, separators=one, ensure_ascii=False) for one in ((",", ":"), (", ", ": "))}
        return cls(frozenset(texts), tuple(arrays), tuple(objects))

    def is_it(self, value: object) -> bool:
        """Whether a whole value is a placeholder. `KEEP` always is."""
        match value:
            case EllipsisType():
                return True
            case _ if not self.texts:
                return False
            case str():
                return value in self.texts
            case list():
                return value in self.arrays
            case dict():
                return value in self.objects or _is_place(value)
            case _:
                return False


NOTHING = UnavailablePlaceholder(frozenset(), (), ())
"""No forms, where events name missing values."""


def _bytes_of(placeholder: str) -> bytes:
    try:
        data = bytes.fromhex(placeholder.removeprefix(_HEX)) if placeholder.startswith(_HEX) else placeholder.encode()
    except ValueError as error:  # UnicodeEncodeError too
        raise InvalidArgument(
            "bad placeholder", operation="sync", expected="text, or hex: and digits", observed=repr(placeholder)
        ) from error
    if not data:
        raise InvalidArgument("a placeholder has at least one character", operation="sync", observed=repr(placeholder))
    return data


def _encoded(data: bytes) -> set[str]:
    """The modes of ``binary.handling.mode``."""
    plain, safe = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    return {plain, safe, plain.rstrip("="), safe.rstrip("="), data.hex(), data.hex().upper()}


def _by_byte(data: bytes) -> list[list[object]]:
    """One element a byte, which Java has with a sign."""
    numbers = list(struct.unpack(f"{len(data)}b", data))
    decimals = [base64.b64encode(bytes([one])).decode() for one in data]
    of_any_scale: list[object] = [{"scale": 0, "value": one} for one in decimals]
    return [[*numbers], [*decimals], of_any_scale, [one != 0 for one in numbers]]


def _is_place(value: dict[str, object]) -> bool:
    wkb, x = value.get("wkb"), value.get("x")
    if isinstance(wkb, str) and wkb in _WKB:
        return value.get("srid") in (None, _SRID)
    return x is not None and x == _POINT and value.get("y") == _POINT and value.keys() <= {"x", "y", "wkb", "srid"}

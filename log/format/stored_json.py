"""Stored JSON is untrusted input.

Nothing is converted (``"1"``, ``1.0`` and ``true`` are no numbers), and an unknown field is an error, since it may mean something to its writer. So
every process reads the same bytes in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from ..errors import DataDamaged, NewerFormatError
from ..limits import FORMAT_BASIC, NAME_CHARS_MAX, NUMBER_MAX, TIME_MAX_MS
from .forms import converted, decoded

Number: TypeAlias = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
"""A number that fits into 63 bits."""
SequenceNumber: TypeAlias = Annotated[int, Meta(ge=-1, le=NUMBER_MAX)]
"""The sequence of a message; -1 for none."""
TimeMs: TypeAlias = Annotated[int, Meta(ge=0, le=TIME_MAX_MS)]
"""Milliseconds since 1970, up to the year 9999."""
Name: TypeAlias = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Id: TypeAlias = Annotated[str, Meta(max_length=NAME_CHARS_MAX, pattern=r"\A[A-Za-z0-9_.-]*\Z")]
"""An id that may be part of a key."""
Digest: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]

_OBSERVED_CHARS_MAX = 200


class StoredForm(Struct, frozen=True, forbid_unknown_fields=True, tag_field=None):
    """A stored JSON object."""


T = TypeVar("T")


class _Versioned(Struct):
    format: int


def parse_stored(
    data: bytes | str,
    form: type[T],
    *,
    what: str,
    where: str,
    operation: str | None = None,
    hint: str | None = None,
    formats: Collection[int] = (FORMAT_BASIC,),
) -> T:
    """``data`` as a value of ``form``. ``what`` names it in errors; ``formats`` are those that this process reads.

    Raises `NewerFormatError` for another ``format``, else `DataDamaged`.
    """
    try:
        value = decoded(data, form)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        check_version(_version(data), where=where, formats=formats)
        raise damaged(what, error, where=where, operation=operation, hint=hint) from error
    check_version(getattr(value, "format", FORMAT_BASIC), where=where, formats=formats)
    return value


def check_stored(
    value: object, form: type[T], *, what: str, where: str, operation: str | None = None, hint: str | None = None
) -> T:
    """`parse_stored` for values that were not read from JSON. Raises `DataDamaged`."""
    try:
        return converted(value, form)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise damaged(what, error, where=where, operation=operation, hint=hint) from error


def check_version(version: object, *, where: str, formats: Collection[int] = (FORMAT_BASIC,)) -> None:
    """Raise `NewerFormatError` unless this process reads the version, or there is none."""
    if isinstance(version, int) and version not in formats:
        raise NewerFormatError(
            "written by another version of Penstock",
            object=where,
            expected=f"format {' or '.join(map(str, formats))}",
            observed=f"format {version}",
            hint="upgrade this process",
        )


def damaged(what: str, error: object, *, where: str, operation: str | None = None, hint: str | None = None) -> DataDamaged:
    return DataDamaged(
        f"the object is not {what}",
        operation=operation,
        object=where,
        expected=f"{what} in the form that Penstock writes",
        observed=shown(error),
        hint=hint,
    )


def shown(observed: object) -> str:
    """An observed value, short and printable."""
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in str(observed)[:_OBSERVED_CHARS_MAX]
    )
    return text[:_OBSERVED_CHARS_MAX]


def plain(value: object) -> dict[str, object]:
    """A form or mapping as JSON values; usable as ``default`` of `json.dumps`."""
    found: dict[str, object] = dict(value) if isinstance(value, Mapping) else msgspec.to_builtins(value)
    return found


def whole_number(text: str) -> int | None:
    """The number that ``text`` states as Penstock writes it: no sign, space, underscore, leading zero or foreign digit."""
    return int(text) if _WHOLE.fullmatch(text) else None


_WHOLE = re.compile(r"0|[1-9][0-9]{0,18}")


def _version(data: bytes | str) -> object:
    try:
        return decoded(data, _Versioned).format
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None

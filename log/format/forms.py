"""Reads values as msgspec's types, from any thread.

A second thread that uses a type while msgspec first inspects it ends the process (0.22: a fault at address 0). So types are inspected one after the
other.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_LOOKING = Lock()


def decoded(data: bytes | str, form: type[T]) -> T:
    """JSON as a value of a form. Raises `msgspec.MsgspecError`, `UnicodeError` and `RecursionError`."""
    value: T = _decoder(form).decode(data)  # type: ignore[arg-type]
    return value


def converted(value: object, form: type[T], *, str_keys: bool = False) -> T:
    """A value as one of a form. Raises `msgspec.MsgspecError` and `RecursionError`. ``str_keys``: keys of mappings are texts, as in JSON."""
    _decoder(form)  # type: ignore[arg-type]
    return msgspec.convert(value, form, str_keys=str_keys)


@cache
def _decoder(form: type[Any]) -> msgspec.json.Decoder[Any]:
    with _LOOKING:
        return msgspec.json.Decoder(form)

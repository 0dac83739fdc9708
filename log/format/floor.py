"""The object ``log/floor``: the number of the checkpoint from which the log is kept."""

from __future__ import annotations

import json

from ..limits import FORMAT_BASIC
from .digest import digest
from .stored_json import Name, Number, StoredForm, damaged, parse_stored

_WHAT = "a floor"
_HINT = "nothing is deleted meanwhile; put the former object back, or one for the oldest checkpoint that is there"


class _FloorForm(StoredForm, frozen=True):
    format: int
    floor: Number
    write_id: Name
    digest: str


def encode_floor(number: int, *, write_id: str) -> bytes:
    """``write_id`` makes each write different."""
    return json.dumps({"format": FORMAT_BASIC, "floor": number, "write_id": write_id, "digest": _digest(number, write_id)}).encode()


def decode_floor(data: bytes, *, where: str) -> int:
    """Raises `DataDamaged`, also where its digest disagrees, or `NewerFormatError`."""
    form = parse_stored(data, _FloorForm, what=_WHAT, where=where, hint=_HINT)
    if form.digest != _digest(form.floor, form.write_id):
        raise damaged(_WHAT, "another digest", where=where, hint=_HINT)
    return form.floor


def _digest(number: int, write_id: str) -> str:
    return digest(f"{number} {write_id}".encode())

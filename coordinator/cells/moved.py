"""A cell that a move between tables has copied: its bytes of before, and the move. Pure.

What it holds counts until the move is done, and in the table that the move fills from then on. To earlier releases it is of a newer format.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Annotated

from msgspec import Meta

from ...log.format.stored_json import Id, StoredForm, damaged, parse_stored
from ..limits import CELL_STORED_BYTES_MAX
from .inflation import inflated

FORMAT = 1_000
_BEGINNING = b'{"format":1000,"move":"'


class _Form(StoredForm, frozen=True):
    format: Annotated[int, Meta(ge=FORMAT, le=FORMAT)]
    move: Id
    cell: str


def moved_cell(move: str, stored: bytes) -> bytes:
    """``stored``: the cell with its write id."""
    cell = base64.b64encode(zlib.compress(stored)).decode()
    return json.dumps({"format": FORMAT, "move": move, "cell": cell}, separators=(",", ":")).encode()


def read_moved(data: bytes, *, where: str) -> tuple[str, bytes] | None:
    """The move and the cell of before; None for a cell that no move has copied. Raises `DataDamaged`."""
    if not data.startswith(_BEGINNING):
        return None
    form = parse_stored(data, _Form, what="a cell that a move has copied", where=where, formats=(FORMAT,))
    try:
        stored = inflated(base64.b64decode(form.cell, validate=True), bytes_max=CELL_STORED_BYTES_MAX)
    except (zlib.error, binascii.Error) as error:
        raise damaged("a cell that a move has copied", error, where=where) from error
    if stored is None:
        raise damaged("a cell that a move has copied", "it is cut off, or too long", where=where)
    return form.move, stored

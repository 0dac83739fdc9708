"""The object ``log/floor``: the number of the checkpoint from which the log is kept."""

from __future__ import annotations

import json

from .errors import DataDamaged, NewerFormatError
from .files import digest
from .limits import FORMAT_VERSION


def encode_floor(number: int, *, write_id: str) -> bytes:
    """The floor as bytes; ``write_id`` makes each one of its own."""
    return json.dumps(
        {"format": FORMAT_VERSION, "floor": number, "write_id": write_id, "digest": _digest(number, write_id)}
    ).encode()


def decode_floor(data: bytes, *, where: str) -> int:
    """The floor's number, once it is proved: what lies below is deleted. Raises `DataDamaged` or `NewerFormatError`."""
    try:
        document = json.loads(data)
        if document["format"] != FORMAT_VERSION:
            raise NewerFormatError(
                "written by another version of Penstock",
                object=where,
                expected=f"format {FORMAT_VERSION}",
                observed=f"format {document['format']}",
                hint="upgrade this process",
            )
        number: int = document["floor"]
        if document["digest"] == _digest(number, document["write_id"]):
            return number
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(where, repr(error)) from error
    raise _damaged(where, data[:100])


def _digest(number: int, write_id: str) -> str:
    return digest(f"{number} {write_id}".encode())


def _damaged(where: str, observed: object) -> DataDamaged:
    return DataDamaged(
        "the object is not a floor",
        object=where,
        observed=observed,
        hint="nothing is deleted meanwhile; put the former object back, or one for the oldest checkpoint that is there",
    )

"""Character sets of the server that Java or the connector misreads; pure.

All characters of all sets were compared with the server's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

JAVA: Final = {
    "cp932": "windows-31j",
    "euckr": "x-windows-949",
    "gbk": "x-mswin-936",
    "tis620": "ISO-8859-11",
    "ucs2": "UTF-16BE",  # UTF-16 leaves out a first U+FEFF
    "utf16": "UTF-16BE",
}
_ONE_BYTE: Final = frozenset(
    {"armscii8", "cp866", "dec8", "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8u", "latin1", "swe7"}
)
_MORE_BYTES: Final = frozenset({"big5", "eucjpms", "sjis", "ujis", "utf32"})
_BYTES_MAX = 3

Characters = Mapping[bytes, str]


def is_ours(charset: str) -> bool:
    """Whether Java lacks the set, so that the server's table of characters is used."""
    return charset in _ONE_BYTE or charset in _MORE_BYTES


def decoded(data: bytes, characters: Characters) -> str:
    """A text, with a question mark for invalid bytes, as on the server."""
    if len(characters) <= 1 << 8:
        return "".join([characters.get(data[place : place + 1], "?") for place in range(len(data))])
    found, place = [], 0
    while place < len(data):
        for size in range(1, _BYTES_MAX + 1):
            if (character := characters.get(data[place : place + size])) is not None:
                break
        else:
            size, character = 1, "?"
        found.append(character)
        place += size
    return "".join(found)

"""The names of rows and tables in messages; pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

_GROUP_BYTES_MAX = 63
_KEY_CHARS_MAX = 1024


def key_text(values: Sequence[object]) -> str:
    return "-".join(map(str, values))


def message_group_of(schema: str, table: str, key: str | None) -> str:
    """The message group of a table or a row, at most 63 bytes: a longer one is cut, with a hash of the whole."""
    group = f"{schema}.{table}" if key is None else f"{schema}.{table}-{key}"
    data = group.encode()
    if len(data) <= _GROUP_BYTES_MAX and group.isprintable():
        return group
    shown = "".join(char for char in data[:40].decode(errors="ignore") if char.isprintable())
    return f"{shown}~{blake2b(data, digest_size=8).hexdigest()}"


def tag_of(table: str) -> str | None:
    """The tag of a table's messages; None if its name cannot be a tag."""
    return table if table.isprintable() and "|" not in table else None


def lookup_keys(table: str, key: str | None) -> tuple[str, ...]:
    lookup = f"{table}-{key}"
    return () if key is None or len(lookup) > _KEY_CHARS_MAX or not lookup.isprintable() else (lookup,)

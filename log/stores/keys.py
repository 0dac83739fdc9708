"""What every store accepts as a key, so that a lake can be copied from one store to another."""

from __future__ import annotations

from ..errors import InvalidArgument

HIDDEN_FOLDER = ".penstock"
"""Belongs to the local store; no key lies in it."""


def check_key(key: str) -> None:
    """Raise `InvalidArgument` unless ``key`` is relative, has no empty, ``.`` or ``..`` part and is not hidden."""
    parts = key.split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts) or parts[0] == HIDDEN_FOLDER:
        raise InvalidArgument("bad key", object=key, expected=f"non-empty parts between '/', no '..', not in {HIDDEN_FOLDER}")


def check_prefix(prefix: str) -> None:
    """Raise `InvalidArgument` unless keys can start with ``prefix``."""
    folder = prefix.rpartition("/")[0]
    if folder:
        check_key(folder)
    elif prefix.startswith("/"):
        raise InvalidArgument("bad prefix", object=prefix, expected="no '/' at the start")

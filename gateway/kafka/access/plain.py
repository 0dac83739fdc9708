"""PLAIN (RFC 4616): a name and its secret as they are. Pure."""

from __future__ import annotations

from typing import Final

PLAIN: Final = "PLAIN"


class PlainMalformed(ValueError):
    """A message that is none of PLAIN's."""


def name_and_secret(message: bytes) -> tuple[str, str]:
    """Raises `PlainMalformed`."""
    try:
        acting, name, secret = message.decode("utf-8").split("\0")
    except ValueError:
        raise PlainMalformed("it is not a name and a secret, with a zero byte before each") from None
    if acting not in ("", name):
        raise PlainMalformed("nobody acts for another principal here")
    return name, secret

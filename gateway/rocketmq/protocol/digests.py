"""Message digests, as upper-case hexadecimal digits. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from hashlib import md5, sha1
from typing import Final

from . import rocketmq_pb2 as pb

_MD5: Final = pb.MD5
_CHECKSUMS: Final[Mapping[int, Callable[[bytes], str]]] = {
    pb.CRC32: lambda body: f"{zlib.crc32(body):08X}",
    pb.MD5: lambda body: md5(body, usedforsecurity=False).hexdigest().upper(),
    pb.SHA1: lambda body: sha1(body, usedforsecurity=False).hexdigest().upper(),
}


def checksum(kind: int, body: bytes) -> str | None:
    """None for an unknown `DigestType`."""
    found = _CHECKSUMS.get(kind)
    return None if found is None else found(body)


def digest_of(body: bytes) -> pb.Digest:
    return pb.Digest(type=_MD5, checksum=checksum(_MD5, body))

"""Receipt handles, by which any process acknowledges.

A handle names the delivery, in opaque text sealed by the consumer group's secret.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b

import xxhash
from msgspec import Struct

from ...log.errors import CallError, DataDamaged, InvalidArgument, RetryError
from ...log.limits import NUMBER_MAX
from ..cells.varints import HASH_MAX, VarintReader, append_bytes, append_varint, offset_varint, varint

_FORMAT = 1
_SEAL_BYTES = 12
_SEAL_PURPOSE = b"receipt handle"
_CHECK_BYTES = 4
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_CHARS_MAX = 1_024
"""Longer than any handle."""


class ReceiptRefused(CallError):
    """The receipt handle cannot acknowledge the message, or change its invisible duration."""

    kind = "receipt_refused"


class ReceiptExpired(ReceiptRefused):
    """The invisible duration has passed: the message is visible again, or was given up."""

    kind = "receipt_expired"


class AlreadySettled(ReceiptRefused):
    """The message was acknowledged or given up before."""

    kind = "already_settled"


class ReceiptOutdated(ReceiptRefused):
    """The group's offsets were reset since."""

    kind = "receipt_outdated"


class ReceiptAhead(ReceiptRefused):
    """An earlier message of the same message group and receive is not acknowledged."""

    kind = "receipt_ahead"


class DeadLettersWait(RetryError):
    """Too many dead letters of the queue are unwritten. The message is out as before."""

    kind = "dead_letters_wait"


class ForeignReceipt(ReceiptRefused):
    """The handle is another consumer group's, or forged, or of a queue without deliveries."""

    kind = "foreign_receipt"


class ReceiptHandle(Struct, frozen=True, kw_only=True, gc=False):
    """One delivery of one message."""

    group: str
    topic: str
    queue: int
    offset: int
    generation: int
    attempt: int
    """The delivery: at most one handle of a message is good."""
    lane: int | None = None
    """ORDERLY: the hash of the message group, 0 without one."""
    following: int | None = None
    """The lane's next offset that was handed out with it."""

    @property
    def where(self) -> str:
        return f"{self.topic}, queue {self.queue}, offset {self.offset}, attempt {self.attempt}"

    def encode(self, secret: str) -> str:
        """Sealed text of letters, digits, ``-`` and ``_``."""
        prefix, begun = _sealing(self.group, self.topic, self.queue, secret)
        lane, following = self.lane, self.following
        rest = offset_varint(self.offset) + varint(self.generation) + varint(self.attempt)
        rest += varint(0 if lane is None else lane + 1) + varint(0 if following is None else following - self.offset)
        seal = begun()
        seal.update(rest)
        data = prefix + rest + seal.digest()
        data += _check(data)
        return binascii.b2a_base64(data, newline=False).translate(_URL_SAFE, b"=").decode()

    @staticmethod
    def decode(text: object) -> ReceiptHandle:
        """Genuine or not. Raises `InvalidArgument`."""
        if not isinstance(text, str):
            raise InvalidArgument("a receipt handle is a string", observed=type(text).__name__)
        if len(text) > _CHARS_MAX:
            raise _no_handle(text)
        return _decoded(text)[0]


class SealedHandles(Struct, frozen=True, eq=False):
    """Handles that this process made, by their text."""

    secret: str
    by_text: Mapping[str, ReceiptHandle]


@lru_cache(maxsize=1_024)
def _sealing(group: str, topic: str, queue: int, secret: str) -> tuple[bytes, Callable[[], blake2b]]:
    """What all handles of a queue begin with, and what makes a seal begun with that: half of its price is its key."""
    data = bytearray([_FORMAT])
    append_bytes(data, group.encode())
    append_bytes(data, topic.encode())
    append_varint(data, queue)
    return bytes(data), _seal(data, secret).copy


@lru_cache(
    maxsize=1_024
)  # whoever serves clients, and then the consumer, asks about each; of none that is longer than `_CHARS_MAX`
def _decoded(text: str) -> tuple[ReceiptHandle, bytes, bytes]:
    """The handle, its content and its seal. Raises `InvalidArgument` for text cut off or changed."""
    try:
        data, seal = _parts(text)
        reader = VarintReader(data)
        if (version := reader.byte()) != _FORMAT:
            raise InvalidArgument(
                "the receipt handle was made by a later version of Penstock", expected=f"format {_FORMAT}", observed=version
            )
        group, topic = reader.text(), reader.text()
        queue, offset, generation, attempt = (reader.varint() for _ in range(4))
        lane, distance = reader.varint(HASH_MAX + 1), reader.varint(NUMBER_MAX - offset)
    except (ValueError, DataDamaged) as error:
        raise error if isinstance(error, InvalidArgument) else _no_handle(text) from error
    handle = ReceiptHandle(
        group=group,
        topic=topic,
        queue=queue,
        offset=offset,
        generation=generation,
        attempt=attempt,
        lane=lane - 1 if lane else None,
        following=offset + distance if distance else None,
    )
    return handle, data, seal


def is_genuine(text: str, secret: str) -> bool:
    """Raises `InvalidArgument` for text that is no handle."""
    if len(text) > _CHARS_MAX:
        raise _no_handle(text)
    _, data, seal = _decoded(text)
    return hmac.compare_digest(seal, _seal(data, secret).digest())


def _parts(text: str) -> tuple[bytes, bytes]:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error) as error:
        raise _no_handle(text) from error
    sealed, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    if check != _check(sealed):
        raise _no_handle(text)
    return sealed[:-_SEAL_BYTES], sealed[-_SEAL_BYTES:]


def _seal(data: bytes | bytearray, secret: str) -> blake2b:
    return blake2b(data, digest_size=_SEAL_BYTES, key=_key(secret), person=_SEAL_PURPOSE)


@lru_cache(maxsize=256)
def _key(secret: str) -> bytes:
    return bytes.fromhex(secret)


def _check(data: bytes | bytearray) -> bytes:
    return xxhash.xxh32_digest(data)  # of `_CHECK_BYTES`


def _no_handle(text: str) -> InvalidArgument:
    return InvalidArgument(
        "this is not a receipt handle, or only a part of one",
        expected="message.receipt_handle of a message from receive()",
        observed=repr(text[:80]),
    )

"""Routes messages to queues: a hash of the message group's UTF-8 bytes, modulo the number of queues.

By default it is Spark's ``pmod(xxhash64(message_group), queues)``: XXH64 with seed 42, as a signed 64-bit number. Kafka's clients choose by others.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from ..errors import InvalidArgument
from .routing_type import Routing

_SEED = 42
_32_BITS = 0xFFFFFFFF
_31_BITS = 0x7FFFFFFF


def queue_of(message_group: str, queues: int, routing: Routing = Routing.XXHASH64) -> int:
    """The queue of a message group in a topic with so many queues."""
    data = message_group.encode()
    match routing:
        case Routing.XXHASH64:
            unsigned = xxhash.xxh64_intdigest(data, _SEED)
            return (unsigned - 2**64 if unsigned >= 2**63 else unsigned) % queues
        case Routing.MURMUR2:
            return (_murmur2(data) & _31_BITS) % queues
        case Routing.CRC32:
            return zlib.crc32(data) % queues


def _murmur2(data: bytes) -> int:
    """Kafka's ``Utils.murmur2``, as an unsigned number."""
    multiplier = 0x5BD1E995
    whole = len(data) & ~3
    hashed = 0x9747B28C ^ len(data)
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        word = word * multiplier & _32_BITS
        word = (word ^ word >> 24) * multiplier & _32_BITS
        hashed = (hashed * multiplier & _32_BITS) ^ word
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * multiplier & _32_BITS
    hashed = (hashed ^ hashed >> 13) * multiplier & _32_BITS
    return hashed ^ hashed >> 15


def check_queue(queue: object, queues: int, topic: str) -> None:
    if not isinstance(queue, int) or isinstance(queue, bool) or not 0 <= queue < queues:
        raise InvalidArgument(
            "the topic has no such queue", operation="send", object=topic, expected=f"0 to {queues - 1}", observed=queue
        )


class Router:
    """Routes a producer's messages: by group, else in turn. It caches hashes up to a bound."""

    _REMEMBERED_MAX = 100_000

    def __init__(self, queues: int, routing: Routing = Routing.XXHASH64, *, first: int = 0) -> None:
        self.queues, self._routing = queues, routing
        self._queue_of: dict[str, int] = {}
        self._next = first

    def grown(self, queues: int) -> Router:
        """A router to this many queues, which goes on in turn where this one is."""
        return Router(queues, self._routing, first=self._next)

    def route(self, groups: pa.Array, *, in_runs: bool = False) -> npt.NDArray[np.int32]:
        """The queue of every row. Rows without a group take the queues in turn, or with ``in_runs``, where no row has a group, as many in one run for
        each queue.
        """
        if self.queues == 1:
            return np.zeros(len(groups), np.int32)
        if groups.null_count == len(groups):
            in_turn = self._in_turn(len(groups))
            return np.sort(in_turn) if in_runs else in_turn
        encoded = groups if pa.types.is_dictionary(groups.type) else groups.dictionary_encode()
        of_value = np.fromiter((self.queue(group) for group in encoded.dictionary.to_pylist()), np.int32, len(encoded.dictionary))
        if groups.null_count == 0:
            return of_value[encoded.indices.to_numpy()]
        missing = groups.is_null().to_numpy(zero_copy_only=False)
        queues = of_value[encoded.indices.fill_null(0).to_numpy()]
        queues[missing] = self._in_turn(int(missing.sum()))
        return queues

    def route_few(self, groups: Sequence[str | None]) -> list[int]:
        """`route` without Arrow."""
        if self.queues == 1:
            return [0] * len(groups)
        return [self._next_in_turn() if group is None else self.queue(group) for group in groups]

    def _next_in_turn(self) -> int:
        taken, self._next = self._next, (self._next + 1) % self.queues
        return taken

    def _in_turn(self, count: int) -> npt.NDArray[np.int32]:
        start, self._next = self._next, (self._next + count) % self.queues
        return ((start + np.arange(count)) % self.queues).astype(np.int32)

    def queue(self, group: str) -> int:
        found = self._queue_of.get(group)
        if found is None:
            if len(self._queue_of) >= self._REMEMBERED_MAX:
                self._queue_of.clear()
            found = self._queue_of[group] = queue_of(group, self.queues, self._routing)
        return found

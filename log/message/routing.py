"""Routes messages to queues: ``pmod(xxhash64(message_group), queues)``.

``xxhash64`` is Spark's: XXH64 of the UTF-8 bytes with seed 42, as a signed 64-bit number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from ..errors import InvalidArgument

_SEED = 42


def queue_of(message_group: str, queues: int) -> int:
    unsigned = xxhash.xxh64_intdigest(message_group.encode(), _SEED)
    return (unsigned - 2**64 if unsigned >= 2**63 else unsigned) % queues


def check_queue(queue: object, queues: int, topic: str) -> None:
    if not isinstance(queue, int) or isinstance(queue, bool) or not 0 <= queue < queues:
        raise InvalidArgument(
            "the topic has no such queue", operation="send", object=topic, expected=f"0 to {queues - 1}", observed=queue
        )


class Router:
    """Routes a producer's messages: by group, else in turn. It caches hashes up to a bound."""

    _REMEMBERED_MAX = 100_000

    def __init__(self, queues: int, *, first: int = 0) -> None:
        self.queues = queues
        self._queue_of: dict[str, int] = {}
        self._next = first

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
        of_value = np.fromiter((self._queue(group) for group in encoded.dictionary.to_pylist()), np.int32, len(encoded.dictionary))
        if groups.null_count == 0:
            return of_value[encoded.indices.to_numpy()]
        missing = groups.is_null().to_numpy(zero_copy_only=False)
        queues = of_value[encoded.indices.fill_null(0).to_numpy()]
        queues[missing] = self._in_turn(int(missing.sum()))
        return queues

    def _in_turn(self, count: int) -> npt.NDArray[np.int32]:
        start, self._next = self._next, (self._next + count) % self.queues
        return ((start + np.arange(count)) % self.queues).astype(np.int32)

    def _queue(self, group: str) -> int:
        found = self._queue_of.get(group)
        if found is None:
            if len(self._queue_of) >= self._REMEMBERED_MAX:
                self._queue_of.clear()
            found = self._queue_of[group] = queue_of(group, self.queues)
        return found

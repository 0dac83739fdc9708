"""The receives that messages are out to. Pure.

A receive may have an attempt id, by which it is repeated, and a holder: the client. A cell has hashes of both, keyed with the consumer group's
secret, only while messages are out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from .cell import Marker, MessageState, QueueCell, Receive, Tries

_ATTEMPT, _HOLDER = b"receive attempt", b"receive holder"


def attempt_hash(attempt_id: str, secret: str) -> int:
    """64 bits, never 0."""
    return _hash(attempt_id, secret, _ATTEMPT)


def holder_hash(holder: str, secret: str) -> int:
    """64 bits, never 0."""
    return _hash(holder, secret, _HOLDER)


@dataclass(frozen=True, slots=True)
class OutstandingMessages:
    """Messages of one queue that are out."""

    alone: Mapping[int, Tries]
    """CONCURRENT: by offset."""
    lanes: Mapping[int, Marker]
    """ORDERLY: the markers of their lanes, by hash."""

    def __bool__(self) -> bool:
        return bool(self.alone or self.lanes)

    def dues_ms(self) -> list[int]:
        """When messages become visible to others."""
        return [tries.due_ms for tries in self._tries()]

    def by_receive(self) -> dict[tuple[int, int], OutstandingMessages]:
        """The messages by hashes of holder and attempt id."""
        receives = {(tries.receive.holder, tries.receive.attempt) for tries in self._tries() if tries.receive is not None}
        return {(holder, attempt): self._of(holder, attempt) for holder, attempt in sorted(receives)}

    def _of(self, holder: int, attempt: int) -> OutstandingMessages:
        def is_of(tries: Tries) -> bool:
            return tries.receive is not None and (tries.receive.holder, tries.receive.attempt) == (holder, attempt)

        return OutstandingMessages(
            {offset: tries for offset, tries in self.alone.items() if is_of(tries)},
            {lane: marker for lane, marker in self.lanes.items() if is_of(marker.tries)},
        )

    def _tries(self) -> Iterator[Tries]:
        yield from self.alone.values()
        yield from (marker.tries for marker in self.lanes.values())


def outstanding(cell: QueueCell, is_meant: Callable[[Receive], bool], now_ms: int) -> OutstandingMessages:
    """Only messages that are not due."""

    def is_out(tries: Tries) -> bool:
        return tries.state is MessageState.OUT and tries.due_ms > now_ms and tries.receive is not None and is_meant(tries.receive)

    return OutstandingMessages(
        {offset: tries for offset, tries in cell.tries.items() if is_out(tries)},
        {lane: marker for lane, marker in cell.markers.items() if is_out(marker.tries)},
    )


def attempts_out(cell: QueueCell) -> set[int]:
    """The hashes of attempt ids, due or not."""
    return {receive.attempt for receive in _named(cell) if receive.attempt}


def _named(cell: QueueCell) -> Iterator[Receive]:
    for tries in (*cell.tries.values(), *(marker.tries for marker in cell.markers.values())):
        if tries.receive is not None:
            yield tries.receive


def _hash(text: str, secret: str, purpose: bytes) -> int:
    digest = blake2b(text.encode(), digest_size=8, key=bytes.fromhex(secret), person=purpose).digest()
    return int.from_bytes(digest, "little") or 1

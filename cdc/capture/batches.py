"""Batches of messages on their way into the topic."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from ...log.message.message import SEND_SCHEMA
from ...log.produce.receipts import BatchReceipt

PENDING_BATCHES_MAX = 8

P = TypeVar("P")


class CaptureMessage(Protocol):
    """An event of a source, as a message."""

    @property
    def message_group(self) -> str: ...
    @property
    def tag(self) -> str | None: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    @property
    def op(self) -> str: ...


def batch_columns(messages: Sequence[CaptureMessage], sequences: Iterable[int]) -> dict[str, pa.Array]:
    columns: dict[str, list[object]] = {
        "message_group": [message.message_group for message in messages],
        "tag": [message.tag for message in messages],
        "keys": [message.keys for message in messages],
        "properties": [[("op", message.op)] for message in messages],
        "sequence": [*sequences],
    }
    return {name: pa.array(column, SEND_SCHEMA.field(name).type) for name, column in columns.items()}


def body_column(bodies: Iterable[bytes]) -> dict[str, pa.Array]:
    return {"body": pa.array([*bodies], SEND_SCHEMA.field("body").type)}


class PendingBatches(Generic[P]):
    """Batches that may not be durable yet, each with the place in the source's log that is durable with it."""

    def __init__(self, durable: Callable[[P], None]) -> None:
        self._durable = durable
        self._pending: deque[tuple[BatchReceipt | None, P | None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._pending)

    @property
    def last_place(self) -> P | None:
        return self._pending[-1][1] if self._pending else None

    def add(self, receipt: BatchReceipt | None, place: P | None) -> None:
        """Add a batch. Without a receipt it waits only for earlier ones; without a place it ends amid a transaction."""
        self._pending.append((receipt, place))

    def make_room(self) -> None:
        """Wait for room for one more. Raises the error of a batch that is not durable."""
        while len(self._pending) >= PENDING_BATCHES_MAX:
            self._settle_first()

    def settle(self, *, wait: bool = False) -> None:
        """Check which are durable, or wait for all. Raises the error of a batch that is not."""
        while self._pending and (wait or self._is_first_done()):
            self._settle_first()

    def _is_first_done(self) -> bool:
        receipt, _ = self._pending[0]
        return receipt is None or receipt.done()

    def _settle_first(self) -> None:
        receipt, place = self._pending[0]
        if receipt is not None:
            receipt.result()
        self._pending.popleft()
        if place is not None:
            self._durable(place)

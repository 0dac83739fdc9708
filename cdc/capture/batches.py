"""Batches of messages on their way into the topic, in their order."""

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
    """An event of a source on its way into the topic."""

    @property
    def message_group(self) -> str: ...
    @property
    def tag(self) -> str | None: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    @property
    def op(self) -> str: ...


def batch_columns(messages: Sequence[CaptureMessage], sequences: Iterable[int]) -> dict[str, pa.Array]:
    """The columns that a producer takes, but for the bodies."""
    columns: dict[str, list[object]] = {
        "message_group": [message.message_group for message in messages],
        "tag": [message.tag for message in messages],
        "keys": [message.keys for message in messages],
        "properties": [[("op", message.op)] for message in messages],
        "sequence": [*sequences],
    }
    return {name: pa.array(column, SEND_SCHEMA.field(name).type) for name, column in columns.items()}


def body_column(bodies: Iterable[bytes]) -> dict[str, pa.Array]:
    """The column of the bodies."""
    return {"body": pa.array([*bodies], SEND_SCHEMA.field("body").type)}


class PendingBatches(Generic[P]):
    """Batches that are not known to be durable, each with the place in the source's log before which everything is durable once it is."""

    def __init__(self, durable: Callable[[P], None]) -> None:
        """``durable`` is told such a place."""
        self._durable = durable
        self._pending: deque[tuple[BatchReceipt | None, P | None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._pending)

    @property
    def last_place(self) -> P | None:
        """The place of the last one; None: it has none, or there is no batch."""
        return self._pending[-1][1] if self._pending else None

    def add(self, receipt: BatchReceipt | None, place: P | None) -> None:
        """Take a batch over. Without a receipt it waits only for those before it; without a place it ends amid a transaction."""
        self._pending.append((receipt, place))

    def make_room(self) -> None:
        """Wait until there are few enough for one more. Raises the error of a batch that is not durable."""
        while len(self._pending) >= PENDING_BATCHES_MAX:
            self._settle_first()

    def settle(self, *, wait: bool = False) -> None:
        """Look which are durable by now, or wait until all are. Raises the error of a batch that is not."""
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

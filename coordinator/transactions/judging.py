"""The cells of queues whose messages transactions settle: asked what they say of one, and told when that is noted."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from operator import methodcaller

from ...log.runtime import Runtime
from ..cell_codec import decode_cell
from ..cells import Cells
from ..handles import ForeignReceipt
from ..keys import queue_key
from ..receipts import Receipts
from .acks import Acks, Verdict, ended, verdict


class SettlingQueues:
    """For whoever finishes transactions, beside the owners of the queues."""

    def __init__(self, cells: Cells, runtime: Runtime) -> None:
        self._cells = cells
        self._receipts = Receipts(cells, runtime)

    async def verdict(self, transaction: str, acks: Acks) -> Verdict:
        """What the queue's cell says, which is to be noted in the transaction's row only if that is still open. Raises what the table raises."""
        key = _key(acks)
        stored = await self._cells.read(key)
        return verdict(None if stored is None else decode_cell(stored.data, where=key), transaction, acks)

    async def end(self, acks: Acks, *, now_ms: int | None) -> None:
        """End those of the deliveries that are due by then (None: all), so that a transaction which is not committed never will be."""
        with suppress(ForeignReceipt):  # there is no cell
            await self._receipts.change(_key(acks), partial(ended, acks=acks, now_ms=now_ms))

    async def forget(self, transaction: str, acks: Acks) -> None:
        """Let the queue's cell forget a transaction. To be called once the transaction's row says that it is committed, and not before."""
        with suppress(ForeignReceipt):
            await self._receipts.change(_key(acks), methodcaller("without_transactions", (transaction,)))


def _key(acks: Acks) -> str:
    return queue_key(acks.group, acks.topic, acks.queue)

"""The consumers' RPCs, and their background work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from ....aio import Lake
from ....log.metrics import Metrics
from ...bounds.receive_budget import ReceiveBudget
from ...topics.directory import TopicDirectory
from ..clients.registry import ClientRegistry
from ..server.rpcs import Rpc, rpc
from .ack_processor import AckProcessor
from .ack_service import AckService
from .deliveries import Deliveries
from .handle_renewer import ROUND_S, HandleRenewer
from .offsets import OffsetService
from .pool import ConsumerPool
from .receive_service import ReceiveService

log = logging.getLogger("penstock.gateway")


class ConsumerService:
    """The RPCs of consumers, from `start` to `close`."""

    def __init__(
        self,
        lake: Lake,
        clients: ClientRegistry,
        names: TopicDirectory,
        *,
        store_host: str,
        is_balanced: bool,
        metrics: Metrics | None = None,
    ) -> None:
        self.pool = ConsumerPool(lake, names, metrics)
        self.budget = ReceiveBudget()
        self.deliveries = Deliveries(is_balanced=is_balanced)
        acks = AckProcessor(self.deliveries)
        self.renewer = HandleRenewer(self.pool, self.deliveries, acks, clients, lake.runtime.clock)
        self._acks = AckService(self.pool, self.deliveries, acks)
        self._receives = ReceiveService(self.pool, self.deliveries, acks, self.renewer, self.budget, lake.runtime.clock, store_host)
        self._offsets = OffsetService(lake, names, self.budget, store_host)
        self._rounds: asyncio.Task[None] | None = None

    def rpcs(self) -> Iterable[Rpc]:
        yield rpc("ReceiveMessage", self._receives.receive_message)
        yield rpc("AckMessage", self._acks.ack_message)
        yield rpc("ChangeInvisibleDuration", self._acks.change_invisible_duration)
        yield rpc("ForwardMessageToDeadLetterQueue", self._acks.forward_message_to_dead_letter_queue)
        yield rpc("PullMessage", self._offsets.pull_message)
        yield rpc("QueryOffset", self._offsets.query_offset)
        yield rpc("GetOffset", self._offsets.get_offset)
        yield rpc("UpdateOffset", self._offsets.update_offset)

    async def start(self) -> None:
        self._rounds = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            try:
                await self.renewer.round()
            except Exception:
                log.exception("a round of renewals failed; the next is in %g s", ROUND_S)
            self.pool.sweep()

    def end_polls(self) -> None:
        """End all waits, as the gateway stops."""
        self._receives.end_polls()

    async def close(self) -> None:
        """Hand the queues over to other gateways. Deliveries stay their clients'."""
        if self._rounds is not None:
            self._rounds.cancel()
            with suppress(asyncio.CancelledError):
                await self._rounds
        await self._receives.close()
        await self.renewer.close()
        await self.pool.close()

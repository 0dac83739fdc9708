"""The renewal of push consumers' deliveries, as long as the consumers live."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from typing import Any, Final

from ....coordinator import AlreadySettled, ReceiptRefused
from ....log import PenstockError
from ....log.runtime.runtime import Clock
from ..clients.registry import LOST_S, AdoptionScans, ClientRegistry, GatewayClient, Send
from ..protocol.status import StatusError
from .ack_processor import AckProcessor
from .deliveries import INVISIBLE_DURATION_S, Deliveries, GroupTopicKey, HandleRun
from .pool import ConsumerPool, PooledConsumer
from .receive_parameters import INVISIBLE_DURATION

log = logging.getLogger("penstock.gateway")

ROUND_S: Final = 5.0
GIVEN_UP: Final = timedelta(seconds=1)
"""The time until a gone client's messages become visible."""
_SILENT_S: Final = 12.0
"""A client without a stream is gone after this silence: live ones send a heartbeat each 10 s."""


class HandleRenewer:
    """Renewals by receipt handle, also of queues that another process owns."""

    def __init__(
        self, pool: ConsumerPool, deliveries: Deliveries, acks: AckProcessor, clients: ClientRegistry, clock: Clock
    ) -> None:
        self._pool = pool
        self._deliveries = deliveries
        self._acks = acks
        self._clients = clients
        self._clock = clock
        self._streams: dict[str, Send] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_looking = False
        self._look_once_more = False
        clients.on_lost.append(self._on_lost)
        clients.on_change.append(self._on_change)

    async def adopt(self, pooled: PooledConsumer, client_id: str, peer: str, *, is_renewed: bool) -> None:
        """Go on for a client on a new connection with other gateways' deliveries. ``is_renewed``: its messages stay invisible as long as it lives;
        otherwise only their queues are noted.
        """
        client = self._clients.get(client_id)
        if client is None:  # it said goodbye beside this call
            return
        looked = client.adoption_scans.setdefault(pooled.place, AdoptionScans())
        looked.used_s, looked.is_renewed = self._clock.monotonic_s(), is_renewed
        asked = looked.by_peer.get(peer)
        if asked is None:
            asked = self._start(self._adopt(pooled, [client_id], is_renewed=is_renewed))
            looked.note(peer, asked)
        await asyncio.shield(asked)

    async def _adopt(self, pooled: PooledConsumer, client_ids: Sequence[str], *, is_renewed: bool) -> None:
        now_s, now_ms = self._clock.monotonic_s(), self._clock.wall_ms()
        for delivered in await pooled.consumer.deliveries(*client_ids):
            if not is_renewed:
                continue
            due_s = now_s + delivered.due.timestamp() - now_ms / 1000
            count = self._deliveries.adopt(
                delivered.holder, pooled.place, delivered.messages, in_order=pooled.in_order, now_s=now_s, due_s=due_s
            )
            if count:
                log.info("%d messages of topic %s are renewed on for client %s", count, pooled.topic, delivered.holder)

    def adopt_all(self) -> None:
        """Go on for all push consumers here with the deliveries of gateways that may be gone. A live one is not disturbed: both renew."""
        self._look_once_more = True
        if not self._is_looking:
            self._is_looking = True
            self._start(self._look())

    async def _look(self) -> None:
        try:
            while self._look_once_more:
                self._look_once_more = False
                await asyncio.gather(*(self._look_through(place, ids) for place, ids in self._pollers().items()))
                await self.round()
        finally:
            self._is_looking = False

    def _pollers(self) -> dict[GroupTopicKey, list[str]]:
        after_s = self._clock.monotonic_s() - LOST_S
        found: defaultdict[GroupTopicKey, list[str]] = defaultdict(list)
        for client in self._clients.all():
            for place, looked in client.adoption_scans.items():
                if looked.is_renewed and looked.used_s >= after_s:
                    found[place].append(client.id)
        return found

    async def _look_through(self, place: GroupTopicKey, client_ids: Sequence[str]) -> None:
        try:
            async with self._pool.of(*place) as pooled:
                await self._adopt(pooled, client_ids, is_renewed=True)
        except (StatusError, PenstockError) as error:
            log.warning(
                "a gateway may be gone, and what it gave of topic %s to group %s was not looked for: %s", place[1], place[0], error
            )

    async def renew(self, handles: Iterable[str]) -> None:
        """Renew a repeated receive at once, as the sign to other gateways that it arrived here."""
        await asyncio.gather(*(self._renew(place, runs) for place, runs in self._deliveries.runs(handles).items()))

    def _on_change(self, client: GatewayClient) -> None:
        """A client's stream is new, or its connection broke."""
        before = self._streams.pop(client.id, None)
        if client.send is not None:
            self._streams[client.id] = client.send
        if before is not None and client.send is not before:
            self._deliveries.on_stream_end(client.id, self._clock.monotonic_s())

    async def round(self) -> None:
        """Renew due handles, and find gone clients."""
        self._clients.extend_after_pause()
        now_s = self._clock.monotonic_s()
        for client_id in self._deliveries.clients():
            client = self._clients.get(client_id)
            if client is None:
                self._deliveries.end_client(client_id)
            elif client.client_type and client.send is None and now_s - client.seen_s > _SILENT_S:
                if self._deliveries.is_balanced:  # it may live at another gateway
                    self._deliveries.end_client(client_id)
                else:
                    self._release(client_id)
        await asyncio.gather(*(self._renew(place, due) for place, due in self._deliveries.due(now_s).items()))

    async def _renew(self, place: GroupTopicKey, due: Sequence[HandleRun]) -> None:
        try:
            async with self._pool.of(*place) as pooled:
                await asyncio.gather(*(self._renew_first(pooled, handles) for handles in due))
        except (StatusError, PenstockError) as error:
            log.warning("what is out of topic %s to group %s was not renewed: %s", place[1], place[0], error)

    async def _renew_first(self, pooled: PooledConsumer, handles: HandleRun) -> None:
        for handle in handles:
            if (client_id := self._deliveries.client_of(handle)) is None:  # settled meanwhile
                continue
            due_s = self._clock.monotonic_s() + INVISIBLE_DURATION_S
            try:
                await pooled.consumer.change_invisible_duration(handle, INVISIBLE_DURATION, holder=client_id)
            except AlreadySettled:  # beside this gateway
                self._deliveries.forget(handle)
                await self._acks.ack_next(pooled, handle)
            except ReceiptRefused:  # or let go, or given to another
                self._deliveries.forget(handle)
            else:
                self._deliveries.mark_renewed(handle, due_s)
                return

    def _on_lost(self, client: GatewayClient) -> None:
        """Messages of a client that ended become visible soon. A silent one may live at another gateway, so its messages keep their time."""
        self._streams.pop(client.id, None)
        if self._clock.monotonic_s() - client.seen_s < _SILENT_S:
            self._release(client.id)
        else:
            self._deliveries.end_client(client.id)

    def _release(self, client_id: str) -> None:
        for (group, topic), held in self._deliveries.end_client(client_id).items():
            self._start(self.give_back(group, topic, held, holder=client_id))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def give_back(self, group: str, topic: str, held: Sequence[HandleRun], *, holder: str | None = None) -> None:
        """Make messages visible soon, or after a failure at the end of their time.

        ``holder``: the client that held them. Messages that it let go at another gateway are left out.
        """
        for handle in chain.from_iterable(held):
            self._deliveries.forget(handle)
        with suppress(StatusError, PenstockError):
            async with self._pool.of(group, topic) as pooled:
                await asyncio.gather(*(_give_back(pooled, handles, holder) for handles in held))

    async def close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _give_back(pooled: PooledConsumer, handles: HandleRun, holder: str | None) -> None:
    for handle in handles:
        try:
            await pooled.consumer.change_invisible_duration(handle, GIVEN_UP, holder=holder)
        except ReceiptRefused:
            continue  # it was settled or let go beside this gateway, and those behind it were not
        except PenstockError:
            return
        return

"""ReceiveMessage: gives messages as a stream, the status first."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, Final

from ....log import MessageView
from ....log.runtime.runtime import Clock
from ...bounds.receive_budget import ReceiveBudget
from ..protocol import rocketmq_pb2 as pb
from ..protocol.resources import group_of, topic_of
from ..protocol.status import ok, status
from ..server.calls import RpcCall
from .ack_processor import AckProcessor
from .deliveries import Deliveries, SentReceive, handle_runs
from .filters import filter_of
from .handle_renewer import HandleRenewer
from .messages import delivered_at, message_of
from .pool import ConsumerPool, PooledConsumer
from .receive_parameters import ReceiveParameters, receive_parameters_of

log = logging.getLogger("penstock.gateway")

_AT_ONCE: Final = timedelta(0)
_Receive = Callable[..., Coroutine[Any, Any, list[MessageView]]]


class ReceiveService:
    """Answers ReceiveMessage."""

    def __init__(
        self,
        pool: ConsumerPool,
        deliveries: Deliveries,
        acks: AckProcessor,
        renewer: HandleRenewer,
        budget: ReceiveBudget,
        clock: Clock,
        store_host: str,
    ) -> None:
        self._clock = clock
        self._pool = pool
        self._deliveries = deliveries
        self._acks = acks
        self._renewer = renewer
        self._budget = budget
        self._store_host = store_host
        self._undoing: set[asyncio.Task[None]] = set()
        self._polls: set[asyncio.Task[Any]] = set()
        """The tasks of calls that wait for messages."""
        self._numbers = itertools.count()
        self._stopping = False

    async def receive_message(self, request: pb.ReceiveMessageRequest, call: RpcCall) -> AsyncIterator[pb.ReceiveMessageResponse]:
        group, resource = group_of(request.group), request.message_queue.topic
        topic = topic_of(resource)
        wanted = receive_parameters_of(request, call.remaining_s)
        until_s = float("inf") if call.remaining_s is None else self._clock.monotonic_s() + call.remaining_s
        async with self._pool.of(group, topic, filter_of(request.filter_expression)) as pooled:
            with self._budget.hold_poll(call):
                received, sent = await self._receive(pooled, wanted, call, until_s)
            is_whole = False
            try:
                messages = await self._acks.without_settled(pooled, received)
                if messages:
                    with self._budget.hold_messages(call, messages):
                        yield pb.ReceiveMessageResponse(status=ok())
                        for view in messages:
                            yield pb.ReceiveMessageResponse(message=self._message(view, resource, pooled, wanted))
                        yield delivered_at(self._clock.wall_ms())
                else:
                    yield pb.ReceiveMessageResponse(status=status(pb.MESSAGE_NOT_FOUND, "no new message"))
                is_whole = True
            finally:
                if sent is not None and is_whole:
                    sent.mark_written(self._clock.monotonic_s())
                elif sent is not None and wanted.attempt_id is not None:
                    self._deliveries.mark_broken(sent, self._clock.monotonic_s())
                elif not is_whole and received and wanted.attempt_id is None:
                    held = handle_runs(received, in_order=pooled.in_order)
                    self._later(self._renewer.give_back(pooled.group, pooled.topic, held))

    def _message(self, view: MessageView, resource: pb.Resource, pooled: PooledConsumer, wanted: ReceiveParameters) -> pb.Message:
        return message_of(
            view,
            resource,
            pooled.topic_type,
            store_host=self._store_host,
            invisible=wanted.invisible,
            attempts_max=pooled.settings.max_attempts,
        )

    async def _receive(
        self, pooled: PooledConsumer, wanted: ReceiveParameters, call: RpcCall, until_s: float
    ) -> tuple[list[MessageView], SentReceive | None]:
        """The messages, and for a push consumer the receive to be confirmed."""
        if not wanted.is_named:
            return await self._poll(partial(pooled.consumer.receive, wanted.most, wanted.invisible), wanted), None
        client_id = call.client
        attempt_id = wanted.attempt_id or f"\0{next(self._numbers)}"  # one that is not named is repeated never
        if wanted.is_renewed:
            lost = self._deliveries.on_request(client_id, pooled.place, attempt_id, call.peer, self._clock.monotonic_s())
            if lost:
                log.info("%d messages of topic %s did not reach client %s, and become visible", len(lost), pooled.topic, client_id)
        await self._renewer.adopt(pooled, client_id, call.peer, is_renewed=wanted.is_renewed)
        receive = partial(pooled.consumer.receive, wanted.most, wanted.invisible, attempt_id=wanted.attempt_id, holder=client_id)
        messages = await self._poll(receive, wanted)
        if not messages or not wanted.is_renewed:
            return messages, None
        sent = self._deliveries.add_receive(
            client_id,
            pooled.place,
            attempt_id,
            call.peer,
            messages,
            in_order=pooled.in_order,
            now_s=self._clock.monotonic_s(),
            until_s=until_s,
        )
        if sent.is_repeated:
            try:
                await self._renewer.renew(sent.handles)
            except asyncio.CancelledError:
                self._deliveries.mark_broken(sent, self._clock.monotonic_s())
                raise
        return messages, sent

    async def _poll(self, receive: _Receive, wanted: ReceiveParameters) -> list[MessageView]:
        """The messages. A stop of the gateway ends the wait.

        The stop cancels the call's own task, as the end of a timeout does: a task of its own would cost each receive some turns of the event loop.
        """
        if not self._stopping:
            caller = asyncio.current_task()
            assert caller is not None, "a call has a task"
            self._polls.add(caller)
            try:
                return await receive(await_duration=wanted.poll)
            except asyncio.CancelledError:
                if not self._stopping or caller.uncancel():
                    raise
            finally:
                self._polls.discard(caller)
        # What is out to this attempt id is given all the same. After an empty answer the client would not ask for it again.
        return await receive(await_duration=_AT_ONCE) if wanted.is_named else []

    def end_polls(self) -> None:
        """Answer waiting polls: their clients go on at another gateway."""
        self._stopping = True
        for poll in self._polls:
            poll.cancel()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)

    async def close(self) -> None:
        """Return when work after calls has ended."""
        await asyncio.gather(*self._undoing, return_exceptions=True)

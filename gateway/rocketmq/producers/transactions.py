"""Transactions: half messages, their ends, and check-backs.

RocketMQ's clients name no producer group: the topic's name stands for it. Any gateway can end a transaction by its id; the one that began it is only
quicker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from ....aio import Checking, Lake, Transaction
from ....coordinator import CheckedTransaction, TransactionResolution
from ....coordinator.transactions.errors import TransactionEnded, TransactionNotFound
from ....coordinator.transactions.members.state import Decider, Decision
from ....log import InvalidArgument, Message, MessageView
from ...access.refusals import Forbidden, Unauthorized
from ..clients.registry import ClientRegistry, GatewayClient
from ..protocol import rocketmq_pb2 as pb
from ..protocol.digests import digest_of
from ..protocol.handles import check_transaction, no_transaction
from ..protocol.resources import topic_of
from ..protocol.status import ClientGone, StatusError, ok
from ..server.calls import RpcCall
from ..server.rpcs import Rpc, rpc

log = logging.getLogger("penstock.gateway")

_REMEMBERED_MAX: Final = 10_000
"""The most own transactions that are remembered."""


class GatewayTransactions:
    """Begins, ends and checks transactions."""

    def __init__(self, lake: Lake, clients: ClientRegistry, *, first_check: timedelta) -> None:
        self._lake = lake
        self._clients = clients
        self._first_check = first_check
        self._begun: OrderedDict[str, Transaction] = OrderedDict()
        self._checkings: dict[str, Checking] = {}
        self._ends: set[asyncio.Task[None]] = set()
        self._turn = 0
        clients.on_change.append(self._on_change)
        clients.on_lost.append(self._on_change)

    def rpcs(self) -> Iterable[Rpc]:
        yield rpc("EndTransaction", self.end_transaction)

    async def begin(self, topic: str, sent: pb.Message, message: Message) -> str:
        """The id of a new transaction, once its half message is durable."""
        asked = sent.system_properties.orphaned_transaction_recovery_duration
        first_check = timedelta(seconds=asked.seconds) if asked.seconds else self._first_check
        transaction = Transaction(self._lake.transactions, topic, first_check=first_check)
        await transaction.send(topic, message)
        assert transaction.id is not None, "given by its send"
        self._begun[transaction.id] = transaction
        if len(self._begun) > _REMEMBERED_MAX:
            self._begun.popitem(last=False)
        return transaction.id

    async def end_transaction(self, request: pb.EndTransactionRequest, call: RpcCall) -> pb.EndTransactionResponse:
        topic = topic_of(request.topic)
        if not request.transaction_id:
            raise StatusError(pb.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
        match request.resolution:
            case pb.COMMIT:
                decision = Decision.COMMITTED
            case pb.ROLLBACK:
                decision = Decision.ROLLED_BACK
            case _:  # the sender does not know either, and is asked again
                return pb.EndTransactionResponse(status=ok())
        try:
            await self._end(topic, request.transaction_id, decision)
        except (TransactionEnded, TransactionNotFound, InvalidArgument) as error:
            raise StatusError(pb.INVALID_TRANSACTION_ID, str(error)) from None
        return pb.EndTransactionResponse(status=ok())

    async def _end(self, topic: str, id: str, decision: Decision) -> None:
        transaction = self._begun.get(id)
        if transaction is None:
            try:
                group, row = await self._lake.transactions.find(id)
            except TransactionNotFound:
                raise no_transaction(id, topic=topic) from None
            check_transaction(id, group, (one.topic for one in row.destinations), topic=topic)
            await self._lake.transactions.decide(id, decision, Decider.CHECKER)
            await self._lake.transactions.finish(id)
            return
        check_transaction(id, transaction.producer_group, (), topic=topic)
        if decision is Decision.COMMITTED:
            await transaction.commit()
        else:
            await transaction.rollback()

    # --- Check-backs ------------------------------------------------------------------------------------------------------------

    def _on_change(self, client: GatewayClient) -> None:
        """Answer for the topics of producers with an open stream here only."""
        for topic in client.topics | self._checkings.keys():
            asks, known = bool(self._clients.producers_of(topic)), self._checkings.get(topic)
            if asks and known is None and not self._lake.checks(topic):
                self._checkings[topic] = self._lake.check_transactions(topic, self._ask)
            elif not asks and known is not None:
                self._let_go(topic, known)

    def _let_go(self, topic: str, checking: Checking) -> None:
        del self._checkings[topic]
        task = asyncio.ensure_future(checking.close())
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _ask(self, transaction: CheckedTransaction) -> TransactionResolution:
        """Send a check-back to one of the topic's producers. Its answer comes as a call of its own, to any gateway.

        Messages for other topics, of a native producer group of that name, are not shown: the clients' rights are unknown.
        """
        topic = transaction.producer_group
        if not transaction.messages or any(one.topic != topic for one in transaction.messages):
            return TransactionResolution.UNKNOWN
        asked = question(transaction.id, transaction.messages[0])
        for client in self._in_turn(self._clients.producers_of(topic)):
            if await self._is_asked(client, asked):
                break
        return TransactionResolution.UNKNOWN

    async def _is_asked(self, client: GatewayClient, asked: pb.TelemetryCommand) -> bool:
        """Whether the check-back was sent. The client's right or stream may have ended."""
        if client.send is None:
            return False
        try:
            await client.send(asked)
        except (StatusError, Unauthorized, Forbidden, ClientGone) as error:
            log.info(
                "client %s is not asked about transaction %s: %s",
                client.id,
                asked.recover_orphaned_transaction_command.transaction_id,
                error,
            )
            return False
        return True

    def _in_turn(self, clients: list[GatewayClient]) -> list[GatewayClient]:
        self._turn += 1
        start = self._turn % len(clients) if clients else 0
        return [*clients[start:], *clients[:start]]


def question(transaction: str, half: MessageView) -> pb.TelemetryCommand:
    body = half.content
    system = pb.SystemProperties(
        tag=half.tag,
        keys=half.keys,
        message_id=half.message_id,
        message_type=pb.TRANSACTION,
        body_encoding=pb.IDENTITY,
        body_digest=digest_of(body),
    )
    system.born_timestamp.FromDatetime(half.born_timestamp)
    message = pb.Message(topic=pb.Resource(name=half.topic), user_properties=half.properties, system_properties=system, body=body)
    asked = pb.RecoverOrphanedTransactionCommand(message=message, transaction_id=transaction)
    return pb.TelemetryCommand(recover_orphaned_transaction_command=asked)

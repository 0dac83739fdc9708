"""Clients' handles and ids, compared with their request's topic and group. Pure.

Rights are checked for a request's topic and group, but a handle or id names its own. So one of others is refused here, whatever its sender's rights.
No RPC decodes a handle in any other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from google.protobuf.message import Message

from ....coordinator.queues.receipt_handle import ReceiptHandle
from ....log import InvalidArgument
from ....log.produce.delays import RecallHandle
from . import rocketmq_pb2 as pb
from .status import StatusError


def receipt_of(text: str, *, group: str, topic: str) -> ReceiptHandle:
    """Raises `StatusError` unless it is a delivery of this topic and group."""
    try:
        handle = ReceiptHandle.decode(text)
    except InvalidArgument as error:
        raise StatusError(pb.INVALID_RECEIPT_HANDLE, str(error)) from None
    if handle.topic != topic:
        raise StatusError(pb.INVALID_RECEIPT_HANDLE, f"the receipt handle is of topic {handle.topic}, and not of {topic}")
    if handle.group != group:
        raise StatusError(pb.INVALID_RECEIPT_HANDLE, f"the receipt handle is of consumer group {handle.group}, and not of {group}")
    return handle


def recall_of(text: str, *, topic: str) -> RecallHandle:
    """Raises `StatusError` unless it waits for this topic."""
    if not text:
        raise StatusError(pb.BAD_REQUEST, "recall handle is blank")
    try:
        handle = RecallHandle.decode(text)
    except InvalidArgument as error:
        raise StatusError(pb.BAD_REQUEST, str(error)) from None
    if handle.topic != topic:
        raise StatusError(pb.BAD_REQUEST, f"the recall handle is of topic {handle.topic}, and not of {topic}")
    return handle


def check_transaction(id: str, producer_group: str, destinations: Iterable[str], *, topic: str) -> None:
    """Raise `StatusError` unless a transaction is of this topic alone, and its producer group has the topic's name. The text does not reveal a
    transaction elsewhere.
    """
    if producer_group != topic or set(destinations) - {topic}:
        raise no_transaction(id, topic=topic)


def no_transaction(id: str, *, topic: str) -> StatusError:
    """Foreign and unknown transactions are refused alike."""
    return StatusError(pb.INVALID_TRANSACTION_ID, f"topic {topic} has no transaction {id}")


# --- For people ---------------------------------------------------------------------------------------------------------------

_TOLD_MAX: Final = 32
_CHARS_MAX: Final = 128


def ids_of(request: Message) -> list[str]:
    """Messages, deliveries and transactions of a request, for the audit log."""
    told = _IDS.get(type(request))
    return [] if told is None else [text[:_CHARS_MAX] for text in told(request) if text]


def _of_delivery(named: Any) -> list[str]:  # noqa: ANN401 - one of several requests, or an entry
    try:
        where = ReceiptHandle.decode(named.receipt_handle).where
    except InvalidArgument:
        where = named.receipt_handle
    return [named.message_id, where]


def _of_recall(request: pb.RecallMessageRequest) -> list[str]:
    try:
        return [RecallHandle.decode(request.recall_handle).message_id]
    except InvalidArgument:
        return [request.recall_handle]


_IDS: Final[dict[type[Message], Callable[[Any], Iterable[str]]]] = {
    pb.SendMessageRequest: lambda request: [one.system_properties.message_id for one in request.messages[:_TOLD_MAX]],
    pb.EndTransactionRequest: lambda request: [request.transaction_id, request.message_id],
    pb.RecallMessageRequest: _of_recall,
    pb.AckMessageRequest: lambda request: [text for one in request.entries[:_TOLD_MAX] for text in _of_delivery(one)],
    pb.ChangeInvisibleDurationRequest: _of_delivery,
    pb.ForwardMessageToDeadLetterQueueRequest: _of_delivery,
}

"""Handles and ids that clients send, compared with the topic and group of their request. Pure.

Rights are asked for by a request's topic and group. What is acted on is named by a handle or an id, which knows its own topic and group: a
request whose handle is of others is refused here, whatever its sender may do there. No RPC decodes a handle in any other way.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...coordinator.queues.receipt_handle import ReceiptHandle
from ...log import InvalidArgument
from ...log.produce.delays import RecallHandle
from . import rocketmq_pb2 as pb
from .status import Refused


def receipt_of(text: str, *, group: str, topic: str) -> ReceiptHandle:
    """The delivery that a receipt handle names. Raises `Refused` unless it is one of this topic to this group."""
    try:
        handle = ReceiptHandle.decode(text)
    except InvalidArgument as error:
        raise Refused(pb.INVALID_RECEIPT_HANDLE, str(error)) from None
    if handle.topic != topic:
        raise Refused(pb.INVALID_RECEIPT_HANDLE, f"the receipt handle is of topic {handle.topic}, and not of {topic}")
    if handle.group != group:
        raise Refused(pb.INVALID_RECEIPT_HANDLE, f"the receipt handle is of consumer group {handle.group}, and not of {group}")
    return handle


def recall_of(text: str, *, topic: str) -> RecallHandle:
    """The waiting message that a recall handle names. Raises `Refused` unless it waits for this topic."""
    if not text:
        raise Refused(pb.BAD_REQUEST, "recall handle is blank")
    try:
        handle = RecallHandle.decode(text)
    except InvalidArgument as error:
        raise Refused(pb.BAD_REQUEST, str(error)) from None
    if handle.topic != topic:
        raise Refused(pb.BAD_REQUEST, f"the recall handle is of topic {handle.topic}, and not of {topic}")
    return handle


def check_transaction(id: str, producer_group: str, destinations: Iterable[str], *, topic: str) -> None:
    """Raise `Refused` unless a transaction is one of this topic's senders, and of no other topic beside.

    SDKs name no producer group, so theirs is the topic's name. The text does not tell whether there is such a transaction elsewhere.
    """
    if producer_group != topic or set(destinations) - {topic}:
        raise Refused(pb.INVALID_TRANSACTION_ID, f"topic {topic} has no transaction {id}")

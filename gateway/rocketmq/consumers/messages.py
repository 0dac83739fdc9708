"""Messages for consumers. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from ....log import MessageType, MessageView
from ..protocol import rocketmq_pb2 as pb
from ..protocol.digests import digest_of
from ..protocol.headers import BORN_HOST, TRACE_CONTEXT

_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_IDENTITY: Final = pb.IDENTITY


def message_of(
    view: MessageView,
    resource: pb.Resource,
    topic_type: MessageType,
    *,
    store_host: str,
    invisible: timedelta | None = None,
    attempts_max: int | None = None,
) -> pb.Message:
    """``resource`` is the topic as the client names it, ``topic_type`` what the topic takes.

    ``attempts_max``: the last attempt for SDKs. More follow for a message that was out with an earlier one of its message group, when that one was
    given up. SDKs dead-letter a message with a missing or wrong digest of its body, or fail.
    """
    body = view.content
    properties = pb.SystemProperties(
        message_id=view.message_id,
        body_digest=digest_of(body),
        body_encoding=_IDENTITY,
        message_type=_type_of(view, topic_type),
        store_host=store_host,
        queue_id=view.queue,
        queue_offset=view.offset,
        delivery_attempt=view.delivery_attempt if attempts_max is None else min(view.delivery_attempt, attempts_max),
        keys=view.keys,
    )
    _set(properties.born_timestamp, view.born_timestamp)
    _set(properties.store_timestamp, view.store_timestamp)
    if view.tag is not None:
        properties.tag = view.tag
    if view.message_group is not None:
        properties.message_group = view.message_group
    if view.delivery_timestamp is not None:
        _set(properties.delivery_timestamp, view.delivery_timestamp)
    if view.receipt_handle:
        properties.receipt_handle = view.receipt_handle
    if invisible is not None:
        properties.invisible_duration.FromTimedelta(invisible)
    if view.headers:
        _add_headers(properties, view)
    if _ORIGIN_TOPIC in view.properties:
        properties.dead_letter_queue.topic = view.properties[_ORIGIN_TOPIC]
        properties.dead_letter_queue.message_id = view.properties.get(_ORIGIN_MESSAGE_ID, "")
    return pb.Message(topic=resource, user_properties=view.properties, system_properties=properties, body=body)


def _set(timestamp: Timestamp, moment: datetime) -> None:
    """A ``FromDatetime`` at a sixth of its cost."""
    since = moment - _EPOCH
    timestamp.seconds, timestamp.nanos = since.days * 86_400 + since.seconds, since.microseconds * 1_000


def _add_headers(properties: pb.SystemProperties, view: MessageView) -> None:
    for name, value in view.headers:
        if value is None:
            continue
        if name == BORN_HOST:
            properties.born_host = value.decode(errors="replace")
        elif name == TRACE_CONTEXT:
            properties.trace_context = value.decode(errors="replace")


def _type_of(view: MessageView, topic_type: MessageType) -> pb.MessageType:
    if view.message_group is not None:
        return pb.FIFO
    if view.delivery_timestamp is not None:
        return pb.DELAY
    return pb.TRANSACTION if topic_type is MessageType.TRANSACTION else pb.NORMAL


def delivered_at(wall_ms: int) -> pb.ReceiveMessageResponse:
    """The last frame of an answer: its time."""
    frame = pb.ReceiveMessageResponse()
    frame.delivery_timestamp.FromMilliseconds(wall_ms)
    return frame

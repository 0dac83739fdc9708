"""Messages for tests of listeners."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from penstock.log import InvalidArgument, Message, MessageView, TopicLimits
from penstock.log.limits import StringList
from penstock.log.message.message import Header, check_message, frozen


def message(
    body: bytes | None = b"",
    *,
    message_group: str | None = None,
    tag: str | None = None,
    keys: StringList = (),
    properties: Mapping[str, str] | None = None,
    value: Mapping[str, Any] | None = None,
    key: bytes | None = None,
    headers: Sequence[Header] = (),
    topic: str = "test",
    queue: int = 0,
    offset: int = 0,
    message_id: str | None = None,
    born_timestamp: datetime | None = None,
    store_timestamp: datetime | None = None,
    delivery_timestamp: datetime | None = None,
    producer: str = "test",
    delivery_attempt: int = 1,
    epoch: int = 1,
    receipt_handle: str = "",
) -> MessageView:
    """A message as a listener gets it, of no lake.

    The arguments are what a `MessageView` has. ``value`` is the row of a message in a typed topic, which then has no body; ``body=None`` is a
    tombstone. By default the id is a new one and both times are the present; a given ``born_timestamp`` is the ``store_timestamp`` too.

    Raises `InvalidArgument` or `LimitExceeded` for what ``send`` would refuse with the default limits, and for a body beside a ``value``.
    """
    if value is not None and body:
        raise InvalidArgument("a message with a value has no body", operation="message", observed="both")
    sent = Message(
        body if value is None else None,
        message_group,
        tag,
        keys,
        properties or {},
        delivery_timestamp,
        None,
        key,
        headers,
        value,
        message_id,
    )
    check_message(sent, sent.message_type, TopicLimits())
    sent = frozen(sent)
    born = datetime.now(UTC) if born_timestamp is None else born_timestamp
    return MessageView(
        topic=topic,
        queue=queue,
        offset=offset,
        message_id=uuid.uuid4().hex if sent.message_id is None else sent.message_id,
        message_group=sent.message_group,
        tag=sent.tag,
        keys=tuple(sent.keys),
        properties=dict(sent.properties),
        body=sent.body,
        born_timestamp=born,
        store_timestamp=born if store_timestamp is None else store_timestamp,
        delivery_timestamp=delivery_timestamp,
        producer=producer,
        key=sent.key,
        headers=tuple(sent.headers),
        value=None if value is None else dict(value),
        delivery_attempt=delivery_attempt,
        epoch=epoch,
        receipt_handle=receipt_handle,
    )

"""Clients' messages as Penstock's, with RocketMQ's checks in its order and words. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from ....log import Message, TopicSettings
from ..clients.routes import accepted_types
from ..protocol import rocketmq_pb2 as pb
from ..protocol.digests import checksum
from ..protocol.headers import BORN_HOST, TRACE_CONTEXT
from ..protocol.status import StatusError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ID_CHARS_MAX: Final = 128
_RECOVERY_S_MAX: Final = 3600
_GZIP_OR_ZLIB: Final = 47
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_TIME_MAX_S: Final = 253_402_300_799
"""The end of the year 9999."""
_OF_THE_SYSTEM: Final = frozenset(
    {
        *("KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "MIN_OFFSET"),
        *("MAX_OFFSET", "BUYER_ID", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME"),
        *("MSG_REGION", "TRACE_ON", "UNIQ_KEY", "EXTEND_UNIQ_INFO", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "POP_CK"),
        *("POP_CK_OFFSET", "FIRST_POP_TIME", "TRAN_PREPARED_QUEUE_OFFSET", "DUP_INFO", "CHECK_IMMUNITY_TIME_IN_SECONDS"),
        *("TRANSACTION_PREPARED_QUEUE_OFFSET", "__SHARDINGKEY", "INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"),
        *("ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"),
        *("TRACE_CONTEXT", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"),
        *("TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY", "__BORNHOST", "BORN_TIMESTAMP"),
    }
)
"""The property names that RocketMQ reserves."""


def message_of(sent: pb.Message, settings: TopicSettings, *, now_ms: int) -> Message:
    """A row for a schema is still the body. Raises `StatusError` with the codes and words of RocketMQ's own servers."""
    system, limits = sent.system_properties, settings.limits
    body = _body(sent, limits.max_body_bytes)
    size_bytes = _checked_properties(sent.user_properties, limits.max_properties)
    size_bytes += _checked_labels(system)
    if not system.message_id or system.message_id.isspace():
        raise StatusError(pb.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    if len(system.message_id) > _ID_CHARS_MAX or not _is_plain(system.message_id):
        raise StatusError(pb.ILLEGAL_MESSAGE_ID, f"message id must be at most {_ID_CHARS_MAX} visible ASCII characters")
    if system.HasField("orphaned_transaction_recovery_duration"):
        _check_recovery(system.orphaned_transaction_recovery_duration.seconds)
    due = _due(system, limits.max_delay, now_ms) if system.HasField("delivery_timestamp") else None
    group = _group(system.message_group, limits.max_message_group_bytes) if system.message_group else None
    if size_bytes > limits.max_properties_bytes:
        raise StatusError(
            pb.MESSAGE_PROPERTIES_TOO_LARGE, f"the total size of user property is too large, max is {limits.max_properties_bytes}"
        )
    _check_type(system, settings, due=due, group=group)
    return Message(
        body,
        message_group=group,
        tag=system.tag or None,
        keys=tuple(system.keys),
        properties=dict(sent.user_properties),
        delivery_timestamp=due,
        headers=_headers(system),
        message_id=system.message_id,
    )


def _body(sent: pb.Message, most: int) -> bytes:
    body = sent.body
    if len(body) <= most and sent.system_properties.HasField("body_digest"):
        _check_digest(body, sent.system_properties.body_digest)
    if sent.system_properties.body_encoding == pb.GZIP and len(body) <= most:
        body = _unpack(body, most)
    if not body:
        raise StatusError(pb.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(body) > most:
        raise StatusError(pb.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {most}")
    return body


def _check_digest(body: bytes, stated: pb.Digest) -> None:
    """The digest is of the sent body, packed or not. Unknown kinds and empty digests pass."""
    if not stated.checksum or (found := checksum(stated.type, body)) is None:
        return
    if found.lstrip("0") != stated.checksum.upper().lstrip("0"):
        kind = pb.DigestType.Name(stated.type)
        raise StatusError(
            pb.MESSAGE_CORRUPTED, f"the body was damaged on its way: its {kind} is {found}, and its sender says {stated.checksum}"
        )


def _unpack(body: bytes, most: int) -> bytes:
    """An unpacked body, up to one byte more than is allowed."""
    unpacking = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        unpacked = unpacking.decompress(body, most + 1)
    except zlib.error as error:
        raise StatusError(pb.MESSAGE_CORRUPTED, f"the body is said to be GZIP, and is not: {error}") from None
    if not unpacking.eof and len(unpacked) <= most:
        raise StatusError(pb.MESSAGE_CORRUPTED, "the body is said to be GZIP, and its end is missing")
    return unpacked


def _checked_properties(properties: Mapping[str, str], most: int) -> int:
    if len(properties) > most:
        raise StatusError(pb.MESSAGE_PROPERTIES_TOO_LARGE, f"too many user properties, max is {most}")
    size_bytes = 0
    for name, value in properties.items():
        if _has_control(name):
            raise StatusError(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, "the key of property cannot contain control character")
        if name in _OF_THE_SYSTEM:
            raise StatusError(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        if _has_control(value):
            raise StatusError(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the value of property {name} cannot contain control character")
        size_bytes += len(name.encode()) + len(value.encode())
    return size_bytes


def _checked_labels(system: pb.SystemProperties) -> int:
    size_bytes = 0
    if system.tag:
        _check_text("tag", system.tag, pb.ILLEGAL_MESSAGE_TAG)
        if "|" in system.tag:
            raise StatusError(pb.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'")
        size_bytes += len(system.tag.encode())
    for key in system.keys:
        _check_text("key", key, pb.ILLEGAL_MESSAGE_KEY)
        size_bytes += len(key.encode())
    return size_bytes


def _group(group: str, most: int) -> str:
    _check_text("message group", group, pb.ILLEGAL_MESSAGE_GROUP)
    if len(group.encode()) > most:
        raise StatusError(pb.ILLEGAL_MESSAGE_GROUP, f"message group exceed the max size {most + 1}")
    return group


def _check_text(what: str, text: str, code: pb.Code) -> None:
    if not text.strip() and not _has_control(text.strip(" ")):
        raise StatusError(code, f"{what} cannot be the char sequence of whitespace")
    if _has_control(text):
        raise StatusError(code, f"{what} cannot contain control character")


def _has_control(text: str) -> bool:
    return _CONTROL.search(text) is not None


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _check_recovery(seconds: int) -> None:
    if not 0 <= seconds <= _RECOVERY_S_MAX:
        raise StatusError(pb.BAD_REQUEST, f"the max transaction recovery time is too large, max is {_RECOVERY_S_MAX} seconds")


def _due(system: pb.SystemProperties, most: timedelta, now_ms: int) -> datetime:
    at = system.delivery_timestamp
    most_ms = most // timedelta(milliseconds=1)
    if at.seconds > _TIME_MAX_S or 1000 * at.seconds + at.nanos // 1_000_000 - now_ms > most_ms:
        raise StatusError(pb.ILLEGAL_DELIVERY_TIME, f"the max delay time of message is too large, max is {most_ms}")
    if at.seconds < 0:
        raise StatusError(pb.ILLEGAL_DELIVERY_TIME, "the delivery time of message is before 1970")
    return _EPOCH + timedelta(seconds=at.seconds, microseconds=at.nanos // 1000)


def type_of(system: pb.SystemProperties) -> pb.MessageType:
    """The type by the message's fields. The stated type counts for transactions alone, as with RocketMQ."""
    if system.message_type == pb.TRANSACTION:
        return pb.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return pb.DELAY
    return pb.FIFO if system.message_group else pb.NORMAL


def _check_type(system: pb.SystemProperties, settings: TopicSettings, *, due: datetime | None, group: str | None) -> None:
    accepted, actual = accepted_types(settings), type_of(system)
    if actual not in accepted or (actual == pb.TRANSACTION and (due is not None or group is not None)):
        found = pb.MessageType.Name(actual)
        extra = "" if actual != pb.TRANSACTION or actual not in accepted else " with a message group or a delivery time"
        raise StatusError(
            pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            f"TopicMessageType validate failed, the expected type is {settings.message_type}, but actual type is {found}{extra}",
        )


def _headers(system: pb.SystemProperties) -> tuple[tuple[str, bytes], ...]:
    given = ((BORN_HOST, system.born_host), (TRACE_CONTEXT, system.trace_context))
    return tuple((name, text.encode()) for name, text in given if text)

"""Half messages: staged like any upload, invisible until a transaction's decision lets one entry link them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..errors import CallError, DataDamaged, InvalidArgument, MessageTypeMismatch
from ..format.digest import digest
from ..format.header import Part
from ..message.batch_rows import BatchRows, MessageIds, rows_of_arrow, rows_of_messages
from ..message.columns import is_extended
from ..message.message import Message, check_message, frozen, labels_bytes
from ..message.message_type import MessageType
from ..message.routing import Router
from ..paths import TopicPaths
from ..schema.topic_schema import TopicSchema
from ..stores.protocol import ObjectInfo, ObjectStore
from ..tail.entry_rows import read_messages
from ..topic.settings import TopicSettings
from .jobs import PART_BYTES, encode_part

MESSAGE_OVERHEAD_BYTES = 128


@dataclass(frozen=True, slots=True)
class HalfFile:
    """Messages of one topic as an object to upload."""

    data: bytes
    rows: Mapping[int, int]
    extended: bool = False

    @property
    def messages(self) -> int:
        return sum(self.rows.values())

    def part(self, paths: TopicPaths, job: str, number: int) -> Part:
        return Part(half_key(paths, job, number).removeprefix(paths.root), 0, self.rows, len(self.data), digest(self.data))


def check_half(message: Message, settings: TopicSettings, *, topic: str) -> tuple[Message, int]:
    """The message as it is now, and its memory. Raises."""
    if MessageType.TRANSACTION not in settings.message_type.taken:
        raise MessageTypeMismatch(
            f"the topic takes {settings.message_type} messages, and this is a TRANSACTION message",
            operation="send in a transaction",
            object=topic,
            expected=settings.message_type,
            observed=MessageType.TRANSACTION,
            hint="send it with a producer, or create a topic of type TRANSACTION",
        )
    if not isinstance(message, Message):
        raise InvalidArgument("send takes a penstock.Message", operation="send in a transaction", observed=type(message).__name__)
    if message.message_type is MessageType.DELAY:
        raise MessageTypeMismatch(
            "a message of a transaction cannot have a delivery time",
            operation="send in a transaction",
            object=topic,
            expected=MessageType.TRANSACTION,
            observed=MessageType.DELAY,
            hint="leave delivery_timestamp and delay out, or send it to a topic of type DELAY without a transaction",
        )
    if message.message_type is MessageType.FIFO:
        raise MessageTypeMismatch(
            "a message of a transaction cannot have a message group",
            operation="send in a transaction",
            object=topic,
            expected=MessageType.TRANSACTION,
            observed=MessageType.FIFO,
            hint="leave message_group out; what must stay in order can name its queue: send(…, queue=…)",
        )
    try:
        check_message(message, MessageType.NORMAL, settings.limits)
    except CallError as error:
        error.operation, error.object = "send in a transaction", topic
        raise
    message = frozen(message)
    return message, MESSAGE_OVERHEAD_BYTES + len(message.body or b"") + labels_bytes(message)


def half_rows(
    messages: Sequence[Message],
    queue: int | None,
    router: Router,
    *,
    born_us: int,
    producer: str,
    ids: MessageIds,
    typed: pa.Table | None = None,
) -> BatchRows:
    """The rows of checked messages, in one ``queue`` or in turn. ``typed``: messages in the columns of `SEND_SCHEMA` and ``value``."""
    if typed is not None:
        return rows_of_arrow(typed, born_us, router, producer=producer, ids=ids)
    labelled = dict(enumerate(messages))
    queues = {} if queue is None else dict.fromkeys(range(len(messages)), queue)
    bodies = [one.body for one in messages]
    born = np.full(len(messages), born_us, np.int64)
    return rows_of_messages(bodies, [None] * len(messages), labelled, queues, born, router, producer=producer, ids=ids)


def half_files(rows: BatchRows) -> list[HalfFile]:
    """The objects of these rows, in order; one request carries each."""
    per_part = max(1, rows.count * PART_BYTES // max(1, rows.size_bytes))
    parts = [rows.part(start, per_part) for start in range(0, rows.count, per_part)]
    return [HalfFile(*encode_part(part), is_extended(part)) for part in parts]


def half_key(paths: TopicPaths, job: str, number: int) -> str:
    """The key of an upload's object. Only the transaction's sender writes it, each time with the same bytes."""
    return paths.job_part(job, f"{number:08d}")


def message_ids(ids: MessageIds, count: int) -> list[str]:
    return [ids.one(number) for number in range(count)]


async def read_half(
    store: ObjectStore, paths: TopicPaths, job: str, number: int, *, expected: str, schema: TopicSchema | None = None
) -> tuple[Part, pa.Table]:
    """An upload's object and its rows (`LOG_SCHEMA`, and ``value`` with a ``schema``). Raises `ObjectMissing`, and `DataDamaged` for another digest
    or bad rows.
    """
    key = half_key(paths, job, number)
    data = (await store.get(key)).data
    if (observed := digest(data)) != expected:
        raise DataDamaged("half messages are not what was staged", object=key, expected=expected, observed=observed)
    rows = read_messages(data, where=key, schema=schema)
    counts = {pair["values"]: pair["counts"] for pair in rows["queue"].value_counts().to_pylist()}
    return Part(key.removeprefix(paths.root), 0, dict(sorted(counts.items())), len(data), expected), rows


async def staged_sizes(store: ObjectStore, paths: TopicPaths, job: str) -> dict[str, int]:
    """The sizes of an upload's objects, by key."""
    listed: list[ObjectInfo] = await store.list(paths.job(job))
    return {info.key: info.size_bytes for info in listed}

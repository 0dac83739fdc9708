"""Rows of an append out of the batches that wait for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from ....log import MessageType, TopicSettings
from ....log.errors import CallError
from ....log.limits import MIB
from ....log.message.arrow import check_arrow
from ..records.batches import NO_PRODUCER_ID, KafkaBatch
from ..records.columns import messages_of
from ..records.decoding import decode_gathered
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of

APPEND_BYTES_MAX: Final = 32 * MIB
"""The uncompressed bytes of an append. What is beyond waits for the next one."""


class ProducedBatch(Protocol):
    """A batch for a queue."""

    @property
    def queue(self) -> int: ...
    @property
    def batch(self) -> KafkaBatch: ...


@dataclass(frozen=True, eq=False, slots=True)
class FormedRows:
    """The rows of an append."""

    rows: pa.Table
    """What ``send_batch`` takes."""
    sound: Sequence[int]
    """The numbers of the batches that are in it, in order."""
    refused: Mapping[int, KafkaRefusal]
    taken: int
    """The first so many batches are sound or refused; the others are for the next append."""


def form(batches: Sequence[ProducedBatch], settings: TopicSettings) -> FormedRows:
    """The first batches, as many as one append takes."""
    gathered = decode_gathered([one.batch for one in batches], limit_bytes=APPEND_BYTES_MAX)
    refused = {number: KafkaRefusal(ErrorCode[error.code_name], error.message) for number, error in gathered.refused.items()}
    sound = [number for number in range(gathered.taken) if number not in refused]
    counts = [batches[number].batch.header.record_count for number in sound]
    messages = messages_of(gathered.rows)
    columns = dict(zip(messages.schema.names, messages.columns, strict=True))
    if settings.message_type is MessageType.NORMAL:  # which takes no message groups
        columns |= {"message_group": pa.nulls(len(messages), pa.string()), "key": gathered.rows["key"]}
    columns["queue"] = pa.array(np.repeat(np.array([batches[number].queue for number in sound], np.int32), counts))
    return _without_lost(FormedRows(pa.table(columns), sound, refused, gathered.taken), batches)


def without_unfit(formed: FormedRows, batches: Sequence[ProducedBatch], settings: TopicSettings) -> FormedRows:
    """The rows without the batches that the topic does not take, where it did not take them together."""
    refused = dict(formed.refused)
    first = 0
    for number in formed.sound:
        count = batches[number].batch.header.record_count
        try:
            check_arrow(formed.rows.slice(first, count), settings.message_type, settings.limits, settings.queues)
        except CallError as error:
            refused[number] = refusal_of(error)
        first += count
    return _without_lost(FormedRows(formed.rows, formed.sound, refused, formed.taken), batches)


def is_behind(one: ProducedBatch, lost: set[tuple[int, int]]) -> bool:
    """Whether a batch before it, of the same producer and queue, was lost. ``lost`` has their queues and producers."""
    return (one.queue, one.batch.header.producer_id) in lost


def place_of(one: ProducedBatch) -> tuple[int, int] | None:
    """The queue and the producer, by which batches are behind one another; None where nothing numbers them."""
    producer_id = one.batch.header.producer_id
    return None if producer_id == NO_PRODUCER_ID else (one.queue, producer_id)


def behind_lost() -> KafkaRefusal:
    return KafkaRefusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the producer's batch before this one was not written")


def _without_lost(formed: FormedRows, batches: Sequence[ProducedBatch]) -> FormedRows:
    """The rows of batches that are neither refused nor behind a refused one."""
    refused = dict(formed.refused)
    lost = {place for number in refused if (place := place_of(batches[number])) is not None}
    for number in formed.sound:
        if number not in refused and is_behind(batches[number], lost):
            refused[number] = behind_lost()
    sound = [number for number in formed.sound if number not in refused]
    if len(sound) == len(formed.sound):
        return FormedRows(formed.rows, sound, refused, formed.taken)
    counts = np.array([batches[number].batch.header.record_count for number in formed.sound], np.int64)
    is_kept = np.array([number not in refused for number in formed.sound], np.bool_)
    return FormedRows(formed.rows.filter(pa.array(np.repeat(is_kept, counts))), sound, refused, formed.taken)

"""Rows of an append out of the batches that wait for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....log import MessageType, TopicSettings
from ....log.errors import CallError
from ....log.limits import HANDED_BYTES_MAX, MIB
from ....log.message.arrow import check_arrow
from ....log.produce.idempotent_batches import IdempotentBatch
from ..records.batches import NO_PRODUCER_ID, BatchHeader, KafkaBatch
from ..records.columns import messages_of
from ..records.decoding import decode_gathered
from ..records.errors import RecordsError
from ..topics.configs import has_log_append_time, is_compacted, times_ms
from ..wire.errors import ErrorCode, KafkaRefusal, refusal_of

APPEND_BYTES_MAX: Final = 5 * MIB
"""The uncompressed bytes of an append, and the most of one batch. What is beyond waits for the next append."""
APPEND_ROWS_MAX: Final = 20_000
"""The records of an append, unless one batch has more."""
RECORDS_TOLD_MAX: Final = 100
"""The most records that a refusal names. A batch may have so many small ones that their errors took more memory than all requests may."""
_ROW_BYTES: Final = 100
"""What is stored of a record beside its columns, at most."""


class ProducedBatch(Protocol):
    """A batch for a queue."""

    @property
    def queue(self) -> int: ...
    @property
    def principal(self) -> str: ...
    @property
    def batch(self) -> KafkaBatch: ...


@dataclass(frozen=True, eq=False, slots=True)
class FormedRows:
    """The rows of an append."""

    rows: pa.Table
    sound: Sequence[int]
    """The numbers of the batches that are in it, in order."""
    counts: Sequence[int]
    """The rows of each of them."""
    refused: Mapping[int, KafkaRefusal]
    taken: int
    """The first so many batches are sound or refused; the others are for the next append."""

    @property
    def starts(self) -> list[int]:
        """The first row of each sound batch."""
        return [0, *np.cumsum(self.counts).tolist()][: len(self.counts)]


def form(batches: Sequence[ProducedBatch], settings: TopicSettings, now_ms: int) -> FormedRows:
    """The first batches, as many as one append takes."""
    ends = np.cumsum([one.batch.header.record_count for one in batches])
    asked = batches[: max(1, int(np.searchsorted(ends, APPEND_ROWS_MAX, side="right")))]
    gathered = decode_gathered([one.batch for one in asked], limit_bytes=APPEND_BYTES_MAX)
    refused = {number: refusal_of_records(error) for number, error in gathered.refused.items()}
    sound = [number for number in range(gathered.taken) if number not in refused]
    counts = [batches[number].batch.header.record_count for number in sound]
    if not has_log_append_time(settings):
        earliest, latest = times_ms(settings, now_ms)
        times = gathered.rows["timestamp"].cast(pa.int64()).to_numpy()
        told = f"the topic takes records of {earliest} to {latest} ms after 1970"
        refused |= _refused((times < earliest) | (times > latest), sound, counts, ErrorCode.INVALID_TIMESTAMP, told)
    if settings.message_type is MessageType.FIFO or is_compacted(settings):
        keyless = gathered.rows["key"].is_null().to_numpy(zero_copy_only=False)
        refused |= _refused(keyless, sound, counts, ErrorCode.INVALID_RECORD, "the topic takes no record without a key")
    messages = messages_of(gathered.rows)
    columns = dict(zip(messages.schema.names, messages.columns, strict=True))
    if settings.message_type is MessageType.NORMAL:  # which takes no message groups
        columns |= {"message_group": pa.nulls(len(messages), pa.string()), "key": gathered.rows["key"]}
    columns["queue"] = pa.array(np.repeat(np.array([batches[number].queue for number in sound], np.int32), counts))
    return _without_lost(FormedRows(pa.table(columns), sound, counts, refused, gathered.taken), batches)


def without_unfit(formed: FormedRows, batches: Sequence[ProducedBatch], settings: TopicSettings) -> FormedRows:
    """The rows without the batches that the topic does not take, where it did not take them together."""
    refused = dict(formed.refused)
    for number, start, count in zip(formed.sound, formed.starts, formed.counts, strict=True):
        rows = formed.rows.slice(start, count)
        try:
            check_arrow(rows, settings.message_type, settings.limits, settings.queues)
        except CallError as error:
            refused[number] = refusal_of(error)
            continue
        if rows.nbytes + count * _ROW_BYTES > HANDED_BYTES_MAX:
            refused[number] = KafkaRefusal(
                ErrorCode.MESSAGE_TOO_LARGE, f"{count} records of {rows.nbytes} bytes are too many for a batch"
            )
    return _without_lost(replace(formed, refused=refused), batches)


def numbered(formed: FormedRows, batches: Sequence[ProducedBatch]) -> list[IdempotentBatch]:
    """The sound batches of idempotent producers, in order."""
    found = []
    for number, start, count in zip(formed.sound, formed.starts, formed.counts, strict=True):
        header = batches[number].batch.header
        if is_numbered(header):
            producer = _producer_of(batches[number])
            found.append(IdempotentBatch(producer, header.producer_epoch, header.base_sequence, start, count))
    return found


def _producer_of(one: ProducedBatch) -> str:
    """The producer by its id among those of its principal: fetched batches tell everybody the ids of others."""
    producer_id = one.batch.header.producer_id
    return f"{one.principal}/{producer_id}" if one.principal else str(producer_id)


def is_numbered(header: BatchHeader) -> bool:
    """Whether a batch is an idempotent producer's."""
    return header.producer_id != NO_PRODUCER_ID


def is_behind(one: ProducedBatch, lost: set[tuple[int, str]]) -> bool:
    """Whether a batch before it, of the same producer and queue, was lost. ``lost`` has their queues and producers."""
    return (one.queue, _producer_of(one)) in lost


def place_of(one: ProducedBatch) -> tuple[int, str] | None:
    """The queue and the producer, by which batches are behind one another; None where nothing numbers them."""
    return (one.queue, _producer_of(one)) if is_numbered(one.batch.header) else None


def refusal_of_records(error: RecordsError) -> KafkaRefusal:
    return KafkaRefusal(ErrorCode[error.code_name], error.message, () if error.record is None else (error.record,))


def behind_lost() -> KafkaRefusal:
    return KafkaRefusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the producer's batch before this one was not written")


def _refused(
    unfit: npt.NDArray[np.bool_], sound: Sequence[int], counts: Sequence[int], code: ErrorCode, reason: str
) -> dict[int, KafkaRefusal]:
    """The refusals of the batches that have unfit records."""
    if not unfit.any():
        return {}
    refused = {}
    starts = np.cumsum(counts) - counts
    for number, start, count in zip(sound, starts.tolist(), counts, strict=True):
        bad = np.flatnonzero(unfit[start : start + count])
        if len(bad):
            told = bad[:RECORDS_TOLD_MAX].tolist()
            refused[number] = KafkaRefusal(code, f"{reason}, and {len(bad)} of {count} are not so", told)
    return refused


def _without_lost(formed: FormedRows, batches: Sequence[ProducedBatch]) -> FormedRows:
    """The rows of batches that are neither refused nor behind a refused one."""
    refused = dict(formed.refused)
    lost = {place for number in refused if (place := place_of(batches[number])) is not None}
    for number in formed.sound:
        if number not in refused and is_behind(batches[number], lost):
            refused[number] = behind_lost()
    kept = [number not in refused for number in formed.sound]
    if all(kept):
        return replace(formed, refused=refused)
    rows = formed.rows.filter(pa.array(np.repeat(np.array(kept, np.bool_), formed.counts)))
    sound = [number for number, is_kept in zip(formed.sound, kept, strict=True) if is_kept]
    counts = [count for count, is_kept in zip(formed.counts, kept, strict=True) if is_kept]
    return FormedRows(rows, sound, counts, refused, formed.taken)

"""Sequences of idempotent producers, as this process has seen them. Pure.

Every producer numbers its batches for each partition. A batch that came before is answered with its offset, and a gap is refused, so that five
requests of a client may be under way at once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from ..records.batches import NO_PRODUCER_ID, BatchHeader
from ..tail.batch_cache import TopicPartition
from ..wire.errors import ErrorCode, KafkaRefusal

T = TypeVar("T")

BATCHES_KEPT: Final = 5
"""The batches of each producer and partition whose offsets are known, as many as a client may have under way."""
PRODUCERS_MAX: Final = 20_000
"""Pairs of producer and partition."""
_WRAP: Final = 2**31


class _Sent(NamedTuple, Generic[T]):
    first: int
    last: int
    outcome: T


@dataclass(slots=True)
class _Producer(Generic[T]):
    epoch: int
    batches: deque[_Sent[T]] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))


class ProducerSequences(Generic[T]):
    """The last batches of each producer and partition, each with its outcome. An outcome may still be to come."""

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self._producers_max = producers_max
        self._producers: OrderedDict[tuple[TopicPartition, int], _Producer[T]] = OrderedDict()

    def duplicate(self, partition: TopicPartition, header: BatchHeader) -> T | None:
        """The outcome of the same batch before; None: it is the next one. Raises `KafkaRefusal` for what is neither."""
        if header.producer_id == NO_PRODUCER_ID:
            return None
        known = self._producers.get((partition, header.producer_id))
        if known is None:
            return None
        if header.producer_epoch < known.epoch:
            told = f"the producer has epoch {known.epoch}, and the batch {header.producer_epoch}"
            raise KafkaRefusal(ErrorCode.INVALID_PRODUCER_EPOCH, told)
        first = header.base_sequence
        if header.producer_epoch > known.epoch:
            if first != 0:
                raise _gap(0, first)
            return None
        for sent in known.batches:
            if (sent.first, sent.last) == (first, _last(header)):
                return sent.outcome
        if not known.batches:
            return None
        expected = (known.batches[-1].last + 1) % _WRAP
        if first == expected:
            return None
        if (expected - first) % _WRAP < _WRAP // 2:
            raise KafkaRefusal(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, f"sequence {first} is long written: {expected} comes next")
        raise _gap(expected, first)

    def add(self, partition: TopicPartition, header: BatchHeader, outcome: T) -> None:
        """Note a batch that is the next one."""
        if header.producer_id == NO_PRODUCER_ID:
            return
        key = (partition, header.producer_id)
        known = self._producers.pop(key, None)
        if known is None or known.epoch != header.producer_epoch:
            known = _Producer(header.producer_epoch)
        known.batches.append(_Sent(header.base_sequence, _last(header), outcome))
        self._producers[key] = known
        if len(self._producers) > self._producers_max:
            self._producers.popitem(last=False)

    def take_back(self, partition: TopicPartition, header: BatchHeader, outcome: T) -> None:
        """Forget a batch that was not written, and those behind it, whose producer sends them again."""
        known = self._producers.get((partition, header.producer_id))
        if known is None or known.epoch != header.producer_epoch:
            return
        kept = [sent.outcome for sent in known.batches]
        if outcome in kept:
            for _ in range(len(kept) - kept.index(outcome)):
                known.batches.pop()


def _last(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) % _WRAP


def _gap(expected: int, observed: int) -> KafkaRefusal:
    return KafkaRefusal(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"sequence {expected} comes next, and the batch begins with {observed}"
    )

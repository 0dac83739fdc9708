"""Batches of idempotent producers: the next one, the same again, one of long ago, and a gap."""

from __future__ import annotations

import pytest

from penstock.gateway.kafka.producing.sequences import BATCHES_KEPT, ProducerSequences
from penstock.gateway.kafka.records.batches import MAGIC, BatchHeader
from penstock.gateway.kafka.tail.batch_cache import TopicPartition
from penstock.gateway.kafka.wire.errors import ErrorCode, KafkaRefusal

HERE, THERE = TopicPartition("life", 0), TopicPartition("life", 1)
WRAP = 2**31


def header(first: int, count: int = 10, *, producer: int = 7, epoch: int = 0) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=first,
        record_count=count,
    )


def sequences(*firsts: int) -> ProducerSequences[str]:
    made: ProducerSequences[str] = ProducerSequences()
    for first in firsts:
        assert made.duplicate(HERE, header(first)) is None
        made.add(HERE, header(first), f"at {first}")
    return made


def refused(made: ProducerSequences[str], sent: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaRefusal) as raised:
        made.duplicate(HERE, sent)
    return raised.value.code


def test_the_same_batch_again_has_the_outcome_of_the_first() -> None:
    made = sequences(0, 10, 20)
    assert made.duplicate(HERE, header(10)) == "at 10"
    assert made.duplicate(HERE, header(30)) is None


def test_a_gap_is_refused_and_the_other_partition_has_its_own_sequences() -> None:
    made = sequences(0)
    assert refused(made, header(20)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(made, header(5)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert made.duplicate(THERE, header(0)) is None


def test_a_batch_of_long_ago_is_a_duplicate_without_an_offset() -> None:
    made = sequences(*range(0, 10 * (BATCHES_KEPT + 1), 10))
    assert refused(made, header(0)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert made.duplicate(HERE, header(10)) == "at 10"


def test_an_unknown_producer_begins_anywhere() -> None:
    assert sequences().duplicate(HERE, header(500)) is None


def test_a_higher_epoch_begins_anew_and_a_lower_one_is_fenced() -> None:
    made = sequences(0, 10)
    assert refused(made, header(20, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert made.duplicate(HERE, header(0, epoch=1)) is None
    made.add(HERE, header(0, epoch=1), "anew")
    assert refused(made, header(20)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert made.duplicate(HERE, header(0, epoch=1)) == "anew"


def test_sequences_go_on_from_0_behind_the_largest() -> None:
    made = sequences(WRAP - 5)
    assert made.duplicate(HERE, header(5)) is None
    made.add(HERE, header(5), "wrapped")
    assert refused(made, header(WRAP - 20)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_what_was_not_written_may_come_again_with_what_is_behind_it() -> None:
    made = sequences(0, 10, 20)
    made.take_back(HERE, header(10), "at 10")
    assert made.duplicate(HERE, header(0)) == "at 0"
    assert refused(made, header(20)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert made.duplicate(HERE, header(10)) is None


def test_the_longest_unused_producer_is_forgotten() -> None:
    made: ProducerSequences[str] = ProducerSequences(producers_max=2)
    for producer in (1, 2, 3):
        made.add(HERE, header(0, producer=producer), "written")
    assert made.duplicate(HERE, header(50, producer=1)) is None
    assert made.duplicate(HERE, header(0, producer=3)) == "written"

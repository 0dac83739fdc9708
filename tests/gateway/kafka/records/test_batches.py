from __future__ import annotations

import struct

import pytest

from penstock.gateway.kafka.records.batches import HEADER_BYTES, batches_of, check_batch, stamped
from penstock.gateway.kafka.records.compression import Compression
from penstock.gateway.kafka.records.errors import RecordsError
from tests.gateway.kafka.records.oracle import NOW_MS, Record, built, raw_batch, raw_record, read

ONE, TWO = built([Record()]), built([Record(b"a"), Record(b"b", timestamp=NOW_MS + 7)], Compression.ZSTD)


def test_a_buffer_has_several_batches_and_their_headers_are_kafkas() -> None:
    first, second = batches_of(bytes(ONE.data) + bytes(TWO.data))
    assert (first.header, second.header) == (ONE.header, TWO.header)
    assert (bytes(first.data), bytes(second.data)) == (ONE.data, TWO.data)
    assert second.header.record_count == 2
    assert second.header.last_offset == 1
    assert (second.header.base_timestamp, second.header.max_timestamp) == (NOW_MS, NOW_MS + 7)
    assert second.header.compression == Compression.ZSTD
    assert second.header.size_bytes == len(second.data)
    assert second.header.attributes == Compression.ZSTD
    assert (first.header.producer_id, first.header.producer_epoch, first.header.base_sequence) == (-1, -1, -1)
    assert batches_of(b"") == []
    for batch in (first, second):
        check_batch(batch)


@pytest.mark.parametrize(
    ("attributes", "name"), [(1 << 3, "is_log_append_time"), (1 << 4, "is_transactional"), (1 << 5, "is_control")]
)
def test_attributes_are_told(attributes: int, name: str) -> None:
    header = raw_batch(raw_record(), attributes=attributes).header
    assert [one for one in ("is_log_append_time", "is_transactional", "is_control") if getattr(header, one)] == [name]


@pytest.mark.parametrize("left", [1, 12, 16, 17, HEADER_BYTES - 1, HEADER_BYTES, len(ONE.data) - 1])
def test_a_batch_that_is_cut_off_is_named(left: int) -> None:
    with pytest.raises(RecordsError) as told:
        batches_of(bytes(TWO.data) + bytes(ONE.data)[:left])
    assert (told.value.code_name, told.value.batch) == ("INVALID_RECORD", 1)


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, HEADER_BYTES - 13, len(ONE.data) - 11, 2**31 - 1])
def test_a_length_is_held_against_what_is_there(length: int) -> None:
    data = bytearray(ONE.data)
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(RecordsError) as told:
        batches_of(bytes(data))
    assert told.value.code_name == "INVALID_RECORD"


@pytest.mark.parametrize("magic", [0, 1, 3])
@pytest.mark.parametrize("size", [26, len(ONE.data)])
def test_other_formats_are_refused_by_name(magic: int, size: int) -> None:
    data = bytearray(ONE.data)[:size]
    data[16] = magic
    with pytest.raises(RecordsError, match=f"format is {magic}") as told:
        batches_of(bytes(data))
    assert told.value.code_name == "INVALID_RECORD"


def test_every_byte_behind_the_crc_counts() -> None:
    for at in range(17, len(ONE.data)):
        data = bytearray(ONE.data)
        data[at] ^= 1
        with pytest.raises(RecordsError) as told:
            check_batch(batches_of(bytes(data))[0], 5)
        assert (told.value.code_name, told.value.batch) == ("CORRUPT_MESSAGE", 5)


@pytest.mark.parametrize(("count", "last"), [(0, -1), (-1, -2), (1, 1), (2, 0), (2**31 - 1, 0)])
def test_counts_are_those_of_a_producer(count: int, last: int) -> None:
    with pytest.raises(RecordsError) as told:
        check_batch(raw_batch(raw_record(), count, last_offset_delta=last))
    assert told.value.code_name == "INVALID_RECORD"


def test_a_stamp_changes_the_place_and_no_more() -> None:
    made = stamped(TWO, 2**40, 3)
    check_batch(made)
    assert made.header == TWO.header._replace(base_offset=2**40, leader_epoch=3) == batches_of(made.data)[0].header
    assert made.data[16:] == TWO.data[16:]
    assert read([made]) == read([TWO])


def test_an_error_says_which_batch() -> None:
    assert str(RecordsError("INVALID_RECORD", "it is none", 3)) == "INVALID_RECORD: it is none (batch 3)"
    assert str(RecordsError("INVALID_RECORD", "it is none", 3, 0)) == "INVALID_RECORD: it is none (batch 3, record 0)"

from __future__ import annotations

import gc
import random
import struct
import tracemalloc

import pyarrow as pa
import pytest

from penstock.gateway.kafka.records.compression import Compression, compressed, decompressed
from penstock.gateway.kafka.records.errors import RecordsError
from tests.gateway.kafka.records.oracle import Record, built, read

TEXT = b"one record, and the same record again, one record, and the same record again"
SNAPPY = bytes.fromhex("4c5c6f6e65207265636f72642c20616e64207468652073616d650d151c20616761696e2c20922700")
"""By Snappy's own library, as librdkafka sends it."""
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
LZ4 = bytes.fromhex(
    "04224d185440ae2d000000f4086f6e65207265636f72642c20616e64207468652073616d"
    "15008f20616761696e2c2027000d50616761696ec2686b1d00000000d571a11d"
)
"""By lz4's own library."""
COMPRESSIONS = [one for one in Compression if one is not Compression.NONE]
NOISE = bytes(random.Random(1).choices(b"abcdefgh ", k=300_000))
LIMIT = len(NOISE)


def block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def refused(data: bytes, compression: int, limit_bytes: int = LIMIT) -> str:
    with pytest.raises(RecordsError) as told:
        decompressed(data, compression, limit_bytes, 7)
    assert told.value.batch == 7
    return str(told.value.code_name)


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("data", [b"", TEXT, NOISE], ids=len)
def test_what_is_compressed_comes_back(compression: Compression, data: bytes) -> None:
    assert bytes(decompressed(memoryview(compressed(data, compression)), compression, LIMIT)) == data


def test_other_libraries_bytes_are_read() -> None:
    assert decompressed(SNAPPY, Compression.SNAPPY, 100) == TEXT
    assert decompressed(LZ4, Compression.LZ4, 100) == TEXT
    two_blocks = XERIAL + block(SNAPPY) + block(SNAPPY)
    assert decompressed(two_blocks, Compression.SNAPPY, 200) == TEXT * 2
    assert decompressed(XERIAL, Compression.SNAPPY, 100) == b""


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_kafka_python_reads_ours(compression: Compression) -> None:
    records = [Record(b"key", TEXT, (("a", b"b"),))] * 20
    assert read([built(records, compression)]) == records


@pytest.mark.parametrize("compression", Compression)
def test_the_limit_is_exact(compression: Compression) -> None:
    data = compressed(NOISE, compression)
    assert len(decompressed(data, compression, LIMIT)) == LIMIT
    assert refused(data, compression, LIMIT - 1) == "MESSAGE_TOO_LARGE"


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_bomb_takes_no_more_memory_than_the_limit(compression: Compression) -> None:
    bomb = compressed(bytes(64 * 2**20), compression)
    gc.collect()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        assert refused(bomb, compression, 2**20) == "MESSAGE_TOO_LARGE"
        assert tracemalloc.get_traced_memory()[1] < 5 * 2**20 + 5 * len(bomb)
    finally:
        tracemalloc.stop()
    gc.collect()  # the error's frames
    assert pa.total_allocated_bytes() == before


def test_blocks_share_the_limit() -> None:
    blocks = XERIAL + block(SNAPPY) * 3
    assert refused(blocks, Compression.SNAPPY, 3 * len(TEXT) - 1) == "MESSAGE_TOO_LARGE"


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_compression_is_refused_by_name(number: int) -> None:
    assert refused(TEXT, number) == "UNSUPPORTED_COMPRESSION_TYPE"


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("left", [1, 5, 18, 1000])
def test_damaged_data_is_refused(compression: Compression, left: int) -> None:
    assert refused(compressed(NOISE, compression)[:left], compression) == "INVALID_RECORD"
    assert refused(b"\xff" * left, compression) == "INVALID_RECORD"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff\xff\xff",
        b"\xff\xff\xff\xff\x1f",
        b"\xff\xff\xff\xff\xff\x01",
        XERIAL[:9],
        XERIAL + b"\0\0",
        XERIAL + struct.pack(">i", 9) + b"\0",
        XERIAL + struct.pack(">i", -9) + b"\0",
        XERIAL + struct.pack(">i", 0),
        b"\x50" + SNAPPY[1:],  # a size above the real one: what is behind must not be old memory
    ],
)
def test_forged_snappy_is_refused(data: bytes) -> None:
    assert refused(data, Compression.SNAPPY, 2**33) == "INVALID_RECORD"

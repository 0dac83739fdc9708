"""Sealed files: a change of any byte is found, and no damaged file is read as data."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log import LOG_SCHEMA
from penstock.log.errors import DataDamaged, ForeignObject
from penstock.log.format.digest import digest
from penstock.log.format.entry import encode_entry, encode_rows, read_header
from penstock.log.format.sealed import check_seal, read_footer, read_footer_alone, read_rows, read_value, write_file
from tests.log.strategies import rows_of
from tests.log.test_fold import batch, header_on, topic
from tests.thorough import examples

ROWS = rows_of({0: 3, 2: 40})
FILE = write_file(ROWS, {"some.key": "some value"})
FOOTER_BYTES = int.from_bytes(FILE[-8:-4], "little") + 8
STATE = topic()
ENTRY = encode_entry(header_on(STATE, batches=[batch(rows={0: 3, 1: 2}, last=4)]), {0: rows_of({0: 3, 1: 2})})


def test_rows_and_footer_come_back() -> None:
    assert read_rows(FILE, where="f", schema=LOG_SCHEMA).equals(ROWS)
    assert read_footer(FILE, where="f")["some.key"] == "some value"
    assert read_footer_alone(FILE[-FOOTER_BYTES:], where="f")["some.key"] == "some value"


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 100_000])
@pytest.mark.parametrize("packed", [False, True])
def test_a_value_of_the_footer_is_read_as_by_parquet(size: int, packed: bool) -> None:
    rows = rows_of({0: 1_000 if packed else 1})
    file = write_file(rows, {"some.key": "é" + "v" * size, "some.key.too": "other", "empty": ""})
    footer = read_footer(file, where="f")
    for key in ("some.key", "some.key.too", "empty"):
        assert read_value(file, key, where="f") == footer[key]
    assert read_value(file, "key", where="f") is None
    assert read_value(file, "some", where="f") is None


@pytest.mark.parametrize("file", [FILE, ENTRY, encode_rows([ROWS])], ids=["file", "entry", "staged"])
def test_a_changed_byte_is_found_wherever_it_is(file: bytes) -> None:
    """Every byte of the file, one after another."""
    for place in range(len(file)):
        damaged = bytearray(file)
        damaged[place] ^= 1 << (place % 8)
        with pytest.raises(DataDamaged):
            check_seal(bytes(damaged), where="f")


@settings(max_examples=examples(200))
@given(st.data())
def test_other_damage_is_found(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(ENTRY) - 1))
    limit = data.draw(st.integers(start, len(ENTRY)))
    middle = data.draw(st.binary(max_size=30))
    damaged = ENTRY[:start] + middle + ENTRY[limit:]
    if damaged != ENTRY:
        with pytest.raises(DataDamaged):
            read_header(damaged, where="e")


def test_damaged_rows_are_not_read_even_where_the_seal_was_not_asked() -> None:
    """Readers of single pages rely on Parquet's own checksums."""
    rng, found = random.Random(1), 0
    for _ in range(200):
        damaged = bytearray(FILE)
        damaged[rng.randrange(4, len(FILE) - FOOTER_BYTES)] ^= 0xFF
        try:
            assert read_rows(bytes(damaged), where="f", schema=LOG_SCHEMA).equals(ROWS)
        except DataDamaged:
            found += 1
    assert found > 100


@pytest.mark.parametrize("data", [b"", b"PAR1", b"hello world, this is no Parquet file", b"PAR1" + bytes(50) + b"PAR1"])
def test_other_bytes_are_foreign_or_damaged(data: bytes) -> None:
    with pytest.raises(DataDamaged) as caught:
        read_footer(data, where="log/5")
    assert caught.value.object == "log/5"


def test_a_parquet_file_of_others_is_foreign() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(ROWS, sink)
    with pytest.raises(ForeignObject, match="without a seal"):
        read_footer(sink.getvalue().to_pybytes(), where="log/5")


def test_a_file_without_an_entrys_footer_is_no_entry() -> None:
    with pytest.raises(DataDamaged, match="not an entry"):
        read_header(FILE, where="log/5")


def test_digests_differ() -> None:
    assert digest(FILE) != digest(ENTRY)
    assert digest(FILE) == digest(memoryview(FILE))


def test_names_of_columns_that_are_no_text_are_damage() -> None:
    for name in ("key", "body"):
        damaged = FILE.replace(name.encode(), b"\xe2" * len(name))
        assert damaged != FILE
        with pytest.raises(DataDamaged, match=r"cannot be read|other columns"):
            read_rows(damaged, where="f")

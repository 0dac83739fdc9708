from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.gateway.kafka.records.batches import KafkaBatch, batches_of, check_batch
from penstock.gateway.kafka.records.compression import Compression, decompressed
from penstock.gateway.kafka.records.decoding import RECORDS_SCHEMA, decode, decode_gathered
from penstock.gateway.kafka.records.errors import RecordsError
from penstock.log.limits import TIME_MAX_MS
from penstock.log.message.message import LOG_SCHEMA
from tests.gateway.kafka.records.oracle import (
    NOW_MS,
    Record,
    batches,
    built,
    raw_batch,
    raw_record,
    read,
    read_strictly,
    recompressed,
    rows_of,
    varint,
)
from tests.thorough import examples

LIMIT = 2**20
SOUND = built([Record(), Record(None, None)])


@given(st.lists(batches, max_size=6))
@settings(max_examples=examples(200), deadline=None)
def test_records_are_what_kafka_python_wrote(given: list[KafkaBatch]) -> None:
    rows = decode(given, limit_bytes=LIMIT)
    rows.validate(full=True)
    assert rows.schema == RECORDS_SCHEMA
    plain = [batch if batch.header.compression in (0, 1, 4) else None for batch in given]
    if None not in plain:
        assert rows_of(rows) == read(given)
    assert rows["offset_delta"].to_pylist() == [delta for batch in given for delta in range(batch.header.record_count)]


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_all_compressions_are_decoded_together(compression: Compression) -> None:
    records = [Record(b"k%d" % number, b"v" * number, (("n", b"%d" % number),)) for number in range(300)]
    plain, other = built(records), built(records[:7], compression)
    assert rows_of(decode([plain, other, plain], limit_bytes=LIMIT)) == [*records, *records[:7], *records]


def test_sizes_of_all_lengths_of_varints() -> None:
    sizes = [0, 1, 50, 63, 64, 8100, 8191, 8192, 70_000]
    records = [Record(b"k" * size, b"v" * size, (("h" * size, b"x" * size),)) for size in sizes]
    assert rows_of(decode([built(records)], limit_bytes=LIMIT)) == records
    assert rows_of(decode([built([one]) for one in records], limit_bytes=LIMIT)) == records


def test_headers_are_null_where_there_are_none_and_the_log_takes_them() -> None:
    rows = decode([built([Record(), Record(headers=(("a", None), ("a", b"")))])], limit_bytes=LIMIT)
    assert rows["headers"].to_pylist() == [None, [{"key": "a", "value": None}, {"key": "a", "value": b""}]]
    assert rows.schema.field("headers") == LOG_SCHEMA.field("headers")


def test_one_record_may_have_many_headers_and_its_neighbours_few() -> None:
    many = tuple((f"n{number}", None if number % 3 else b"v" * (number % 90)) for number in range(3000))
    records = [Record(headers=many[: number % 4]) for number in range(100)]
    records[40] = Record(headers=many)
    assert rows_of(decode([built(records)], limit_bytes=LIMIT)) == records


def test_with_the_attribute_all_records_have_the_brokers_time() -> None:
    records = [Record(timestamp=NOW_MS), Record(timestamp=NOW_MS + 50)]
    created = built(records)
    appended = raw_batch(bytes(created.payload), 2, attributes=8, max_timestamp=NOW_MS + 99)
    rows = decode([created, appended], limit_bytes=LIMIT)
    assert rows["timestamp"].view(pa.int64()).to_pylist() == [NOW_MS, NOW_MS + 50, NOW_MS + 99, NOW_MS + 99]


def test_no_batches_are_no_rows() -> None:
    rows = decode([], limit_bytes=LIMIT)
    assert rows.schema == RECORDS_SCHEMA
    assert rows.num_rows == 0


# --- What is refused -------------------------------------------------------------------------------------------------------------

NAME = varint(1) + b"n" + varint(-1)
HUGE = (2**31 - 1, 2**62, 2**63 - 1)
MALFORMED: dict[str, bytes | tuple[bytes, int]] = {
    "nothing": b"",
    "shorter than any record": raw_record()[:6],
    "more records than told": raw_record() * 2,
    "fewer records than told": (raw_record(), 2),
    "more records than fit": (raw_record() * 9, 2**31 - 1),
    "a record that goes on behind the batch": raw_record(longer=1),
    "a record that is longer than its parts": raw_record(longer=1) + b"\0",
    "a record that is shorter than its parts": (raw_record(longer=-1) + raw_record(delta=1), 2),
    "a record of no bytes": (b"\0" * 14, 2),
    "a negative length": (varint(-7) + bytes(6) + raw_record(delta=1), 2),
    "a length without an end": b"\xff" * 40,
    "a key's length of six bytes": b"".join((varint(11), bytes(3), b"\x81\x80\x80\x80\x80\x00", varint(-1), varint(0))),
    "a key's length of 33 bits": b"".join((varint(10), bytes(3), b"\x81\x80\x80\x80\x10", varint(-1), varint(0))),
    "offsets that are not dense": (raw_record() + raw_record(delta=2), 2),
    "offsets that do not begin with 0": raw_record(delta=1),
    "a key of length -2": raw_record(key=-2),
    "a value of length -2": raw_record(value=-2),
    "a key behind the end": raw_record(key=3),
    "a value behind the end": raw_record(value=2),
    "a value in the next record": (raw_record(value=4) + raw_record(delta=1), 2),
    "fewer headers than none": raw_record(headers=-1),
    "a header that is not there": raw_record(headers=1),
    "a header's name of length -1": raw_record(varint(-1) + varint(-1), headers=1),
    "a header's name behind the end": raw_record(varint(9) + b"n" + varint(-1), headers=1),
    "a header's value of length -2": raw_record(varint(1) + b"n" + varint(-2), headers=1),
    "a header's value behind the end": raw_record(varint(1) + b"n" + varint(2) + b"v", headers=1),
    "more headers than told": raw_record(NAME, NAME, headers=1),
    "a header's name that is no text": raw_record(varint(1) + b"\xff" + varint(-1), headers=1),
    **{f"a key of {size}": raw_record(key=size) for size in HUGE},
    **{f"a value of {size}": raw_record(value=size) for size in HUGE},
    **{f"{size} headers": raw_record(headers=size) for size in HUGE},
    **{f"a header's name of {size}": raw_record(varint(size) + b"n" + varint(-1), headers=1) for size in HUGE},
    **{f"a header's value of {size}": raw_record(varint(1) + b"n" + varint(size), headers=1) for size in HUGE},
}


def malformed(name: str) -> KafkaBatch:
    found = MALFORMED[name]
    payload, count = found if isinstance(found, tuple) else (found, 1)
    return raw_batch(payload, count)


def in_many(batch: KafkaBatch) -> list[KafkaBatch]:
    return [*[SOUND] * 20, batch, SOUND]


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize(("around", "number"), [(lambda batch: [batch], 0), (in_many, 20)])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_malformed_records_are_refused_by_their_batch(
    name: str, around: Callable[[KafkaBatch], list[KafkaBatch]], number: int, compression: Compression
) -> None:
    batch = recompressed(malformed(name), compression)
    tracemalloc.start()
    try:
        with pytest.raises(RecordsError) as told:
            decode(around(batch), limit_bytes=LIMIT)
        assert tracemalloc.get_traced_memory()[1] < LIMIT
    finally:
        tracemalloc.stop()
    assert (told.value.code_name, told.value.batch) == ("INVALID_RECORD", number)


def test_malformed_headers_are_found_among_many() -> None:
    """With many rows headers are read a round at a time, not a record at a time."""
    for name in ("a header's name behind the end", "a header's value of length -2", "a header's name that is no text"):
        sound = raw_batch(raw_record(NAME, NAME, headers=2))
        with pytest.raises(RecordsError) as told:
            decode([*[sound] * 30, malformed(name), *[sound] * 30], limit_bytes=LIMIT)
        assert (told.value.batch, told.value.record) == (30, 0)


@pytest.mark.parametrize("time", [TIME_MAX_MS + 1 - NOW_MS, -NOW_MS - 1, 2**62, -(2**62), -(2**63)])
def test_times_that_nobody_can_show_are_refused(time: int) -> None:
    with pytest.raises(RecordsError) as told:
        decode([SOUND, raw_batch(raw_record(time=time))], limit_bytes=LIMIT)
    assert (told.value.code_name, told.value.batch) == ("INVALID_TIMESTAMP", 1)


@pytest.mark.parametrize("base", [TIME_MAX_MS + 1, 2**63 - 1, -1, -(2**63)])
def test_base_times_that_nobody_can_show_are_refused(base: int) -> None:
    for attributes in (0, 8):
        with pytest.raises(RecordsError) as told:
            decode([raw_batch(raw_record(), base_timestamp=base, max_timestamp=base, attributes=attributes)], limit_bytes=LIMIT)
        assert told.value.code_name == "INVALID_TIMESTAMP"


def test_the_bad_record_is_named() -> None:
    batch = raw_batch(raw_record() + raw_record(delta=1) + raw_record(delta=2, key=9) + raw_record(delta=3), 4)
    with pytest.raises(RecordsError, match="key") as told:
        decode([SOUND, batch], limit_bytes=LIMIT)
    assert (told.value.batch, told.value.record) == (1, 2)


def test_the_limit_is_of_all_batches() -> None:
    size = len(SOUND.payload)
    assert decode([SOUND] * 3, limit_bytes=3 * size).num_rows == 6
    with pytest.raises(RecordsError) as told:
        decode([SOUND] * 3, limit_bytes=3 * size - 1)
    assert (told.value.code_name, told.value.batch) == ("MESSAGE_TOO_LARGE", 2)


# --- Gathered from many clients --------------------------------------------------------------------------------------------------


def test_bad_batches_do_not_harm_the_others() -> None:
    names = list(MALFORMED)
    given = [batch for name in names for batch in (malformed(name), SOUND)]
    given.append(raw_batch(raw_record(), attributes=7))
    found = decode_gathered(given, limit_bytes=LIMIT)
    assert found.taken == len(given)
    assert found.rows.equals(decode([SOUND] * len(names), limit_bytes=LIMIT))
    assert sorted(found.refused) == [*range(0, 2 * len(names), 2), len(given) - 1]
    assert all(error.batch == number for number, error in found.refused.items())
    assert found.refused[len(given) - 1].code_name == "UNSUPPORTED_COMPRESSION_TYPE"


def test_what_does_not_fit_waits_and_at_least_one_is_taken() -> None:
    size = len(SOUND.payload)
    for room, taken in ((3 * size, 3), (3 * size - 1, 2), (size, 1)):
        found = decode_gathered([SOUND] * 5, limit_bytes=room)
        assert (found.taken, found.rows.num_rows, found.refused) == (taken, 2 * taken, {})
    found = decode_gathered([SOUND] * 5, limit_bytes=size - 1)
    assert (found.taken, found.rows.num_rows, found.refused[0].code_name) == (1, 0, "MESSAGE_TOO_LARGE")


def test_a_bomb_is_all_that_is_inflated_in_its_turn() -> None:
    bomb = built([Record(value=bytes(2 * LIMIT))], Compression.ZSTD)
    found = decode_gathered([SOUND, bomb, bomb, SOUND], limit_bytes=LIMIT)
    assert (found.taken, list(found.refused), found.rows.num_rows) == (2, [1], 2)
    assert found.refused[1].code_name == "MESSAGE_TOO_LARGE"


def test_what_cannot_be_inflated_ends_a_turn() -> None:
    given = [SOUND, raw_batch(b"none", attributes=Compression.GZIP), SOUND]
    found = decode_gathered(given, limit_bytes=LIMIT)
    assert (found.taken, list(found.refused), found.rows.num_rows) == (2, [1], 2)


def test_a_time_counts_from_its_own_base_whatever_is_beside_it() -> None:
    far = raw_batch(raw_record(time=-(2**62)), base_timestamp=2**62 + NOW_MS)
    assert decode([far], limit_bytes=LIMIT)["timestamp"].view(pa.int64()).to_pylist() == [NOW_MS]
    found = decode_gathered([raw_batch(raw_record(time=2**62)), far], limit_bytes=LIMIT)
    assert (list(found.refused), found.rows.num_rows) == ([0], 1)


def test_nothing_gathered_is_nothing_taken() -> None:
    found = decode_gathered([], limit_bytes=LIMIT)
    assert (found.taken, found.rows.num_rows, found.refused) == (0, 0, {})


# --- Anything at all -------------------------------------------------------------------------------------------------------------


@st.composite
def mutated(draw: st.DrawFn) -> KafkaBatch:
    """A batch with some other bytes, cut or doubled, and mostly the CRC of what it then has."""
    batch = draw(batches)
    data = bytearray(batch.payload)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["set", "insert", "cut", "double"])):
            case "set":
                data[at : at + 1] = bytes([draw(st.sampled_from([0, 1, 2, 3, 127, 128, 254, 255]) | st.integers(0, 255))])
            case "insert":
                data[at:at] = varint(draw(st.sampled_from(HUGE) | st.integers(-(2**63), 2**63 - 1)))
            case "cut":
                del data[at : at + draw(st.integers(1, 9))]
            case _:
                data[at:at] = data[at : at + 40]
    return raw_batch(
        bytes(data), draw(st.just(batch.header.record_count) | st.integers(-1, 40)), attributes=batch.header.attributes
    )


def is_inflated(batch: KafkaBatch) -> bool:
    try:
        decompressed(batch.payload, batch.header.compression, LIMIT)
    except RecordsError:
        return False
    return True


@given(st.lists(mutated() | batches, min_size=1, max_size=4))
@settings(max_examples=examples(1500), deadline=None)
def test_mutated_batches_are_refused_where_javas_clients_would_not_read_them(given: list[KafkaBatch]) -> None:
    tracemalloc.start()
    try:
        found = decode_gathered(given, limit_bytes=LIMIT)
        sent = sum(len(batch.data) for batch in given)
        assert tracemalloc.get_traced_memory()[1] < 40 * (LIMIT + sent)
    finally:
        tracemalloc.stop()
    found.rows.validate(full=True)
    assert found.taken == next((number + 1 for number, batch in enumerate(given) if not is_inflated(batch)), len(given))
    assert all(error.batch == number and error.__traceback__ is None for number, error in found.refused.items())
    sound: list[Record] = []
    for number, batch in enumerate(given[: found.taken]):
        try:
            sound += read_strictly(batch, LIMIT)
            assert number not in found.refused
        except (ValueError, RecordsError):
            assert number in found.refused
    assert rows_of(found.rows) == sound


@given(batches, st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), min_size=1, max_size=5))
@settings(max_examples=examples(600), deadline=None)
def test_any_byte_of_a_header_may_be_wrong(batch: KafkaBatch, changes: list[tuple[int, int]]) -> None:
    data = bytearray(batch.data)
    for at, byte in changes:
        data[min(at, len(data) - 1)] = byte
    try:
        for one in batches_of(bytes(data)):
            check_batch(one)
            decode([one], limit_bytes=LIMIT)
    except RecordsError:
        pass

"""Cells are input: whatever the bytes of one are, they are read, or refused by an error that names it; quickly, and in little memory."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.cdc.capture.state import RowsChunk
from penstock.cdc.debezium import state as engine
from penstock.cdc.postgres import state as capture
from penstock.coordinator.access.codec import decode_access, encode_access
from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.record import AccessRecord, Principal, SealedSecret
from penstock.coordinator.cells.varints import HASH_MAX, VarintReader, append_bytes, append_varint
from penstock.coordinator.groups.codec import decode_group, encode_group
from penstock.coordinator.groups.record import Command, CommandKind, GroupRecord, GroupSettings, Position
from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Receive, Spill, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from penstock.coordinator.registry import broadcast_progress
from penstock.coordinator.timers.cell.codec import decode_timers, encode_timers
from penstock.coordinator.timers.cell.state import Claim, DeliveredBounds, DuePosition, TimerRun, TimerState
from penstock.coordinator.transactions.members.acks import AckedDelivery, Acks
from penstock.coordinator.transactions.members.codec import decode_member, encode_member
from penstock.coordinator.transactions.members.producer_groups import decode_names, encode_names
from penstock.coordinator.transactions.members.state import Destination, HalfPart, LinkResult, MemberCell, TransactionRow
from penstock.coordinator.workers.lease import Heartbeat, ListedMember, decode_heartbeat, encode_heartbeat
from penstock.log.errors import DataDamaged, NewerFormatError
from penstock.log.limits import NUMBER_MAX, TIME_MAX_MS
from tests.thorough import examples

ID = "0123456789abcdef" * 2
OUT = Tries(MessageState.OUT, 1, 0, 1_700_000_000_000)
CELL = QueueCell(
    generation=2,
    epoch=3,
    owner="worker/1",
    step=4,
    commands=1,
    settled=SettledOffsets(10).with_range(20, 30),
    granted=OffsetSet.of_offsets([10, 12, 14]),
    tries={
        11: Tries(MessageState.WAITING, 2, 1, 1_700_000_000_000),
        13: Tries(MessageState.RUNNING),
        19: replace(OUT, receive=Receive(HASH_MAX, 1)),
    },
    markers={
        HASH_MAX: Marker(15, 17, Tries(MessageState.PARKED, 3, 3)),
        7: Marker(5, 9, replace(OUT, receive=Receive(1, 0, end=7))),
    },
    spills=(Spill(ID, 3, 4, 1_700_000_000_000, 100),),
    dead_letters=DeadLetters(7, (16, 18), refused=((18, 2),)),
    transactions=frozenset({ID}),
)
MEMBER = MemberCell(
    group="shop",
    used_ms=1,
    left=False,
    rows={
        ID: TransactionRow(
            id=ID,
            created_ms=1,
            next_check_ms=2,
            destinations=(Destination("orders", "life", (HalfPart(1, ID, 2),), LinkResult(4, {0: (1, 2)})),),
            acks=Acks(
                group="billing",
                topic="orders",
                queue=1,
                generation=2,
                acked=(AckedDelivery(3, 1, HASH_MAX), AckedDelivery(5, 1, None)),
            ),
        )
    },
)
TIMERS = TimerState(
    settled=DeliveredBounds(3, DuePosition(5, 1)),
    claim=Claim(DeliveredBounds(4, DuePosition(6, 2)), 7, 2),
    next_sequence=9,
    gathered=10,
    runs=(TimerRun("abc", 3, 100, DuePosition(9, 9)),),
    recalled=frozenset({DuePosition(1, 2)}),
    recalls=(),
)
GROUP = GroupRecord(
    settings=GroupSettings(filters={"orders": "paid"}),
    positions={"orders": Position((1, 2), (0, 1), 5, 1, 4), "bills": Position((1,), (0,), 5)},
    members=("worker/1",),
    commands=(Command(1, CommandKind.SKIP, "orders", 0, 0, (4, 6), (17, 3)),),
    commanded=1,
    generations=2,
    secret="ab" * 16,
)
HEARTBEAT = Heartbeat(
    worker="w", lease_ms=5000, beat=3, members=(ListedMember(1, "billing", ("orders",)), ListedMember(2)), label="here"
)
ACCESS = AccessRecord(
    principals={
        "shop": Principal(
            id=ID,
            secrets=(SealedSecret("AAAA", "0123abcd", 5), SealedSecret("BBBB", "0123abcd", 1, 9)),
            roles=frozenset({"all"}),
            grants=frozenset({Grant(Verb.SEND, "orders*")}),
        )
    },
    roles={"all": frozenset({Grant(Verb.JOIN, "*"), Grant(Verb.RECEIVE, "*")})},
)
TABLES = (
    capture.CapturedTable("a", "b", 7, 8, ((9, 10, 3),), 11, is_read=True),
    capture.CapturedTable("a", "c", 12, held="dropped"),
)
CAPTURE = capture.PostgresState("life", "1", "shop", "all", TABLES, chunk=capture.Chunk("a.c", None, ("7",), 0, 6, 12))
ENGINE = engine.EngineState(
    "life",
    "mariadb",
    "7 uid",
    json.dumps({"ts_sec": 1, "file": "binlog.000007", "pos": 1234, "gtids": "0-7-9", "server_id": 7}),
    ("a.b", "a.c"),
    ("a.b",),
    RowsChunk("a.b", True, (1,), (7,), 6),
    history=2,
)

Decode = Callable[..., object]


def engine_state(data: bytes, where: str) -> engine.EngineState:
    found = engine.EngineStateStore.parse(data, where)
    assert found.place is None or ":" in found.place
    return found


BINARY: dict[str, tuple[bytes, Decode]] = {
    "cell": (encode_cell(CELL), decode_cell),
    "member": (encode_member(MEMBER), decode_member),
    "timers": (encode_timers(TIMERS), decode_timers),
    "names": (encode_names(frozenset({"a", "bb"}), where="here"), decode_names),
}
JSON: dict[str, tuple[bytes, Decode]] = {
    "access": (encode_access(ACCESS), decode_access),
    "group": (encode_group(GROUP), decode_group),
    "heartbeat": (encode_heartbeat(HEARTBEAT), decode_heartbeat),
    "progress": (broadcast_progress._encode(broadcast_progress.BroadcastProgress("s", 1, (2, 3))), broadcast_progress._decode),
    "engine": (engine.EngineStateStore.encode(ENGINE), engine_state),
    "capture": (
        capture.PostgresStateStore.encode(CAPTURE),
        capture.PostgresStateStore.parse,
    ),
}
EVERY = {**BINARY, **JSON}
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([-1, 2**63, 1e308, "1", "\ud800", TIME_MAX_MS + 1]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def read_or_refused(decode: Decode, data: bytes) -> object | None:
    try:
        return decode(data, where="the cell")
    except DataDamaged as error:
        assert error.object == "the cell"  # noqa: PT017 - of whatever else it is
        assert len(str(error)) < 1500  # noqa: PT017
    except NewerFormatError:
        pass
    return None


@pytest.mark.parametrize("name", EVERY)
def test_what_is_written_is_read(name: str) -> None:
    written = {"access": ACCESS, "cell": CELL, "member": MEMBER, "timers": TIMERS, "names": frozenset({"a", "bb"}), "group": GROUP}
    found = EVERY[name][1](EVERY[name][0], where="the cell")
    assert (
        found
        == {
            **written,
            "heartbeat": HEARTBEAT,
            "progress": broadcast_progress.BroadcastProgress("s", 1, (2, 3)),
            "capture": CAPTURE,
            "engine": ENGINE,
        }[name]
    )


@pytest.mark.parametrize("name", EVERY)
def test_one_that_is_cut_off_is_damaged(name: str) -> None:
    whole, decode = EVERY[name]
    for size in range(len(whole)):
        with pytest.raises((DataDamaged, NewerFormatError)):
            decode(whole[:size], where="the cell")


@settings(max_examples=examples(400))
@given(st.sampled_from(sorted(EVERY)), st.data())
def test_one_with_other_bytes_is_read_or_named(name: str, data: st.DataObject) -> None:
    whole, decode = EVERY[name]
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(changed)))
        other = EVERY[data.draw(st.sampled_from(sorted(EVERY)))][0]
        piece = data.draw(st.binary(max_size=12) | st.integers(0, len(other)).map(lambda at, other=other: other[at : at + 30]))  # type: ignore[misc]
        changed[start : start + data.draw(st.integers(0, 12))] = piece
    read_or_refused(decode, bytes(changed))


@settings(max_examples=examples(400))
@given(st.sampled_from(sorted(JSON)), st.data())
def test_one_with_another_value_anywhere_is_read_or_named(name: str, data: st.DataObject) -> None:
    whole, decode = JSON[name]
    document: Any = json.loads(whole)
    inside = document
    while True:
        place = data.draw(st.sampled_from(sorted(inside) if isinstance(inside, dict) else range(len(inside))))
        if not isinstance(inside[place], dict | list) or not inside[place] or data.draw(st.booleans()):
            inside[place] = data.draw(ANY)
            break
        inside = inside[place]
    try:
        text = json.dumps(document).encode()
    except ValueError:
        return
    read_or_refused(decode, text)


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("junk", [b"[" * 200_000, b'{"format": 1, "a": ' + b'{"a":' * 100_000, b"\xff", b"", b"7", b"null"])
def test_what_is_no_such_document_is_named(name: str, junk: bytes) -> None:
    with pytest.raises(DataDamaged, match="the cell"):
        JSON[name][1](junk, where="the cell")


def varint(number: int) -> bytes:
    data = bytearray()
    append_varint(data, number)
    return bytes(data)


@pytest.mark.parametrize(
    "data", [b"\xff" * 9 + b"\x7f", b"\x80\x00", b"\x81\x80\x00", b"\xff" * 100_000 + b"\x01", varint(NUMBER_MAX + 1)]
)
def test_a_number_that_nothing_writes_is_damaged(data: bytes) -> None:
    with pytest.raises(DataDamaged, match=r"too large, or longer.*object: the cell"):
        VarintReader(data, where="the cell").varint()
    assert VarintReader(varint(NUMBER_MAX)).varint() == NUMBER_MAX
    assert VarintReader(varint(HASH_MAX)).varint(HASH_MAX) == HASH_MAX


def set_of(bits: bytes, base: int = 0) -> bytes:
    data = bytearray()
    append_varint(data, base)
    append_bytes(data, bits)
    return bytes(data)


PACKED_RANGES, PACKED_BITMAP = b"\x02", b"\x03"
MANY = PACKED_BITMAP + zlib.compress(b"\xff" * 2_000_000)
START = b"\x01" + b"\x00" * 5


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (START + set_of(b"") + set_of(MANY), "more in flight"),
        (START + set_of(b"") * 2 + varint(1) + b"\x00" * 5 + set_of(MANY) + b"\x00" * 20, "tracks more"),
        (START + set_of(b"") * 2 + varint(2**40) + b"\x00" * 100, "too large"),
        (START + set_of(b"") * 2 + b"\x00" + varint(2**40) + b"\x00" * 100, "too large"),
        (START + set_of(b"") * 2 + b"\x00\x00\x00" + varint(2**40) + b"\x00" * 100, "too large"),
        (START + set_of(b"") * 2 + b"\x00\x00\x01\x03\x01\x01\x01", "more dead letters"),
        (START + set_of(b"", NUMBER_MAX) + set_of(b"\x01\xff\xff", NUMBER_MAX - 3) + b"\x00" * 4, "too far"),
        (START + set_of(PACKED_BITMAP + zlib.compress(bytes(10_000_000))) + b"\x00" * 20, "too far"),
        (START + set_of(PACKED_BITMAP + zlib.compress(b"\xaa" * (1 << 21))) + b"\x00" * 20, "too many holes"),
        (START + set_of(PACKED_RANGES + zlib.compress(b"\x01\x01" * (1 << 19))) + b"\x00" * 20, "too many holes"),
    ],
)
def test_a_small_cell_that_says_much_is_refused_before_room_is_made(data: bytes, said: str) -> None:
    with pytest.raises(DataDamaged, match=f"{said}.*object: the cell"):
        decode_cell(data, where="the cell")


def section(number: int, data: bytes) -> bytes:
    return varint(number) + varint(len(data)) + data


def received(offsets: OffsetSet, lanes: bytes = varint(0)) -> bytes:
    """A receive as the cell names it."""
    return (5).to_bytes(8, "little") + (6).to_bytes(8, "little") + offsets.encode() + lanes


TRACKED = QueueCell(settled=SettledOffsets(9), tries={3: OUT}, markers={7: Marker(5, 8, OUT)}, dead_letters=DeadLetters(2, (1, 2)))
ONE = OffsetSet.of_offsets([3])
RECEIVES, REFUSED = 6, 7


@pytest.mark.parametrize(
    ("number", "data", "said"),
    [
        (RECEIVES, received(OffsetSet.of_offsets([4])), "receive of what is not out"),
        (RECEIVES, received(ONE) + received(ONE), "two of one message"),
        (RECEIVES, received(OffsetSet(3, (1 << 1_000_000) - 1)), "messages that are not out"),
        (RECEIVES, received(ONE, varint(1) + varint(1) + varint(2)), "ends beyond what is out"),
        (RECEIVES, received(ONE, varint(1) + varint(0) + varint(4)), "ends beyond what is out"),
        (RECEIVES, received(ONE, varint(1) + varint(0) + varint(0)), "ends beyond what is out"),
        (RECEIVES, received(ONE, varint(2) + (varint(0) + varint(2)) * 2), "two of one message"),
        (RECEIVES, received(ONE, varint(2**40)), "too large"),
        (RECEIVES, received(ONE)[:-2], "ends too soon"),
        (RECEIVES, received(ONE) + b"\x00", "ends too soon"),
        (REFUSED, varint(3) + varint(2), "did not assign"),
        (REFUSED, varint(1), "ends too soon"),
    ],
)
def test_a_cell_whose_receives_or_refusals_are_damaged_is_named(number: int, data: bytes, said: str) -> None:
    whole = b"\x02" + encode_cell(TRACKED)[1:] + varint(1)
    decode_cell(whole + section(RECEIVES, received(ONE, varint(1) + varint(0) + varint(2))), where="the cell")
    with pytest.raises(DataDamaged, match=f"{said}.*object: the cell"):
        decode_cell(whole + section(number, data), where="the cell")


def test_many_ranges_are_set_side_by_side() -> None:
    """Very many, in a few bytes: one by one into a long number they would take minutes."""
    ranges = PACKED_RANGES + zlib.compress(b"\x01\x01" * 200_000)
    found = SettledOffsets.decode(VarintReader(set_of(ranges)))
    assert found.count_above == 200_000
    assert found.ranges()[:2] == [(1, 2), (3, 4)]


def test_a_member_with_huge_counts_is_refused() -> None:
    for place in (b"\x01\x00\x00\x00", b"\x01\x00\x00\x00\x00"):
        with pytest.raises(DataDamaged, match="too large"):
            decode_member(place + varint(2**50) + b"\x00" * 50, where="the cell")


def test_a_run_whose_name_is_a_path_is_refused() -> None:
    data = encode_timers(TimerState(runs=(TimerRun("abc", 3, 100, DuePosition(9, 9)),)))
    with pytest.raises(DataDamaged, match="none of ours"):
        decode_timers(data.replace(b"abc", b"../"), where="the cell")

"""The decoder on bytes that a PostgreSQL 15 sent."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.postgres import pgoutput
from penstock.cdc.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    OtherMessage,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    decode,
)
from penstock.log import DataDamaged

COMMITTED_US = 1_795_318_620_084_460
RECORDED: dict[str, Message] = {
    "4200000000139ddcc8000303d3f563f8ec0000449c": Begin(0x139DDCC8, COMMITTED_US, 17564),
    "430000000000139ddcc800000000139ddcf8000303d3f563f8ec": Commit(0x139DDCC8, 0x139DDCF8, COMMITTED_US),
    "590000a1fb7075626c6963006d6f6f6400": OtherMessage("type"),
    "520000a1ff7075626c69630061006400030169640000000017ffffffff006d000000a1fbffffffff006269670000000019ffffffff": Relation(
        41471,
        "public",
        "a",
        "d",
        (RelationColumn("id", 23, True), RelationColumn("m", 41467, False), RelationColumn("big", 25, False)),
    ),
    "520000a2067075626c6963006600660002016b0000000019ffffffff01760000000019ffffffff": Relation(
        41478, "public", "f", "f", (RelationColumn("k", 25, True), RelationColumn("v", 25, True))
    ),
    "520000a2067075626c6963006100640001016e00000006a4000c0006": Relation(
        41478, "public", "a", "d", (RelationColumn("n", 1700, True, (12 << 16 | 2) + 4),)
    ),
    "490000a2064e00027400000002c3a96e": Insert(41478, ("é", None)),
    "550000a1ff4e00037400000001317400000004676c6164740000000179": Update(41471, None, None, ("1", "glad", "y")),
    "550000a1ff4e0003740000000133740000000373616475": Update(41471, None, None, ("3", "sad", UNCHANGED)),
    "550000a1ff4b00037400000001316e6e4e00037400000001327400000004676c6164740000000179": Update(
        41471, ("1", None, None), None, ("2", "glad", "y")
    ),
    "550000a2064f00027400000002c3a96e4e00027400000002c3a9740000000131": Update(41478, None, ("é", None), ("é", "1")),
    "440000a1ff4b00037400000001326e6e": Delete(41471, ("2", None, None), None),
    "440000a2064f00027400000002c3a9740000000131": Delete(41478, None, ("é", "1")),
    "5400000002000000a1ff0000a206": Truncate((41471, 41478)),
    "4d0100000000139e04a06175646974000000000200ff": LogicalMessage(True, 0x139E04A0, "audit", b"\x00\xff"),
    "4f00000000139e04a06e6f646500": OtherMessage("origin"),
}


@pytest.mark.parametrize(("recorded", "message"), RECORDED.items(), ids=[type(one).__name__ for one in RECORDED.values()])
def test_what_was_recorded(recorded: str, message: Message) -> None:
    assert decode(bytes.fromhex(recorded)) == message


def test_a_table_of_the_catalog_has_its_schema() -> None:
    assert decode(bytes.fromhex("5200000001007074006400010169640000000017ffffffff")) == Relation(
        1, "pg_catalog", "pt", "d", (RelationColumn("id", 23, True),)
    )


@pytest.mark.parametrize("recorded", [one for one in RECORDED if one[:2] not in ("59", "4f")])
def test_what_is_cut_short_is_no_message(recorded: str) -> None:
    whole = bytes.fromhex(recorded)
    for size in range(len(whole)):
        with pytest.raises(DataDamaged):
            decode(whole[:size])


@pytest.mark.parametrize(
    "data",
    [b"", b"?", b"I" + struct.pack(">I", 1) + b"N\x00\x01b\x00\x00\x00\x00", b"U" + struct.pack(">I", 1) + b"K\x00\x00X\x00\x00"],
)
def test_what_the_protocol_does_not_know(data: bytes) -> None:
    with pytest.raises(DataDamaged, match="pgoutput"):
        decode(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    with suppress(DataDamaged):
        assert type(decode(data)).__module__ == pgoutput.__name__

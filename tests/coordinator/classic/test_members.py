"""The members of a group of Kafka's clients in their cell, and what their assignments say."""

from __future__ import annotations

import random
import struct
import zlib

import pytest

from penstock.coordinator.classic.assignments import assigned_queues, owners, subscribed_topics
from penstock.coordinator.classic.members import (
    ClassicGroup,
    ClassicMember,
    ClassicProtocol,
    decode_members,
    encode_members,
    format_of,
)
from penstock.log.errors import DataDamaged, LimitExceeded, NewerFormatError
from penstock.log.limits import FORMAT_BASIC, FORMAT_EXTENDED


def assignment(**topics: list[int]) -> bytes:
    data = struct.pack(">hi", 0, len(topics))
    for name, queues in topics.items():
        data += struct.pack(f">h{len(name)}si{len(queues)}i", len(name), name.encode(), len(queues), *queues)
    return data + struct.pack(">i", -1)


def member(name: str, assigned: bytes = b"", *, principal: str = "") -> ClassicMember:
    return ClassicMember(
        id=name,
        instance_id=None,
        client_id="app",
        client_host="/10.0.0.1",
        session_ms=45_000,
        rebalance_ms=300_000,
        protocols=(ClassicProtocol("range", b"\x00\xff"),),
        assignment=assigned,
        principal=principal,
    )


GROUP = ClassicGroup(
    epoch=3,
    coordinator="g0",
    generation=7,
    protocol_type="consumer",
    protocol="range",
    leader="a",
    members=(member("a", assignment(orders=[0, 2])), member("b", assignment(orders=[1]))),
)


def test_they_are_read_as_they_were_written() -> None:
    assert decode_members(encode_members(GROUP), where="there") == GROUP


def test_principals_are_a_format_of_their_own() -> None:
    """A process of before knows no principals: it tells of a newer format where there are some, and reads all else as ever."""
    assert b"principal" not in zlib.decompress(encode_members(GROUP))
    proved = member("a", principal="shop")
    assert format_of(GROUP.members) == FORMAT_BASIC
    assert format_of((*GROUP.members, proved)) == FORMAT_EXTENDED
    group = ClassicGroup(format=format_of((proved,)), members=(proved,))
    assert decode_members(encode_members(group), where="there") == group


@pytest.mark.parametrize("data", [b"", b"{}", zlib.compress(b"[]"), zlib.compress(b"{}") + b"x", zlib.compress(b"{}")[:-1]])
def test_damage_is_told(data: bytes) -> None:
    with pytest.raises(DataDamaged):
        decode_members(data, where="there")


def test_a_bomb_is_told() -> None:
    with pytest.raises(DataDamaged):
        decode_members(zlib.compress(bytes(10_000_000)), where="there")


def test_a_later_format_is_told() -> None:
    with pytest.raises(NewerFormatError):
        decode_members(zlib.compress(b'{"format":3,"new":1}'), where="there")


def test_what_no_cell_holds_is_refused() -> None:
    noise = random.Random(1).randbytes(200_000)
    with pytest.raises(LimitExceeded):
        encode_members(ClassicGroup(members=(member("a", noise),)))


def test_owners_are_those_of_the_assignments() -> None:
    assert owners(GROUP) == {("orders", 0): "a", ("orders", 2): "a", ("orders", 1): "b"}


def test_assignments_of_other_kinds_say_nothing() -> None:
    assert owners(ClassicGroup(protocol_type="connect", members=GROUP.members)) == {}


@pytest.mark.parametrize("cut", range(24))
def test_a_cut_assignment_says_nothing(cut: int) -> None:
    whole = assignment(orders=[0, 2])
    assert assigned_queues(whole[:cut]) == []


@pytest.mark.parametrize(
    "data", [struct.pack(">hi", 0, 2**31 - 1), struct.pack(">hih", 0, 1, -1), struct.pack(">hihi", 0, 1, 0, 2**30)]
)
def test_forged_counts_say_nothing(data: bytes) -> None:
    assert assigned_queues(data) == []


def test_subscriptions_are_read() -> None:
    told = struct.pack(">hih6sh6s", 3, 2, 6, b"orders", 6, b"events") + b"\xff\xff\xff\xff"
    assert subscribed_topics(told) == ["orders", "events"]
    assert subscribed_topics(told[:15]) == []
    assert subscribed_topics(b"") == []

"""Frames and headers, whole and forged."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode, KafkaRefusal
from penstock.gateway.kafka.wire.frames import FrameSplitter, answer_head, parse_header

FRAMES = st.lists(st.binary(min_size=10, max_size=300), max_size=6)


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def split(splitter: FrameSplitter) -> list[bytes]:
    frames = []
    while (frame := splitter.next_frame()) is not None:
        frames.append(bytes(frame))
    return frames


@pytest.mark.parametrize(
    ("begun", "what"),
    [
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (b"GET / HTTP/1.1", "HTTP:"),
        (b"POST / HTTP/1.1", "HTTP:"),
        (b"PRI * HTTP/2.0", "HTTP/2 as gRPC"),
    ],
)
def test_another_protocol_at_the_port_is_named(begun: bytes, what: str) -> None:
    splitter = FrameSplitter(32 * 1024 * 1024)
    splitter.feed(begun)
    with pytest.raises(KafkaRefusal, match=f"what came looks like {what}"):
        splitter.next_length()


@given(frames=FRAMES, data=st.data())
def test_frames_come_out_as_they_went_in_however_they_are_cut(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(framed, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    splitter, found = FrameSplitter(1_000), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        splitter.feed(stream[start:end])
        if data.draw(st.booleans()):  # a connection may wait for room before it goes on
            found += split(splitter)
    found += split(splitter)
    assert found == frames
    assert not splitter.is_amid_frame


def test_a_frame_in_one_piece_is_not_copied() -> None:
    chunk = framed(b"x" * 100) + framed(b"y" * 50) + b"\0\0"
    splitter = FrameSplitter(1_000)
    splitter.feed(chunk)
    for expected in (b"x" * 100, b"y" * 50):
        frame = splitter.next_frame()
        assert frame is not None
        assert frame == expected
        assert frame.obj is chunk
    assert splitter.next_frame() is None
    assert splitter.is_amid_frame


@pytest.mark.parametrize("length", [-1, 0, 9, 1_001, 2**31 - 1, 0x47455420, 0x16030100])
def test_a_length_that_no_request_has_is_refused_at_once(length: int) -> None:
    splitter = FrameSplitter(1_000)
    splitter.feed(struct.pack(">i", length))
    with pytest.raises(KafkaRefusal) as refused:
        splitter.next_frame()
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@given(
    key=st.sampled_from(list(APIS)),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(max_size=40),
    data=st.data(),
)
def test_headers_of_all_versions(key: int, correlation_id: int, client_id: str | None, data: st.DataObject) -> None:
    api = APIS[key]
    version = data.draw(st.integers(api.lowest, api.highest))
    said = b"" if client_id is None else client_id.encode()
    frame = struct.pack(">hhih", key, version, correlation_id, -1 if client_id is None else len(said)) + said
    if api.is_flexible(version):
        frame += data.draw(st.sampled_from([b"\0", b"\1\5\3abc"]))
    header = parse_header(memoryview(frame + b"body"))
    assert (header.api, header.version, header.correlation_id, header.client_id) == (api, version, correlation_id, client_id or "")
    assert header.is_served
    assert frame[header.body_at :] == b""


def test_an_unserved_version_is_known_by_its_header_whatever_follows() -> None:
    header = parse_header(memoryview(struct.pack(">hhih", 18, 99, 7, 3) + b"abc" + b"\xff" * 40))
    assert (header.api.key, header.version, header.correlation_id, header.client_id) == (ApiKey.API_VERSIONS, 99, 7, "abc")
    assert not header.is_served
    assert not parse_header(memoryview(struct.pack(">hhih", 0, 2, 7, -1))).is_served, "Produce 0 to 2 are told, and not served"


@pytest.mark.parametrize(("key", "version"), [(4, 0), (-1, 0), (9_999, 0), (3, -1)])
def test_an_unknown_api_is_refused(key: int, version: int) -> None:
    with pytest.raises(KafkaRefusal) as refused:
        parse_header(memoryview(struct.pack(">hhih", key, version, 1, -1)))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@given(frame=st.binary(min_size=0, max_size=60), key=st.sampled_from([*APIS, 4]))
def test_any_bytes_have_a_header_or_are_refused(frame: bytes, key: int) -> None:
    with suppress(KafkaRefusal):
        assert parse_header(memoryview(struct.pack(">h", key) + frame)).body_at <= len(frame) + 2


def test_the_header_of_an_answer_is_flexible_from_the_version_that_its_request_is_but_never_of_api_versions() -> None:
    metadata, versions = APIS[ApiKey.METADATA], APIS[ApiKey.API_VERSIONS]
    assert answer_head(metadata, 8, 5, 10) == struct.pack(">ii", 14, 5)
    assert answer_head(metadata, 9, 5, 10) == struct.pack(">iib", 15, 5, 0)
    assert answer_head(versions, 4, 5, 10) == struct.pack(">ii", 14, 5)


def test_a_long_client_id_is_cut() -> None:
    frame = struct.pack(">hhih", 18, 0, 1, 30_000) + b"c" * 30_000
    assert parse_header(memoryview(frame)).client_id == "c" * 256

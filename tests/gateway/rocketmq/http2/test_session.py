"""A connection's state: calls, windows, ends, and what breaks the protocol."""

from __future__ import annotations

import pytest
from hpack import Encoder

from penstock.gateway.rocketmq.http2 import frames
from penstock.gateway.rocketmq.http2.frames import FRAME_BYTES_MAX, ConnectionFault, StreamCode, frame
from penstock.gateway.rocketmq.http2.heads import CallFailed, GrpcStatus
from penstock.gateway.rocketmq.http2.limits import Http2Limits
from tests.gateway.rocketmq.http2.peer import BEGIN, HEAD, WHOLE, Peer, block, call, sent, split, window

KIB = 1_024


def test_a_message_comes_and_another_goes_in_three_frames() -> None:
    peer = Peer().begin()
    assert not peer.say(call(1, ("x-mq-client-id", "c"), ("grpc-timeout", "1500m")), sent(1, b"asked"))
    ((stream, head),) = peer.calls
    assert (head.path, head.timeout_s, head.metadata[-2]) == ("/a.Service/Call", 1.5, ("x-mq-client-id", "c"))
    assert peer.session.read(stream) == b"asked"
    peer.session.output.write(stream, b"told")
    peer.session.output.finish(stream, GrpcStatus.OK)
    assert [one.kind for one in peer.listen()] == [frames.HEADERS, frames.DATA, frames.HEADERS]
    assert (bytes(peer.answers[1]), peer.ends[1]) == (b"\0\0\0\0\x04told", {"grpc-status": "0"})
    assert not peer.session.streams


def test_an_end_without_an_answer_has_the_head_in_it_and_tells_the_client_to_send_no_more() -> None:
    peer = Peer().begin()
    peer.say(call(1))
    peer.session.output.finish(peer.calls[0][0], GrpcStatus.UNIMPLEMENTED, "100 % größer\n")
    peer.listen()
    said = "100 %25 gr%C3%B6%C3%9Fer%0A"
    assert peer.ends[1] == {":status": "200", "content-type": "application/grpc", "grpc-status": "12", "grpc-message": said}
    assert peer.code() is StreamCode.NO_ERROR


def test_bytes_may_come_in_any_pieces() -> None:
    data = BEGIN + call(1) + sent(1, b"asked")
    peer = Peer()
    for at in range(len(data)):
        peer.say(data[at : at + 1])
    assert peer.session.read(peer.calls[0][0]) == b"asked"


def test_what_nobody_reads_is_bounded_by_the_call_s_window_and_by_the_connection_s() -> None:
    limits = Http2Limits(stream_window_bytes=64 * KIB, connection_window_bytes=96 * KIB)
    part = bytes(16 * KIB)
    peer = Peer(limits).begin()
    peer.say(call(1), *[frame(frames.DATA, 0, 1, part)] * 4)
    peer.say(frame(frames.DATA, 0, 1, b"x"))
    assert peer.code() is StreamCode.FLOW_CONTROL_ERROR
    assert not peer.session.streams, "the other calls go on"

    crowd = Peer(limits).begin()
    crowd.say(call(1), call(3), *[frame(frames.DATA, 0, 1, part)] * 3, *[frame(frames.DATA, 0, 3, part)] * 3)
    assert not [one for one in crowd.heard if one.kind == frames.WINDOW_UPDATE and one.number < 32 * KIB]
    with pytest.raises(ConnectionFault) as fault:
        crowd.say(frame(frames.DATA, 0, 3, part))
    assert fault.value.code is StreamCode.FLOW_CONTROL_ERROR


def test_who_reads_makes_room_and_a_call_that_ends_unread_does_too() -> None:
    limits = Http2Limits(stream_window_bytes=64 * KIB, connection_window_bytes=64 * KIB)
    peer = Peer(limits).begin()
    message = bytes(150 * KIB)
    data = b"\0" + len(message).to_bytes(4, "big") + message
    peer.say(call(1))
    ((stream, _),) = peer.calls
    room = {0: 65_535, 1: 64 * KIB}
    while data:
        part = data[: min(*room.values(), FRAME_BYTES_MAX)]
        assert part, "the reader makes room"
        data = data[len(part) :]
        got = peer.session.read(stream)
        assert got is None
        for one in [*peer.say(frame(frames.DATA, 0, 1, part)), *peer.listen()]:
            room[one.stream_id] += one.number
        room = {key: left - len(part) for key, left in room.items()}
    assert peer.session.read(stream) == message

    for number in range(3, 43, 2):
        peer.say(call(number), sent(number, bytes(15 * KIB), ends=False))
        peer.session.output.finish(peer.calls[-1][0], GrpcStatus.OK)
    assert peer.session._room_in + peer.session._unsaid_bytes == 64 * KIB


def test_large_answers_share_the_connection_s_window_by_turns() -> None:
    peer = Peer().begin()
    peer.say(call(1, flags=WHOLE), call(3, flags=WHOLE))
    for stream, _ in peer.calls:
        peer.grow(stream.id, 1 << 20)
        peer.session.output.write(stream, bytes(200 * KIB))
        peer.session.output.finish(stream, GrpcStatus.OK)
    peer.listen()
    assert peer.room[0] == 0
    before = {one: len(peer.answers[one]) for one in (1, 3)}
    peer.grow(0, 64 * KIB)
    grown = {one: len(peer.answers[one]) - before[one] for one in (1, 3)}
    assert grown == {1: 32 * KIB, 3: 32 * KIB}
    peer.grow(0, 1 << 20)
    assert peer.ends == {1: {"grpc-status": "0"}, 3: {"grpc-status": "0"}}
    assert {len(one) for one in peer.answers.values()} == {200 * KIB + 5}


def test_a_client_that_does_not_read_is_sent_no_more_data() -> None:
    limits = Http2Limits(unsent_bytes=128 * KIB)
    peer = Peer(limits).begin()
    peer.say(call(1, flags=WHOLE), window(0, 1 << 30), window(1, 1 << 30))
    output, (stream, _) = peer.session.output, peer.calls[0]
    output.write(stream, bytes(1 << 20))
    assert len(output.take_output()) < 192 * KIB
    output.is_paused = True
    assert not output.has_turns
    output.is_paused = False
    while output.has_turns:
        output.pump()
        output.take_output()
    assert stream.unsent is None


def test_another_first_window_counts_for_streams_that_are_open() -> None:
    peer = Peer().begin()
    peer.say(frames.settings({frames.INITIAL_WINDOW: 10}), call(1, flags=WHOLE))
    stream = peer.calls[0][0]
    peer.room[1] = 10
    peer.session.output.write(stream, bytes(20))
    peer.listen()
    assert len(peer.answers[1]) == 10
    peer.say(frames.settings({frames.INITIAL_WINDOW: 0}))
    assert stream.room_out == -10
    peer.room[1] = 5
    peer.say(frames.settings({frames.INITIAL_WINDOW: 15}))
    assert len(peer.answers[1]) == 15
    with pytest.raises(ConnectionFault):
        peer.say(frames.settings({frames.INITIAL_WINDOW: 2**31}))


def test_a_message_that_is_too_large_is_known_by_its_length() -> None:
    peer = Peer(Http2Limits(request_bytes=100)).begin()
    peer.say(call(1), frame(frames.DATA, 0, 1, b"\0\0\0\0\x65"), call(3), frame(frames.DATA, 0, 3, b"\x02\0\0\0\x01x"))
    for (stream, _), code in zip(peer.calls, (GrpcStatus.RESOURCE_EXHAUSTED, GrpcStatus.INTERNAL), strict=True):
        with pytest.raises(CallFailed) as failed:
            peer.session.read(stream)
        assert failed.value.code is code


def test_more_calls_than_there_may_be_are_refused_and_may_be_made_again() -> None:
    peer = Peer(Http2Limits(calls=1)).begin()
    peer.say(call(1), call(3))
    assert (peer.heard[-1].stream_id, peer.code(), len(peer.calls)) == (3, StreamCode.REFUSED_STREAM, 1)
    busy = Peer(takes=False).begin()
    busy.say(call(1))
    assert (busy.code(), busy.session.streams) == (StreamCode.REFUSED_STREAM, {})


def test_headers_that_are_too_large_are_answered_and_far_too_large_ones_end_the_connection() -> None:
    peer = Peer().begin()
    peer.say(call(1, ("x", "y" * 15_000), ("z", "y" * 1_300), flags=WHOLE))
    assert peer.ends[1]["grpc-status"] == str(int(GrpcStatus.RESOURCE_EXHAUSTED))
    assert not peer.calls
    encoder = Encoder()
    filled = encoder.encode([*HEAD, ("x", "y" * 4_000)], huffman=False)
    bomb = filled + encoder.encode([("x", "y" * 4_000)]) * 4_000
    with pytest.raises(ConnectionFault) as fault:
        peer.say(frame(frames.HEADERS, WHOLE, 3, bomb))
    assert fault.value.code is StreamCode.ENHANCE_YOUR_CALM


def test_after_the_end_was_told_no_call_begins_and_those_under_way_go_on() -> None:
    peer = Peer().begin()
    peer.say(call(1))
    peer.session.end()
    (told,) = peer.listen()
    assert (told.kind, told.payload) == (frames.GOAWAY, (1).to_bytes(4, "big") + bytes(4))
    assert not peer.say(call(3), sent(3, b"late"))
    peer.say(sent(1, b"asked"))
    assert peer.session.read(peer.calls[0][0]) == b"asked"
    assert len(peer.calls) == 1


def test_what_is_no_call_is_told_so() -> None:
    peer = Peer().begin()
    get = [(name, "GET" if name == ":method" else value) for name, value in HEAD]
    peer.say(frame(frames.HEADERS, WHOLE, 1, block(get)))
    assert b"gRPC" in peer.answers[1]
    assert not peer.calls


# --- What breaks the protocol ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pairs",
    [
        (*HEAD, ("X-Upper", "1")),
        (*HEAD, (":path", "/again")),
        (*HEAD[:2], *HEAD[3:]),
        (("x", "before"), *HEAD),
        (*HEAD, ("connection", "close")),
        (*HEAD, ("te", "gzip")),
        (*HEAD, ("x", "new\nline")),
        (*HEAD, ("grpc-timeout", "soon")),
        (*HEAD, ("grpc-timeout", "123456789S")),
        (*HEAD, ("content-length", "-1")),
        (*HEAD, ("content-length", "1"), ("content-length", "2")),
        (*HEAD, (":unknown", "1")),
    ],
)
def test_a_malformed_head_ends_its_stream_alone(pairs: tuple[tuple[str, str], ...]) -> None:
    peer = Peer().begin()
    peer.say(frame(frames.HEADERS, WHOLE, 1, block(pairs)), call(3))
    assert (peer.heard[-1].stream_id, peer.code()) == (1, StreamCode.PROTOCOL_ERROR)
    assert len(peer.calls) == 1


FLOODS = {
    "pings": frame(frames.PING, 0, 0, bytes(8)),
    "settings": frames.settings({frames.INITIAL_WINDOW: 70_000}),
    "priorities": frame(frames.PRIORITY, 0, 5, bytes(5)),
    "unknown frames": frame(0xEE, 0, 0, b"x"),
    "windows": window(0, 1),
    "empty data": frame(frames.DATA, 0, 1),
    "padding": frame(frames.DATA, frames.PADDED, 1, b"\x00"),
    "data of a closed call": frame(frames.DATA, 0, 3, b"x"),
}


@pytest.mark.parametrize("name", FLOODS)
def test_frames_that_bring_nothing_are_bounded(name: str) -> None:
    peer = Peer(Http2Limits(credit=100)).begin()
    peer.say(call(1), call(3), frames.reset(3, StreamCode.CANCEL))
    with pytest.raises(ConnectionFault) as fault:
        peer.say(*[FLOODS[name]] * 120)
    assert fault.value.code is StreamCode.ENHANCE_YOUR_CALM


def test_calls_that_are_reset_at_once_are_bounded() -> None:
    peer = Peer(Http2Limits(credit=100)).begin()
    flood = [call(number) + frames.reset(number, StreamCode.CANCEL) for number in range(1, 301, 2)]
    with pytest.raises(ConnectionFault) as fault:
        peer.say(*flood)
    assert fault.value.code is StreamCode.ENHANCE_YOUR_CALM
    assert len(peer.calls) < 120


def test_a_head_that_never_ends_is_bounded() -> None:
    peer = Peer(Http2Limits(credit=100)).begin()
    peer.say(frame(frames.HEADERS, 0, 1, block()))
    with pytest.raises(ConnectionFault) as empty:
        peer.say(*[frame(frames.CONTINUATION, 0, 1)] * 120)
    other = Peer().begin()
    other.say(frame(frames.HEADERS, 0, 1, block()))
    with pytest.raises(ConnectionFault) as full:
        other.say(*[frame(frames.CONTINUATION, 0, 1, bytes(FRAME_BYTES_MAX))] * 5)
    assert {empty.value.code, full.value.code} == {StreamCode.ENHANCE_YOUR_CALM}


def test_headers_of_one_byte_each_are_bounded() -> None:
    peer = Peer(Http2Limits(credit=1_000)).begin()
    encoder = Encoder()
    pairs = [*HEAD, ("x", "y"), *[("x", "y")] * 300]

    def ask() -> None:
        for number in range(1, 401, 2):
            peer.say(frame(frames.HEADERS, WHOLE, number, encoder.encode(pairs)))
            peer.session.output.finish(peer.calls[-1][0], GrpcStatus.OK)

    with pytest.raises(ConnectionFault) as fault:
        ask()
    assert fault.value.code is StreamCode.ENHANCE_YOUR_CALM
    assert len(peer.calls) < 100


def test_answers_and_time_allow_more_of_them() -> None:
    peer = Peer(Http2Limits(credit=20, credit_per_s=10)).begin()
    for number in range(1, 401, 2):  # a client that asks for a window and pings at each answer
        peer.say(call(number, flags=WHOLE))
        peer.session.output.write(peer.calls[-1][0], b"told")
        peer.session.output.finish(peer.calls[-1][0], GrpcStatus.OK)
        peer.listen()
        peer.grow(0, 9)
        peer.say(FLOODS["pings"])
    peer.say(*[FLOODS["pings"]] * 18)
    peer.session.credit.refill(0.5)
    peer.say(*[FLOODS["pings"]] * 5)
    with pytest.raises(ConnectionFault):
        peer.say(*[FLOODS["pings"]] * 5)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(frames.DATA, 0, 9, b"x"), StreamCode.PROTOCOL_ERROR),
        (frame(frames.DATA, frames.PADDED, 1, b"\x05ab"), StreamCode.PROTOCOL_ERROR),
        (frame(frames.HEADERS, WHOLE, 2, block()), StreamCode.PROTOCOL_ERROR),
        (frame(frames.HEADERS, WHOLE, 5, b"\xff\xff\xff\xff\xff"), StreamCode.COMPRESSION_ERROR),
        (frame(frames.HEADERS, WHOLE | frames.PRIORITIZED, 5, b"\0"), StreamCode.FRAME_SIZE_ERROR),
        (frame(frames.CONTINUATION, frames.END_HEADERS, 1, block()), StreamCode.PROTOCOL_ERROR),
        (frame(frames.HEADERS, 0, 5, block()) + frame(frames.PING, 0, 0, bytes(8)), StreamCode.PROTOCOL_ERROR),
        (frame(frames.PUSH_PROMISE, 0, 1, bytes(8)), StreamCode.PROTOCOL_ERROR),
        (frame(frames.PING, 0, 0, b"x"), StreamCode.FRAME_SIZE_ERROR),
        (frame(frames.SETTINGS, 0, 0, b"x"), StreamCode.FRAME_SIZE_ERROR),
        (frame(frames.SETTINGS, frames.ACK, 0, bytes(6)), StreamCode.FRAME_SIZE_ERROR),
        (frame(frames.SETTINGS, 0, 0, bytes(6 * 65)), StreamCode.ENHANCE_YOUR_CALM),
        (frame(frames.GOAWAY, 0, 1, bytes(8)), StreamCode.PROTOCOL_ERROR),
        (frame(frames.RST_STREAM, 0, 9, bytes(4)), StreamCode.PROTOCOL_ERROR),
        (window(0, 0), StreamCode.PROTOCOL_ERROR),
        (window(0, 2**31 - 1), StreamCode.FLOW_CONTROL_ERROR),
        (window(9, 1), StreamCode.PROTOCOL_ERROR),
        (b"\x00\x40\x01\x00" + bytes(5), StreamCode.FRAME_SIZE_ERROR),
    ],
)
def test_what_breaks_the_connection_ends_it_with_a_code(data: bytes, code: StreamCode) -> None:
    peer = Peer().begin()
    peer.say(call(1))
    with pytest.raises(ConnectionFault) as fault:
        peer.say(data)
    assert fault.value.code is code
    peer.session.fail(fault.value)
    assert [one.kind for one in split(peer.session.output.take_output())][-1] == frames.GOAWAY
    assert peer.session.has_begun


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"\x00\x00\x00\x20\x00\x12\x00\x00", BEGIN[:24] + frame(frames.PING, 0, 0, bytes(8))]
)
def test_another_protocol_is_known_by_its_first_bytes(data: bytes) -> None:
    peer = Peer()
    with pytest.raises(ConnectionFault):
        peer.say(data)
    assert not peer.session.has_begun

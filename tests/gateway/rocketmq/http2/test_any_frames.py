"""Whatever comes: the session answers or ends the connection, holds what it may and no more, and loses no message of an honest client."""

from __future__ import annotations

from typing import Final

from hpack import Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.gateway.rocketmq.http2 import frames
from penstock.gateway.rocketmq.http2.frames import ConnectionFault, frame
from penstock.gateway.rocketmq.http2.heads import CallFailed, GrpcStatus
from penstock.gateway.rocketmq.http2.limits import Http2Limits
from tests.gateway.rocketmq.http2.peer import BEGIN, HEAD, Heard, Peer, block, call, sent

LIMITS: Final = Http2Limits(
    calls=3,
    stream_window_bytes=1_024,
    connection_window_bytes=70_000,
    request_bytes=4_096,
    head_bytes=1_024,
    credit=60,
    unsent_bytes=2_048,
)
IDS: Final = st.sampled_from((0, 1, 2, 3, 5, 7, 2**31 - 1))
NUMBERS: Final = st.sampled_from((0, 1, 5, 1_000, 65_535, 2**31 - 1)).map(lambda number: number.to_bytes(4, "big"))
BLOCKS: Final = st.one_of(
    st.just(block()),
    st.just(block(HEAD, ("grpc-timeout", "1S"), ("x", "y" * 1_100))),
    st.just(Encoder().encode([*HEAD, ("x", "y" * 300)])),
    st.binary(max_size=40),
    st.just(b"\xbe" * 400),
)
SETTINGS: Final = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from((0, 1, 100, 16_384, 65_535, 2**31 - 1, 2**31))), max_size=4
).map(lambda pairs: b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in pairs))
PAYLOADS: Final = st.one_of(
    BLOCKS, NUMBERS, SETTINGS, st.binary(max_size=64), st.just(bytes(8)), st.just(b"\0\0\0\0\x05hello"), st.just(bytes(900))
)
FLAGS: Final = st.sampled_from((0, 1, 4, 5, 8, 9, 0x20, 0x24, 0x2D, 0xFF))
ANY: Final = st.builds(frame, st.integers(0, 11), FLAGS, IDS, PAYLOADS)
LIKELY: Final = st.one_of(
    st.builds(lambda key, flags: call(key, flags=flags), st.sampled_from((1, 3, 5, 7, 9)), st.sampled_from((4, 5, 0))),
    st.builds(lambda key, ends: sent(key, b"hello", ends=ends), st.sampled_from((1, 3, 5)), st.booleans()),
    st.builds(frames.reset, st.sampled_from((1, 3, 5)), st.sampled_from(list(frames.StreamCode))),
    st.builds(frames.window_update, st.sampled_from((0, 1, 3)), st.integers(1, 100_000)),
)


class LaxPeer(Peer):
    """Says what it likes, and so does not know what it allowed."""

    def listen(self) -> list[Heard]:
        while self.session.output.has_output:
            self.session.output.take_output()
            if self.session.output.has_turns:
                self.session.output.pump()
        return []


def held(peer: Peer) -> int:
    return sum(stream.held_bytes for stream in peer.session.streams.values())


@given(
    st.lists(st.one_of(ANY, LIKELY), max_size=40),
    st.sampled_from((1, 7, 100, 10**6)),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
)
@settings(deadline=None, max_examples=150)
def test_anything_is_answered_or_ends_the_connection_and_holds_little(said: list[bytes], piece: int, acts: list[int]) -> None:
    peer = LaxPeer(LIMITS)
    data = BEGIN + b"".join(said)
    try:
        for number, at in enumerate(range(0, len(data), piece)):
            peer.say(data[at : at + piece])
            session = peer.session
            assert len(session.streams) <= LIMITS.calls
            assert 0 <= held(peer) <= LIMITS.connection_window_bytes
            assert all(0 <= one.held_bytes <= LIMITS.stream_window_bytes for one in session.streams.values())
            for stream, _ in peer.calls:
                act = acts[number % len(acts)]
                try:
                    if stream.is_open and act == 1:
                        session.read(stream)
                    elif stream.is_open and act == 2 and stream.unsent is None:
                        session.output.write(stream, b"x" * 3_000)
                    elif stream.is_open and act == 3 and stream.ending is None:
                        session.output.finish(stream, GrpcStatus.OK)
                except CallFailed as failure:
                    if stream.ending is None:
                        session.output.finish(stream, failure.code, failure.message)
            peer.listen()
    except ConnectionFault:
        return
    for stream in tuple(peer.session.streams.values()):
        peer.session.lose(stream)
    found = peer.session
    assert held(peer) == 0
    assert found._room_in + found._unsaid_bytes == LIMITS.connection_window_bytes, "all room was given back"


@given(st.lists(st.one_of(ANY, LIKELY), max_size=20), st.lists(st.integers(1, 50), min_size=1, max_size=10))
@settings(deadline=None, max_examples=80)
def test_how_bytes_are_cut_changes_nothing(said: list[bytes], pieces: list[int]) -> None:
    data = BEGIN + b"".join(said)
    outcomes = []
    for whole in (True, False):
        peer, out, code = LaxPeer(LIMITS), b"", None
        at = number = 0
        try:
            while at < len(data):
                size = len(data) if whole else pieces[number % len(pieces)]
                peer.session.receive(data[at : at + size])
                at, number = at + size, number + 1
        except ConnectionFault as fault:
            code = fault.code
        while peer.session.output.has_output:
            out += peer.session.output.take_output()
        outcomes.append((out, code, [head for _, head in peer.calls]))
    assert outcomes[0] == outcomes[1]


class HonestClient:
    """Sends what it has room for, and gives room in any order. The handlers read and write in any order, too."""

    def __init__(self, calls: list[tuple[list[bytes], list[bytes]]]) -> None:
        self.peer = Peer(LIMITS).begin()
        self.peer.say(frames.settings({frames.INITIAL_WINDOW: 100}))
        self.peer.stream_room = 100
        self.read: dict[int, list[bytes]] = {}
        self._to_send: dict[int, bytes] = {}
        self._to_answer: dict[int, list[bytes]] = {}
        self._room = {0: 65_535}
        for number, (asked, answered) in enumerate(calls):
            key = 2 * number + 1
            self.peer.say(call(key))
            self._to_send[key], self._to_answer[key], self.read[key] = framed(asked), list(answered), []
            self._room[key] = LIMITS.stream_window_bytes
        self.streams = {stream.id: stream for stream, _ in self.peer.calls}
        self.acts = (self._sends, self._reads, self._writes, self._grows)

    def step(self, act: int, key: int, size: int) -> bool:
        """Whether it did something."""
        did = self.acts[act](key, size)
        self.peer.session.credit.refill(1.0)
        return did

    def _heard(self, heard: list[Heard]) -> None:
        for one in heard:
            if one.kind == frames.WINDOW_UPDATE:
                self._room[one.stream_id] += one.number

    def _sends(self, key: int, size: int) -> bool:
        stream, left = self.streams[key], self._to_send[key]
        size = min(len(left), self._room[0], self._room[key], size)
        if stream.is_whole or (left and not size):
            return False
        self._to_send[key] = left[size:]
        self._room[0] -= size
        self._room[key] -= size
        ends = frames.END_STREAM if size == len(left) else 0
        self._heard(self.peer.say(frame(frames.DATA, ends, key, left[:size])))
        return True

    def _reads(self, key: int, size: int) -> bool:
        message = self.peer.session.read(self.streams[key])
        self._heard(self.peer.listen())
        if message is not None:
            self.read[key].append(message)
        return message is not None

    def _writes(self, key: int, size: int) -> bool:
        stream = self.streams[key]
        if stream.unsent is not None or not self._to_answer[key]:
            return False
        self.peer.session.output.write(stream, self._to_answer[key].pop(0))
        self._heard(self.peer.listen())
        return True

    def _grows(self, key: int, size: int) -> bool:
        if self.streams[key].unsent is None:
            return False
        self._heard([*self.peer.grow(key, 700), *self.peer.grow(0, 900)])
        return True


def framed(messages: list[bytes]) -> bytes:
    return b"".join(b"\0" + len(one).to_bytes(4, "big") + one for one in messages)


MESSAGES: Final = st.lists(st.binary(max_size=3_000), max_size=4)
STEPS: Final = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from((1, 300, 16_384))), max_size=60)


@given(st.lists(st.tuples(MESSAGES, MESSAGES), min_size=1, max_size=3), STEPS)
@settings(deadline=None, max_examples=80)
def test_an_honest_client_s_messages_come_whole_and_in_order_both_ways(
    calls: list[tuple[list[bytes], list[bytes]]], steps: list[tuple[int, int, int]]
) -> None:
    client = HonestClient(calls)
    keys = tuple(client.streams)
    for act, number, size in steps:
        client.step(act, keys[number % len(keys)], size)
    while sum([client.step(act, key, 16_384) for act in range(len(client.acts)) for key in keys]):
        pass
    peer = client.peer
    for key, (asked, answered) in zip(keys, calls, strict=True):
        assert client.read[key] == asked
        assert client.streams[key].held_bytes == 0, "what was read made room"
        assert bytes(peer.answers[key]) == framed(answered)
        peer.session.output.finish(client.streams[key], GrpcStatus.OK)
    peer.listen()
    assert [one["grpc-status"] for one in peer.ends.values()] == ["0"] * len(calls)
    assert peer.session._room_in + peer.session._unsaid_bytes == LIMITS.connection_window_bytes

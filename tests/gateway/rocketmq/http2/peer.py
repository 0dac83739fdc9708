"""The client's side of a connection, frame by frame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from hpack import Decoder, Encoder

from penstock.gateway.rocketmq.http2 import frames
from penstock.gateway.rocketmq.http2.frames import FRAME_HEAD, HEAD_BYTES, PREFACE, WINDOW_FIRST, StreamCode, frame
from penstock.gateway.rocketmq.http2.heads import CallHead
from penstock.gateway.rocketmq.http2.limits import Http2Limits
from penstock.gateway.rocketmq.http2.session import Http2Session
from penstock.gateway.rocketmq.http2.streams import Http2Stream

HEAD: Final = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/a.Service/Call"),
    (":authority", "here"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)
BEGIN: Final = PREFACE + frames.settings({})
WHOLE: Final = frames.END_HEADERS | frames.END_STREAM


@dataclass(frozen=True, slots=True)
class Heard:
    """A frame that came."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes

    @property
    def number(self) -> int:
        """The last four bytes: a code, or a window."""
        return int.from_bytes(self.payload[-4:], "big")


def split(data: bytes) -> Iterator[Heard]:
    """The frames of bytes that begin and end with one."""
    at = 0
    while at < len(data):
        high, low, kind, flags, stream_id = FRAME_HEAD.unpack_from(data, at)
        end = at + HEAD_BYTES + (high << 8 | low)
        assert end <= len(data), "frames are written whole"
        yield Heard(kind, flags, stream_id, data[at + HEAD_BYTES : end])
        at = end


def block(pairs: Iterable[tuple[str, str]] = HEAD, *more: tuple[str, str]) -> bytes:
    """A header block that leaves the table as it is."""
    return Encoder().encode([(name, value, True) for name, value in (*pairs, *more)])


def call(stream_id: int, *more: tuple[str, str], flags: int = frames.END_HEADERS) -> bytes:
    """The beginning of a call."""
    return frame(frames.HEADERS, flags, stream_id, block(HEAD, *more))


def sent(stream_id: int, message: bytes, *, ends: bool = True) -> bytes:
    data = b"\0" + len(message).to_bytes(4, "big") + message
    return frame(frames.DATA, frames.END_STREAM if ends else 0, stream_id, data)


def window(stream_id: int, more: int) -> bytes:
    return frames.window_update(stream_id, more)


@dataclass
class Peer:
    """Speaks to a session, and checks that it keeps to the windows that it was given."""

    limits: Http2Limits = field(default_factory=Http2Limits)
    takes: bool = True
    """Whether the session's owner takes calls."""

    def __post_init__(self) -> None:
        self.calls: list[tuple[Http2Stream, CallHead]] = []
        self.session = Http2Session(self.limits, self._on_call)
        self.heard: list[Heard] = []
        self.stream_room = WINDOW_FIRST
        self.room: defaultdict[int, int] = defaultdict(lambda: self.stream_room, {0: WINDOW_FIRST})
        """What the session may send: on the connection, and on each stream."""
        self.answers: defaultdict[int, bytearray] = defaultdict(bytearray)
        self.ends: dict[int, dict[str, str]] = {}
        """The trailers, and the head where they are alone."""
        self._decoder = Decoder()

    def _on_call(self, stream: Http2Stream, head: CallHead) -> bool:
        if self.takes:
            self.calls.append((stream, head))
        return self.takes

    def begin(self) -> Peer:
        self.say(BEGIN)
        return self

    def say(self, *parts: bytes) -> list[Heard]:
        """What the session answers."""
        self.session.receive(b"".join(parts))
        return self.listen()

    def grow(self, stream_id: int, more: int) -> list[Heard]:
        self.room[stream_id] += more
        return self.say(window(stream_id, more))

    def listen(self) -> list[Heard]:
        """Take all that the session has to say now."""
        found: list[Heard] = []
        output = self.session.output
        while output.has_output:
            found += split(output.take_output())
            if output.has_turns:
                output.pump()
        for one in found:
            self._take(one)
        self.heard += found
        return found

    def _take(self, one: Heard) -> None:
        if one.kind == frames.DATA:
            for key in (0, one.stream_id):
                self.room[key] -= len(one.payload)
                assert self.room[key] >= 0, "no more is sent than there is room for"
            self.answers[one.stream_id] += one.payload
        elif one.kind == frames.HEADERS:
            pairs = dict(self._decoder.decode(one.payload))
            if one.flags & frames.END_STREAM:
                self.ends[one.stream_id] = {str(name): str(value) for name, value in pairs.items()}

    def code(self) -> StreamCode | None:
        """The code of the stream's or the connection's end that was told last."""
        ends = [one for one in self.heard if one.kind in (frames.RST_STREAM, frames.GOAWAY)]
        if not ends:
            return None
        last = ends[-1]
        return StreamCode(int.from_bytes(last.payload[:4] if last.kind == frames.RST_STREAM else last.payload[4:8], "big"))

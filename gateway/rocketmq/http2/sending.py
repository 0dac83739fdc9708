"""What one connection sends: frames in order, and data by turns, as far as the client and the transport have room."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from . import frames
from .credit import FrameCredit
from .frames import FRAME_BYTES_MAX, WINDOW_FIRST, WINDOW_MAX, ConnectionFault, StreamCode, StreamFault
from .heads import GrpcStatus, trailers
from .limits import Http2Limits
from .messages import with_prefix
from .streams import Http2Stream

_LAST: Final = frames.END_HEADERS | frames.END_STREAM


class FrameSender:
    """Gathers what is to be sent. Data waits in its stream while as much is gathered as may be, or `is_paused` is set; `pump` goes on."""

    def __init__(self, limits: Http2Limits, credit: FrameCredit, on_sent: Callable[[Http2Stream], None]) -> None:
        """``on_sent`` is told of each stream whose answer is sent."""
        self.is_paused = False
        """Whether the transport takes no more."""
        self.stream_room = WINDOW_FIRST
        """The window of new streams."""
        self._room = WINDOW_FIRST
        self._limits = limits
        self._credit = credit
        self._on_sent = on_sent
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._waiting: dict[int, Http2Stream] = {}
        """Streams that have more to send, in turn."""

    @property
    def has_output(self) -> bool:
        return bool(self._out)

    @property
    def has_turns(self) -> bool:
        """Whether `pump` would send something."""
        return bool(self._waiting) and self._can_send()

    def take_output(self) -> bytes:
        """What is to be written next."""
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        return data

    def put(self, data: bytes) -> None:
        """Send a frame without data."""
        self._out.append(data)
        self._out_bytes += len(data)

    def write(self, stream: Http2Stream, message: bytes) -> None:
        """Send a message, or begin to: the rest is ``unsent`` in the stream, and is to be gone before the next one."""
        stream.unsent = memoryview(with_prefix(message))
        self._send(stream)

    def finish(self, stream: Http2Stream, code: GrpcStatus, message: str = "") -> None:
        """End the answer, when what is unsent was sent."""
        stream.ending = trailers(code, message, alone=stream.answer_head is not None)
        if stream.unsent is None:
            self._end(stream)

    def refuse(self, stream: Http2Stream, text: bytes) -> None:
        """Answer what is no call."""
        stream.unsent, stream.ending = memoryview(text), trailers(GrpcStatus.UNKNOWN)
        self._send(stream)

    def pump(self) -> None:
        """Send what waits, a frame of each stream, as far as there is room."""
        for _ in range(len(self._waiting)):
            if not self._can_send():
                return
            stream = next(iter(self._waiting.values()))
            del self._waiting[stream.id]
            self._send(stream)

    def grow(self, more: int) -> None:
        """The client has room for more data of all streams. Raises `ConnectionFault`."""
        self._room += more
        if not more or self._room > WINDOW_MAX:
            code = StreamCode.FLOW_CONTROL_ERROR if more else StreamCode.PROTOCOL_ERROR
            raise ConnectionFault(code, "the connection's window grows by nothing or beyond any")
        self.pump()

    def grow_stream(self, stream: Http2Stream, more: int) -> None:
        """The same for one stream. Raises `StreamFault`."""
        stream.room_out += more
        if stream.room_out > WINDOW_MAX:
            raise StreamFault(StreamCode.FLOW_CONTROL_ERROR, "a window is larger than any")
        if stream.unsent is not None:
            self._waiting[stream.id] = stream
            self.pump()

    def change_stream_room(self, room: int, streams: Iterable[Http2Stream]) -> None:
        """Every stream's window is another from its beginning on. Raises `ConnectionFault`."""
        more, self.stream_room = room - self.stream_room, room
        if not more:
            return
        for stream in streams:
            stream.room_out += more
            if stream.room_out > WINDOW_MAX:
                raise ConnectionFault(StreamCode.FLOW_CONTROL_ERROR, "a window is larger than any")
            if stream.unsent is not None:
                self._waiting[stream.id] = stream
        self.pump()

    def forget(self, stream: Http2Stream) -> None:
        """Send nothing more of a stream."""
        stream.unsent = None
        self._waiting.pop(stream.id, None)

    def _can_send(self) -> bool:
        return self._room > 0 and not self.is_paused and self._out_bytes < self._limits.unsent_bytes

    def _send(self, stream: Http2Stream) -> None:
        """Send as far as there is room. A stream waits its turn where the room of all is used up, and else until its own grows."""
        if stream.answer_head is not None:
            self.put(frames.frame(frames.HEADERS, frames.END_HEADERS, stream.id, stream.answer_head))
            stream.answer_head = None
        while (unsent := stream.unsent) is not None:
            if not self._can_send():
                self._waiting[stream.id] = stream
                return
            size = min(len(unsent), stream.room_out, self._room, FRAME_BYTES_MAX)
            if size <= 0:
                return
            stream.unsent = None if size == len(unsent) else unsent[size:]
            stream.room_out -= size
            self._room -= size
            self.put(frames.frame(frames.DATA, 0, stream.id, bytes(unsent[:size])))
            self._credit.earn()
            if self._waiting and stream.unsent is not None:
                self._waiting[stream.id] = stream
                return
        if stream.ending is not None:
            self._end(stream)
        elif stream.listener is not None:
            stream.listener.on_change()

    def _end(self, stream: Http2Stream) -> None:
        assert stream.ending is not None, "the end is known"
        self.put(frames.frame(frames.HEADERS, _LAST, stream.id, stream.ending))
        self._credit.earn()
        if not stream.is_whole:
            self.put(frames.reset(stream.id, StreamCode.NO_ERROR))
        self._on_sent(stream)

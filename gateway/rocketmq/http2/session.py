"""The state of one connection: frames in, frames out. It does no I/O, and knows no time but what it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hpack import Decoder, HPACKError, OversizedHeaderListError

from ...bounds.first_bytes import GRPC, LOOKED_BYTES, foreign_protocol
from . import frames
from .credit import FrameCredit
from .frames import (
    FRAME_BYTES_MAX,
    FRAME_HEAD,
    HEAD_BYTES,
    PREFACE,
    WINDOW_FIRST,
    WINDOW_MAX,
    ConnectionFault,
    NotHttp2,
    StreamCode,
    StreamFault,
)
from .heads import NOT_GRPC_TEXT, CallHead, GrpcStatus, call_head, check_trailers
from .limits import Http2Limits
from .messages import PREFIX_BYTES
from .sending import FrameSender
from .streams import Http2Stream

_SETTINGS_MAX: Final = 64
"""More entries of settings than there are kinds, many times."""
_OVERHEAD_BYTES: Final = 32
"""What a header counts for beside its text (RFC 9113, 6.5.2)."""
_HEADERS_OF_CREDIT: Final = 16
"""A header may be one byte, and takes microseconds. A call has some 20."""
_UNPACKED: Final = 4
"""A head so many times too large is answered. One beyond ends its connection, as what it left in the table is unknown."""


class Http2Session:
    """A connection's streams, and what comes of them. What goes is in ``output``."""

    def __init__(self, limits: Http2Limits, on_call: Callable[[Http2Stream, CallHead], bool]) -> None:
        """``on_call`` is told of each call, and returns False to refuse it."""
        self.streams: dict[int, Http2Stream] = {}
        self.credit = FrameCredit(limits)
        self.output = FrameSender(limits, self.credit, self._forget)
        self._limits = limits
        self._on_call = on_call
        self._rest = b""
        self._has_preface = False
        self._has_settings = False
        self._is_ending = False
        self._last_id = 0
        self._last_taken_id = 0
        self._block: tuple[int, int, bytearray] | None = None
        """The stream, the flags and the bytes of a header block that goes on in the next frame."""
        self._decoder = Decoder(max_header_list_size=_UNPACKED * limits.head_bytes)
        self._room_in = limits.connection_window_bytes
        self._unsaid_bytes = 0
        """Room for more that the client was not told of."""
        self._takers: Final = (
            self._take_data,
            self._take_headers,
            self._take_priority,
            self._take_reset,
            self._take_settings,
            self._take_push,
            self._take_ping,
            self._take_goaway,
            self._take_window,
            self._take_continuation,
        )
        told = {
            frames.STREAMS_MAX: limits.calls,
            frames.INITIAL_WINDOW: limits.stream_window_bytes,
            frames.HEADER_LIST_MAX: limits.head_bytes,
        }
        self.output.put(frames.settings(told))
        if (more := limits.connection_window_bytes - WINDOW_FIRST) > 0:
            self.output.put(frames.window_update(0, more))

    @property
    def has_begun(self) -> bool:
        """Whether the client speaks HTTP/2."""
        return self._has_settings

    def receive(self, data: bytes) -> None:
        """Take what came. Raises `ConnectionFault`."""
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        if not self._has_preface:
            if data[: len(PREFACE)] != PREFACE[:end]:
                raise NotHttp2(foreign_protocol(data[:LOOKED_BYTES], own=GRPC))
            if end < len(PREFACE):
                self._rest = data
                return
            self._has_preface, at = True, len(PREFACE)
        while end - at >= HEAD_BYTES:
            high, low, kind, flags, stream_id = FRAME_HEAD.unpack_from(data, at)
            size = high << 8 | low
            if size > FRAME_BYTES_MAX:
                raise ConnectionFault(StreamCode.FRAME_SIZE_ERROR, f"a frame has {size} bytes, and may have {FRAME_BYTES_MAX}")
            after = at + HEAD_BYTES + size
            if after > end:
                break
            self._take(kind, flags, stream_id & WINDOW_MAX, data[at + HEAD_BYTES : after])
            at = after
        self._rest = data[at:]

    # --- What calls do ---

    def reset(self, stream: Http2Stream, code: StreamCode) -> None:
        """End a stream without an answer."""
        self.output.put(frames.reset(stream.id, code))
        self._forget(stream)

    def read(self, stream: Http2Stream) -> bytes | None:
        """The next message; None: it is not there, and makes room as it comes. Raises `CallFailed`."""
        message = stream.inbox.next()
        stream.is_read = message is None
        size = stream.held_bytes if message is None else min(stream.held_bytes, len(message) + PREFIX_BYTES)
        if size:
            stream.held_bytes -= size
            self._make_room(stream, size)
        return message

    def end(self) -> None:
        """Take no more calls."""
        self._is_ending = True
        self.output.put(frames.goaway(self._last_taken_id, StreamCode.NO_ERROR))

    def fail(self, fault: ConnectionFault) -> None:
        """Tell the client why its connection ends."""
        self.output.put(frames.goaway(self._last_taken_id, fault.code, str(fault)))

    def lose(self, stream: Http2Stream) -> None:
        """The connection is gone, and its streams with it."""
        self._forget(stream, is_gone=True)

    def ping(self) -> None:
        self.output.put(frames.frame(frames.PING, 0, 0, bytes(8)))

    # --- What came ---

    def _take(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is not None and kind != frames.CONTINUATION:
            raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "a header block is interrupted")
        if not self._has_settings:
            if kind != frames.SETTINGS or flags & frames.ACK:
                raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "the first frame has no settings")
            self._has_settings = True
        if kind >= len(self._takers):
            self.credit.spend()
            return
        try:
            self._takers[kind](flags, stream_id, payload)
        except StreamFault as fault:
            self.credit.spend()
            self.output.put(frames.reset(stream_id, fault.code))
            if (stream := self.streams.get(stream_id)) is not None:
                self._forget(stream, is_gone=True)

    def _take_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id or stream_id > self._last_id:
            raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "data comes without a call")
        size = len(payload)
        self._room_in -= size
        if self._room_in < 0:
            raise ConnectionFault(StreamCode.FLOW_CONTROL_ERROR, "more data came than the connection has room for")
        data = frames.unpadded(flags, payload)
        stream = self.streams.get(stream_id)
        if stream is None or stream.is_whole:
            self._make_connection_room(size)
            if stream is None and stream_id > self._last_taken_id:
                return  # of a call that came after the end was told
            raise StreamFault(StreamCode.STREAM_CLOSED, "data comes behind its end")
        stream.room_in -= size
        stream.held_bytes += size
        if stream.room_in < 0:
            raise StreamFault(StreamCode.FLOW_CONTROL_ERROR, "more data came than the call has room for")
        if not data and not flags & frames.END_STREAM:
            self.credit.spend()
        if stream.left_bytes is not None:
            stream.left_bytes -= len(data)
            if stream.left_bytes < 0:
                raise StreamFault(StreamCode.PROTOCOL_ERROR, "more data came than was said")
        if stream.is_call:
            stream.inbox.feed(data)
        padding = size - len(data)
        if (room := stream.held_bytes if stream.is_read else padding) > 0:
            stream.held_bytes -= room
            self._make_room(stream, room)
        if flags & frames.END_STREAM:
            self._take_end(stream)
        elif stream.listener is not None:
            stream.listener.on_change()

    def _take_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id % 2 == 0:
            raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "a client's streams have odd numbers")
        block = frames.unpadded(flags, payload)
        if flags & frames.PRIORITIZED:
            if len(block) < 5:
                raise ConnectionFault(StreamCode.FRAME_SIZE_ERROR, "a priority is cut")
            if int.from_bytes(block[:4], "big") & WINDOW_MAX == stream_id:
                raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "a stream depends on itself")
            block = block[5:]
        if flags & frames.END_HEADERS:
            self._take_block(flags, stream_id, block)
        else:
            self._block = (stream_id, flags, bytearray(block))

    def _take_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != stream_id:
            raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "a header block goes on that did not begin")
        _, of_first, block = self._block
        block += payload
        self.credit.spend()
        if len(block) > _UNPACKED * self._limits.head_bytes:
            raise ConnectionFault(StreamCode.ENHANCE_YOUR_CALM, "a header block is too large")
        if flags & frames.END_HEADERS:
            self._block = None
            self._take_block(of_first, stream_id, bytes(block))

    def _take_block(self, flags: int, stream_id: int, block: bytes) -> None:
        try:
            pairs = tuple(self._decoder.decode(block, raw=True))
        except OversizedHeaderListError:
            raise ConnectionFault(StreamCode.ENHANCE_YOUR_CALM, "the headers are too large") from None
        except HPACKError:
            raise ConnectionFault(StreamCode.COMPRESSION_ERROR, "a header block cannot be unpacked") from None
        self.credit.spend(len(pairs) // _HEADERS_OF_CREDIT)
        stream = self.streams.get(stream_id)
        if stream is not None:
            if stream.is_whole:
                raise StreamFault(StreamCode.STREAM_CLOSED, "headers come behind the end")
            if not flags & frames.END_STREAM:
                raise StreamFault(StreamCode.PROTOCOL_ERROR, "headers come twice")
            check_trailers(pairs)
            self._take_end(stream)
            return
        if stream_id <= self._last_id:
            raise ConnectionFault(StreamCode.STREAM_CLOSED, "headers come on a closed stream")
        self._last_id = stream_id
        if self._is_ending:
            return
        self._last_taken_id = stream_id
        head = call_head(pairs)
        if len(self.streams) >= self._limits.calls:
            raise StreamFault(StreamCode.REFUSED_STREAM, "there are too many calls")
        stream = Http2Stream(stream_id, head, self._limits, self.output.stream_room)
        self.streams[stream_id] = stream
        if not head.is_grpc:
            self.credit.spend()
        elif sum([len(name) + len(value) + _OVERHEAD_BYTES for name, value in pairs]) > self._limits.head_bytes:
            self.credit.spend()
            self.output.finish(
                stream, GrpcStatus.RESOURCE_EXHAUSTED, f"the headers are larger than {self._limits.head_bytes} bytes"
            )
            return
        elif not self._on_call(stream, head):
            raise StreamFault(StreamCode.REFUSED_STREAM, "there are too many calls")
        if flags & frames.END_STREAM:
            self._take_end(stream)

    def _take_end(self, stream: Http2Stream) -> None:
        if stream.left_bytes:
            raise StreamFault(StreamCode.PROTOCOL_ERROR, "less data came than was said")
        stream.is_whole = True
        if stream.listener is not None:
            stream.listener.on_change()
        elif not stream.is_call:
            self.output.refuse(stream, NOT_GRPC_TEXT)

    def _take_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id:
            raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "a priority has no stream")
        if len(payload) != 5:
            raise StreamFault(StreamCode.FRAME_SIZE_ERROR, "a priority has another size")
        if int.from_bytes(payload[:4], "big") & WINDOW_MAX == stream_id:
            raise StreamFault(StreamCode.PROTOCOL_ERROR, "a stream depends on itself")
        self.credit.spend()

    def _take_reset(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(StreamCode.FRAME_SIZE_ERROR, "a reset has another size")
        self._check_known(stream_id)
        self.credit.spend()
        if (stream := self.streams.get(stream_id)) is not None:
            self._forget(stream, is_gone=True)

    def _take_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "settings are of the connection")
        if len(payload) % 6 or (flags & frames.ACK and payload):
            raise ConnectionFault(StreamCode.FRAME_SIZE_ERROR, "settings have another size")
        self.credit.spend()
        if flags & frames.ACK:
            return
        if len(payload) > 6 * _SETTINGS_MAX:
            raise ConnectionFault(StreamCode.ENHANCE_YOUR_CALM, "there are more settings than there are kinds")
        room = self.output.stream_room
        for at in range(0, len(payload), 6):
            key, value = int.from_bytes(payload[at : at + 2], "big"), int.from_bytes(payload[at + 2 : at + 6], "big")
            if key == frames.ENABLE_PUSH and value > 1:
                raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "push is neither on nor off")
            if key == frames.FRAME_MAX and not FRAME_BYTES_MAX <= value < 2**24:
                raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "no frame may be of the largest size")
            if key == frames.INITIAL_WINDOW:
                if value > WINDOW_MAX:
                    raise ConnectionFault(StreamCode.FLOW_CONTROL_ERROR, "the window is larger than any")
                room = value
        self.output.put(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self.output.change_stream_room(room, tuple(self.streams.values()))

    def _take_push(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "a client promises nothing")

    def _take_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "a ping is of the connection")
        if len(payload) != 8:
            raise ConnectionFault(StreamCode.FRAME_SIZE_ERROR, "a ping has another size")
        self.credit.spend()
        if not flags & frames.ACK:
            self.output.put(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _take_goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "an end is of the connection")
        if len(payload) < 8:
            raise ConnectionFault(StreamCode.FRAME_SIZE_ERROR, "an end has another size")
        self.credit.spend()

    def _take_window(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(StreamCode.FRAME_SIZE_ERROR, "a window has another size")
        self.credit.spend()
        more = int.from_bytes(payload, "big") & WINDOW_MAX
        if not stream_id:
            self.output.grow(more)
            return
        self._check_known(stream_id)
        if not more:
            raise StreamFault(StreamCode.PROTOCOL_ERROR, "a window grows by nothing")
        if (stream := self.streams.get(stream_id)) is not None:
            self.output.grow_stream(stream, more)

    def _check_known(self, stream_id: int) -> None:
        if not stream_id or stream_id > self._last_id or stream_id % 2 == 0:
            raise ConnectionFault(StreamCode.PROTOCOL_ERROR, "a frame is of a stream that did not begin")

    # --- Room ---

    def _forget(self, stream: Http2Stream, *, is_gone: bool = False) -> None:
        """Let go of a stream, and make room for what it left unread."""
        stream.is_open = False
        self.streams.pop(stream.id, None)
        self.output.forget(stream)
        self._make_connection_room(stream.held_bytes)
        stream.held_bytes = 0
        listener, stream.listener = stream.listener, None  # without a circle, which only the collector would find
        if listener is not None:
            if is_gone:
                listener.on_gone()
            else:
                listener.on_change()

    def _make_room(self, stream: Http2Stream, size: int) -> None:
        self._make_connection_room(size)
        if stream.is_whole:
            return
        stream.unsaid_bytes += size
        if stream.unsaid_bytes * 2 >= self._limits.stream_window_bytes:
            self.output.put(frames.window_update(stream.id, stream.unsaid_bytes))
            stream.room_in += stream.unsaid_bytes
            stream.unsaid_bytes = 0

    def _make_connection_room(self, size: int) -> None:
        self._unsaid_bytes += size
        if self._unsaid_bytes * 2 >= self._limits.connection_window_bytes:
            self.output.put(frames.window_update(0, self._unsaid_bytes))
            self._room_in += self._unsaid_bytes
            self._unsaid_bytes = 0

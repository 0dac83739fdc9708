"""What surrounds requests and answers: lengths and headers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ...bounds.first_bytes import KAFKA, LOOKED_BYTES, foreign_protocol
from .apis import APIS, Api
from .errors import ErrorCode, KafkaRefusal, NotKafka
from .reading import WireReader, malformed

_LENGTH: Final = Struct(">i")
_HEAD: Final = Struct(">hhih")
"""API, version, correlation id, and the length of the client id."""
_ANSWER: Final = Struct(">ii")
_ANSWER_FLEXIBLE: Final = Struct(">iib")
_CLIENT_ID_CHARS_MAX: Final = 256
"""The rest of a longer client id is left out."""


class FrameSplitter:
    """Splits what a connection sends into frames. A frame that came in one piece is a view of it; one that came in several is copied once."""

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        """The largest frame of which the length has not come."""
        self._rest = memoryview(b"")
        self._gathered = bytearray()
        self._length: int | None = None

    @property
    def is_amid_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self._length is not None or bool(self._gathered) or bool(self._rest)

    def feed(self, chunk: bytes) -> None:
        self._rest = memoryview(bytes(self._rest) + chunk if self._rest else chunk)

    def next_length(self) -> int | None:
        """The length of the next frame; None before its four bytes came. Raises `KafkaRefusal` for one that no request has."""
        if self._length is None:
            head = self._take(_LENGTH.size)
            if head is None:
                return None
            length: int = _LENGTH.unpack(head)[0]
            if not _HEAD.size <= length <= self.frame_bytes_max:
                raise self._of_no_length(length)
            self._length = length
        return self._length

    def next_frame(self) -> memoryview | None:
        """The next frame without its length; None before it came whole. Raises `KafkaRefusal` like `next_length`."""
        length = self.next_length()
        frame = None if length is None else self._take(length)
        if frame is not None:
            self._length = None
        return frame

    def _take(self, size: int) -> memoryview | None:
        if not self._gathered and size <= len(self._rest):
            taken, self._rest = self._rest[:size], self._rest[size:]
            return taken
        missing = size - len(self._gathered)
        self._gathered += self._rest[:missing]
        self._rest = self._rest[missing:]
        if len(self._gathered) < size:
            return None
        taken, self._gathered = memoryview(self._gathered), bytearray()
        return taken

    def _of_no_length(self, length: int) -> KafkaRefusal:
        began = _LENGTH.pack(length) + bytes(self._rest[: LOOKED_BYTES - _LENGTH.size])
        if (other := foreign_protocol(began, own=KAFKA)) is not None:
            return NotKafka(other)
        return malformed(f"a frame has {length} bytes, and may have {_HEAD.size} to {self.frame_bytes_max}")


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """What a request says before its body."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    """Empty where there is none."""
    body_at: int
    """The body's position in the frame."""
    is_served: bool
    """Whether the version is served. If not, the body is not to be read."""


def parse_header(frame: memoryview) -> RequestHeader:
    """The header of a frame. Raises `KafkaRefusal` with `UNSUPPORTED_VERSION` for an unknown API, and with `INVALID_REQUEST`."""
    reader = WireReader(frame)
    key, version, correlation_id, _ = _HEAD.unpack_from(frame, reader.skip(_HEAD.size))
    api = APIS.get(key)
    if api is None or version < 0:
        raise KafkaRefusal(ErrorCode.UNSUPPORTED_VERSION, f"there is no API {key} of version {version} here")
    reader.pos -= 2
    client_id = reader.text(compact=False, nullable=True) or ""
    is_served = api.serves(version)
    if is_served and api.is_flexible(version):
        reader.skip_tags()
    return RequestHeader(api, version, correlation_id, client_id[:_CLIENT_ID_CHARS_MAX], reader.pos, is_served)


def answer_head(api: Api, version: int, correlation_id: int, body_bytes: int) -> bytes:
    """The length and header before an answer's body."""
    if api.has_flexible_answer_header(version):
        return _ANSWER_FLEXIBLE.pack(5 + body_bytes, correlation_id, 0)
    return _ANSWER.pack(4 + body_bytes, correlation_id)

"""One call's stream."""

from __future__ import annotations

from typing import Protocol

from .heads import ANSWER, NOT_GRPC, CallHead
from .limits import Http2Limits
from .messages import MessageInbox


class CallListener(Protocol):
    """What a call learns of its stream."""

    def on_change(self) -> None:
        """More can be read or written, or the stream has ended."""
        ...

    def on_gone(self) -> None:
        """The client ended the call."""
        ...


class Http2Stream:
    """The state of a stream. It is forgotten when its answer is sent, or either side ended it."""

    __slots__ = (
        "answer_head",
        "ending",
        "held_bytes",
        "id",
        "inbox",
        "is_open",
        "is_read",
        "is_whole",
        "left_bytes",
        "listener",
        "room_in",
        "room_out",
        "unsaid_bytes",
        "unsent",
    )

    def __init__(self, id: int, head: CallHead, limits: Http2Limits, room_out: int) -> None:
        self.id = id
        self.listener: CallListener | None = None
        self.is_open = True
        self.inbox = MessageInbox(limits.request_bytes)
        self.is_whole = False
        """Whether the client sends no more."""
        self.is_read = not head.is_grpc
        """Whether the next message is waited for, so that what comes makes room at once. What is no call is read by nobody, and makes room."""
        self.left_bytes = head.size_bytes
        """What is to come by the client's own word."""
        self.room_in = limits.stream_window_bytes
        self.held_bytes = 0
        """What came, and made no room for more yet."""
        self.unsaid_bytes = 0
        """Room for more that the client was not told of."""
        self.room_out = room_out
        self.answer_head: bytes | None = ANSWER if head.is_grpc else NOT_GRPC
        """None: it is sent."""
        self.unsent: memoryview | None = None
        """The rest of the message that is being sent."""
        self.ending: bytes | None = None
        """The trailers, which follow what is unsent."""

    @property
    def is_call(self) -> bool:
        return self.answer_head is not NOT_GRPC

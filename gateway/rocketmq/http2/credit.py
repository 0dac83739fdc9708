"""The bound of frames that bring nothing: pings, settings, resets, empty data."""

from __future__ import annotations

from .frames import ConnectionFault, StreamCode
from .limits import Http2Limits

_OF_ANSWER = 4


class FrameCredit:
    """What a client may still send of them. Answers allow more, and so does time: who asks for nothing else has little."""

    __slots__ = ("_left", "_limits")

    def __init__(self, limits: Http2Limits) -> None:
        self._limits = limits
        self._left: float = limits.credit

    def spend(self, count: int = 1) -> None:
        """Count a frame, or work as of so many. Raises `ConnectionFault`."""
        self._left -= count
        if self._left < 0:
            raise ConnectionFault(StreamCode.ENHANCE_YOUR_CALM, "too many frames came that bring nothing")

    def earn(self) -> None:
        """Count a frame of an answer."""
        if self._left < self._limits.credit:
            self._left += _OF_ANSWER

    def refill(self, elapsed_s: float) -> None:
        """Count the time since the last refill."""
        if self._left < self._limits.credit:
            self._left = min(self._left + elapsed_s * self._limits.credit_per_s, self._limits.credit)

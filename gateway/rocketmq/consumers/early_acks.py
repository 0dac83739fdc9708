"""Acknowledgements before those of earlier messages of their message group. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ....coordinator.queues.receipt_handle import ReceiptHandle

_AHEAD_MAX: Final = 65_536
"""The oldest beyond are forgotten: their messages come again."""

_Lane = tuple[str, str, int, int]
"""Group, topic, queue, and the message group's number."""


class EarlyAcks:
    """Acknowledgements that wait for earlier ones; of each message the last one counts.

    The messages come again if an earlier one is not acknowledged in time, as with RocketMQ.
    """

    def __init__(self, most: int = _AHEAD_MAX) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[_Lane, int]] = OrderedDict()
        self._of_lane: dict[_Lane, dict[int, str]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, handle: str) -> None:
        lane, offset = _place(handle)
        if lane is None or handle in self._kept:
            return
        self.pop(handle)
        self._kept[handle] = lane, offset
        self._of_lane.setdefault(lane, {})[offset] = handle
        if len(self._kept) > self._most:
            self._forget(*next(iter(self._kept.values())))

    def pop(self, handle: str) -> str | None:
        """Remove a message's acknowledgement, of any of its deliveries."""
        if not self._kept:
            return None
        lane, offset = _place(handle)
        return None if lane is None or offset not in self._of_lane.get(lane, {}) else self._forget(lane, offset)

    def pop_next(self, handle: str) -> str | None:
        """Remove the next acknowledgement to carry out, after a message of its message group was settled."""
        if not self._kept:
            return None
        lane, _ = _place(handle)
        return None if lane is None or lane not in self._of_lane else self._forget(lane, min(self._of_lane[lane]))

    def _forget(self, lane: _Lane, offset: int) -> str:
        offsets = self._of_lane[lane]
        handle = offsets.pop(offset)
        if not offsets:
            del self._of_lane[lane]
        del self._kept[handle]
        return handle


def _place(text: str) -> tuple[_Lane | None, int]:
    handle = ReceiptHandle.decode(text)
    lane = None if handle.lane is None else (handle.group, handle.topic, handle.queue, handle.lane)
    return lane, handle.offset

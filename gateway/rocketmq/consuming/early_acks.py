"""Acknowledgements that came before those of earlier messages of their message group, which RocketMQ takes. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ....coordinator.queues.receipt_handle import ReceiptHandle

_AHEAD_MAX: Final = 65_536
"""The number of acknowledgements that are kept until earlier messages are settled. Beyond, the oldest are forgotten: these come again."""

_Lane = tuple[str, str, int, int]
"""Group, topic, queue and the number of the message group."""


class EarlyAcks:
    """They are kept until the earlier messages are settled, and then carried out. Of each message the last one counts.

    RocketMQ gives the messages again if an earlier one is not acknowledged in time, and so does the gateway.
    """

    def __init__(self, most: int = _AHEAD_MAX) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[_Lane, int]] = OrderedDict()
        """By handle: the place of its message."""
        self._of_lane: dict[_Lane, dict[int, str]] = {}
        """The handles by offset."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, handle: ReceiptHandle, text: str) -> None:
        """Keep an acknowledgement."""
        lane = _lane(handle)
        if lane is None or text in self._kept:
            return
        self.pop(handle)
        self._kept[text] = lane, handle.offset
        self._of_lane.setdefault(lane, {})[handle.offset] = text
        if len(self._kept) > self._most:
            self._forget(*next(iter(self._kept.values())))

    def pop(self, handle: ReceiptHandle) -> str | None:
        """The acknowledgement of a message, as of whichever delivery it came. It is kept no longer."""
        lane = _lane(handle)
        if lane is None or handle.offset not in self._of_lane.get(lane, {}):
            return None
        return self._forget(lane, handle.offset)

    def pop_next(self, handle: ReceiptHandle) -> str | None:
        """The next acknowledgement to carry out, after a message of its message group was settled. It is kept no longer."""
        lane = _lane(handle)
        offsets = {} if lane is None else self._of_lane.get(lane, {})
        return None if lane is None or not offsets else self._forget(lane, min(offsets))

    def _forget(self, lane: _Lane, offset: int) -> str:
        offsets = self._of_lane[lane]
        text = offsets.pop(offset)
        if not offsets:
            del self._of_lane[lane]
        del self._kept[text]
        return text


def _lane(handle: ReceiptHandle) -> _Lane | None:
    return None if handle.lane is None else (handle.group, handle.topic, handle.queue, handle.lane)

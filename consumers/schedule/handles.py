"""Receipt handles of the messages that one queue's cell has out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, repeat
from typing import Any

from ...coordinator.queues.receipt_handle import ReceiptHandle, SealedHandles
from ...log.message.message import MessageView

_view: Callable[[Iterable[Any]], MessageView] = partial(tuple.__new__, MessageView)


@dataclass(slots=True)
class ReceiptHandles:
    """Makes the handles of one queue in one generation of the group's position."""

    group: str
    topic: str
    queue: int
    generation: int
    secret: str
    made: dict[str, ReceiptHandle] = field(default_factory=dict)
    """Handles by their text, which nobody in this process need read to acknowledge."""

    def take_made(self) -> SealedHandles:
        made, self.made = self.made, {}
        return SealedHandles(self.secret, made)

    def alone(self, message: MessageView) -> MessageView:
        return self._with_handle(message, None, None)

    def of_lane(self, lane: int, messages: Sequence[MessageView]) -> list[MessageView]:
        following = {message.offset: after.offset for message, after in pairwise(messages)}
        return self.each(messages, repeat(lane), following)

    def each(self, messages: Sequence[MessageView], lanes: Iterable[int | None], following: Mapping[int, int]) -> list[MessageView]:
        """The messages with handles, each of its lane; ``following`` has the offset of a lane's next message, where one was handed out with it."""
        after = following.get
        return [self._with_handle(message, lane, after(message.offset)) for message, lane in zip(messages, lanes, strict=False)]

    def _with_handle(self, message: MessageView, lane: int | None, following: int | None) -> MessageView:
        handle = ReceiptHandle(
            group=self.group,
            topic=self.topic,
            queue=self.queue,
            offset=message.offset,
            generation=self.generation,
            attempt=message.delivery_attempt,
            lane=lane,
            following=following,
        )
        text = handle.encode(self.secret)
        self.made[text] = handle
        return _view((*message[:-1], text))  # the last field; `_replace` takes five times as long

"""Receipt handles of the messages that one queue's cell has out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...coordinator.queues.receipt_handle import ReceiptHandle, SealedHandles
from ...log.message.message import MessageView


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

    def of_lane(self, lane: int, messages: Sequence[MessageView]) -> Iterator[MessageView]:
        for message, following in zip(messages, [*messages[1:], None], strict=True):
            yield self._with_handle(message, lane, None if following is None else following.offset)

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
        return MessageView._make((*message[:-1], text))  # the last field; `_replace` takes four times as long

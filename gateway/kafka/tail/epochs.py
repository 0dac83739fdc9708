"""The lives of a topic as leader epochs, which are the same number everywhere. Pure."""

from __future__ import annotations

from ....log.topic.topics import Topic
from ..wire.errors import ErrorCode, KafkaRefusal


def check_epoch(topic: Topic, epoch: int) -> None:
    """Raise `KafkaRefusal` where a client knows another life of the topic."""
    current = topic.tail.state.generation
    if epoch < 0 or epoch == current:
        return
    code = ErrorCode.FENCED_LEADER_EPOCH if epoch < current else ErrorCode.UNKNOWN_LEADER_EPOCH
    raise KafkaRefusal(code, f"the client knows epoch {epoch}, and the topic is in its epoch {current}")

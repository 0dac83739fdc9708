"""Clients' names of topics."""

from __future__ import annotations

from ....log.errors import InvalidArgument, LimitExceeded
from ....log.paths import check_topic_name
from .errors import ErrorCode, KafkaRefusal


def topic_of(name: str) -> str:
    """The same name. Raises `KafkaRefusal` with `INVALID_TOPIC_EXCEPTION` for one that no topic can have."""
    try:
        check_topic_name(name)
    except (InvalidArgument, LimitExceeded) as error:
        raise KafkaRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from None
    return name

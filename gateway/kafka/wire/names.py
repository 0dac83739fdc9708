"""Clients' names of topics."""

from __future__ import annotations

from typing import Final

from ....log.errors import InvalidArgument, LimitExceeded
from ....log.paths import check_topic_name
from .errors import ErrorCode, KafkaRefusal

INTERNAL: Final = "%"
"""The mark in the names of dead-letter topics and timer logs, and of no others."""


def topic_of(name: str) -> str:
    """The same name. Raises `KafkaRefusal` with `INVALID_TOPIC_EXCEPTION` for one that no topic can have, and for topics of Penstock's own."""
    try:
        if INTERNAL in name:
            raise InvalidArgument("dead letters and timers are not topics of Kafka's clients", object=name)
        check_topic_name(name)
    except (InvalidArgument, LimitExceeded) as error:
        raise KafkaRefusal(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from None
    return name

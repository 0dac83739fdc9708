"""Clients' names of topics and consumer groups, with a namespace or without.

The topic X of the namespace N is the lake's topic ``N--X``, and the same for groups. No namespace has ``--`` inside or ``-`` at its end, so names are
unique. The dead letters of the group G of N are those of ``N--G``, and in topic ``%DLQ%G`` of N. RocketMQ's rules judge the names: they leave out
much that the lake takes.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from ....log.errors import PenstockError
from ....log.paths import DLQ_PREFIX, dead_letter_topic
from . import rocketmq_pb2 as pb
from .status import StatusError

_BETWEEN: Final = "--"
_TOPIC_CHARS_MAX: Final = 127
_GROUP_CHARS_MAX: Final = 120
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_NAMESPACE: Final = re.compile(r"[a-zA-Z0-9_]+(?:-[a-zA-Z0-9_]+)*")


def topic_of(resource: pb.Resource) -> str:
    """The lake's topic. Raises `StatusError` for an invalid name."""
    name = _named(resource, "topic", pb.ILLEGAL_TOPIC, _TOPIC_CHARS_MAX)
    return dead_letters_of(name.removeprefix(DLQ_PREFIX)) if name.startswith(DLQ_PREFIX) else name


def group_of(resource: pb.Resource) -> str:
    """Raises `StatusError` for an invalid name."""
    return _named(resource, "group", pb.ILLEGAL_CONSUMER_GROUP, _GROUP_CHARS_MAX)


def dead_letters_of(group: str) -> str:
    """The lake's topic of a group's dead letters. If it can have no such group, RocketMQ's name, which it refuses with what it expects."""
    with suppress(PenstockError):
        return dead_letter_topic(group)
    return DLQ_PREFIX + group


def _named(resource: pb.Resource, what: str, refusal: pb.Code, chars_max: int) -> str:
    name, namespace = resource.name, resource.resource_namespace
    if namespace:
        if not _NAMESPACE.fullmatch(namespace):
            raise StatusError(
                refusal, f"The specified namespace[{namespace}] has other than letters, digits and '_', with single '-' between."
            )
        prefix = DLQ_PREFIX if name.startswith(DLQ_PREFIX) else ""
        name = f"{prefix}{namespace}{_BETWEEN}{name.removeprefix(prefix)}" if name else ""
    if not name or name.isspace():
        raise StatusError(refusal, f"The specified {what} is blank.")
    if len(name) > chars_max:
        raise StatusError(refusal, f"The specified {what} is longer than {what} max length {chars_max}.")
    if not _NAME.fullmatch(name):
        raise StatusError(refusal, f"The specified {what}[{name}] contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
    return name

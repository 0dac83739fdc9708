"""Checks a caller's arguments before anything is read or written."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import TypeAlias

from ..coordinator import DeadLetterPolicyLike, DeliveryOrderLike, GroupSettings, RetryPolicy
from ..log import InvalidArgument, Position
from ..log.filter.filters import parse_stated
from ..log.paths import check_topic_name
from ..log.topic.timer_log import check_own
from .handlers.missing_result import REMEDY, is_annotated_to_return_none, name_of
from .membership import Subscription

Topics: TypeAlias = str | Mapping[str, str | None]
Queues: TypeAlias = Sequence[int] | Mapping[str, Sequence[int]]

_OPERATION = "subscribe"


def assignment(queues: object, topics: Sequence[str]) -> dict[str, list[int]]:
    """The requested queues by topic, unchecked. Raises `InvalidArgument`."""
    by_topic = {topics[0]: queues} if isinstance(queues, Sequence) and len(topics) == 1 else queues
    if not isinstance(by_topic, Mapping) or not by_topic or not by_topic.keys() <= set(topics):
        raise InvalidArgument(
            "queues are asked for by topic, of topics that the consumer subscribes to",
            operation=_OPERATION,
            expected="{topic: [numbers]}, or [numbers] of the only topic",
            observed=repr(queues),
        )
    for topic, numbers in by_topic.items():
        valid = isinstance(numbers, Sequence) and not isinstance(numbers, str) and len(numbers) > 0
        if not valid or not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in numbers):
            raise InvalidArgument("queues are whole numbers from 0", operation=_OPERATION, object=topic, observed=repr(numbers))
    return {topic: sorted(set(numbers)) for topic, numbers in by_topic.items()}


def settings_stated(
    *,
    delivery_order: DeliveryOrderLike | None = None,
    retry: RetryPolicy | None = None,
    max_attempts: int | EllipsisType | None = ...,
    dead_letter_policy: DeadLetterPolicyLike | None = None,
) -> dict[str, object]:
    """The settings that a member states of its group. Raises `InvalidArgument`."""
    given = {"delivery_order": delivery_order, "retry": retry, "dead_letter_policy": dead_letter_policy}
    stated: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if not isinstance(max_attempts, EllipsisType):
        stated["max_attempts"] = max_attempts
    GroupSettings.stating(stated)
    return stated


def subscribed(topics: Topics, filter: str | None, start: Position) -> dict[str, Subscription]:
    if isinstance(topics, str):
        topics = {topics: filter}
    elif filter is not None:
        raise InvalidArgument(
            "several topics have a filter each", operation=_OPERATION, observed=f"filter={filter!r}", hint="write {topic: filter}"
        )
    given: object = topics
    if not isinstance(given, Mapping) or not given:
        raise InvalidArgument(
            "a consumer subscribes to a topic, or to several with a filter each",
            operation=_OPERATION,
            expected="a name, or {name: filter or None}",
            observed=repr(given),
        )
    for topic, tags in topics.items():
        check_topic_name(topic)
        check_own(topic, operation=_OPERATION)  # messages that wait there are not due yet
        parse_stated(tags)
    check_start(start)
    return {topic: Subscription(tags, start) for topic, tags in topics.items()}


def check_start(start: object) -> None:
    """Raise `InvalidArgument` unless a group can begin there."""
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise InvalidArgument(
                "a time must have a zone", operation=_OPERATION, observed=start.isoformat(), hint="use datetime.now(UTC)"
            )
    elif start not in ("earliest", "latest") and (isinstance(start, bool) or not isinstance(start, int) or start < 0):
        raise InvalidArgument("start is an offset, a datetime, 'earliest' or 'latest'", operation=_OPERATION, observed=repr(start))


def check_listener(listener: object, *, batch: bool) -> None:
    """Raise `InvalidArgument` unless the listener takes one message, or one list, and may return something."""
    if not callable(listener):
        raise InvalidArgument(
            "the listener cannot be called", operation=_OPERATION, expected="a function of a message", observed=repr(listener)
        )
    if is_annotated_to_return_none(listener):
        raise InvalidArgument(
            "the listener is annotated to return None, and a message is done only when it returns ConsumeResult.SUCCESS",
            operation=_OPERATION,
            object=name_of(listener),
            expected="-> penstock.ConsumeResult",
            observed="-> None",
            hint=REMEDY,
        )
    try:
        signature = inspect.signature(listener)
    except ValueError:
        return  # the signature of some built-in functions is unknown
    try:
        signature.bind(object())
    except TypeError as error:
        raise InvalidArgument(
            "the listener does not take one argument",
            operation=_OPERATION,
            object=getattr(listener, "__qualname__", repr(listener)),
            expected="a list of messages" if batch else "a message",
            observed=f"{signature}: {error}",
        ) from error

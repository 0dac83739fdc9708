"""A consumer group's record: its settings, and where it stands on each topic. One cell; operators write nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from ..log.errors import DataDamaged, InvalidArgument, LimitExceeded, NewerFormatError
from ..log.limits import TOPIC_NAME_CHARS_MAX, is_positive
from ..log.paths import DLQ_PREFIX, check_topic_name
from ..log.tags import TagFilter
from .retry import RetryPolicy, Schedule

FORMAT = 1
ATTEMPTS_DEFAULT = 17
"""Deliveries: RocketMQ's 16 retries after the first."""
GROUP_NAME_CHARS_MAX = TOPIC_NAME_CHARS_MAX - len(DLQ_PREFIX)
ALL = "*"


class DeliveryOrder(StrEnum):
    """How the messages of a consumer group are run."""

    ORDERLY = "ORDERLY"
    """Those of a message group one after the other, in the order they were stored; different message groups side by side."""
    CONCURRENT = "CONCURRENT"
    """All side by side."""


class DeadLetterPolicy(StrEnum):
    """What becomes of a message that used up its attempts."""

    CONTINUE = "continue"
    """It goes to the dead-letter queue, and what is behind it runs."""
    PARK = "park"
    """Its message group stands still until an operator releases or skips the message; everything else runs."""


def check_group_name(name: object) -> None:
    """Raise unless this can be a consumer group: what can be a topic, short enough for ``%DLQ%`` and it to be one too."""
    if not isinstance(name, str):
        raise InvalidArgument("a consumer group's name must be a string", observed=type(name).__name__)
    if len(name) > GROUP_NAME_CHARS_MAX:
        raise LimitExceeded(
            "the consumer group's name is too long", expected=f"at most {GROUP_NAME_CHARS_MAX} characters", observed=len(name)
        )
    if name.startswith(DLQ_PREFIX):
        raise InvalidArgument("a consumer group's name cannot begin like a dead-letter queue's", observed=name)
    try:
        check_topic_name(name)
    except InvalidArgument as error:
        raise InvalidArgument("bad consumer group name", expected="letters, digits, '_' and '-'", observed=name) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSettings:
    """How a consumer group works. All members work by these; who states others gets an error that shows both."""

    delivery_order: DeliveryOrder = DeliveryOrder.ORDERLY
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_attempts: int | None = ATTEMPTS_DEFAULT
    """Deliveries until the dead-letter policy; None: any number."""
    dead_letter_policy: DeadLetterPolicy = DeadLetterPolicy.CONTINUE
    filters: Mapping[str, str] = field(default_factory=dict)
    """By topic: tags, as ``a || b``; a topic that is not here is taken whole."""

    def __post_init__(self) -> None:
        for name, kind in (("delivery_order", DeliveryOrder), ("dead_letter_policy", DeadLetterPolicy)):
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except ValueError as error:
                raise InvalidArgument(f"no such {name}", expected=", ".join(kind), observed=getattr(self, name)) from error
        retry: object = self.retry
        if not isinstance(retry, RetryPolicy):
            raise InvalidArgument("retry must be a RetryPolicy", observed=type(retry).__name__)
        if self.max_attempts is not None and not is_positive(self.max_attempts):
            raise InvalidArgument(
                "max_attempts must be a positive whole number, or None for any number", observed=self.max_attempts
            )
        if self.dead_letter_policy is DeadLetterPolicy.PARK and self.delivery_order is DeliveryOrder.CONCURRENT:
            raise InvalidArgument(
                "only an ORDERLY group can park", expected="dead_letter_policy='continue'", observed="delivery_order='CONCURRENT'"
            )
        for topic, tags in self.filters.items():
            check_topic_name(topic)
            TagFilter.parse(tags)

    @staticmethod
    def of(delivery_order: DeliveryOrder) -> GroupSettings:
        """The defaults: ORDERLY groups retry each second, CONCURRENT ones by RocketMQ's table."""
        schedule = Schedule.FIXED if delivery_order is DeliveryOrder.ORDERLY else Schedule.ROCKETMQ
        return GroupSettings(delivery_order=delivery_order, retry=RetryPolicy(schedule=schedule))


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group begins on one topic; resolved to offsets once, so that no two members begin at different places."""

    generation: int
    """Raised by every reset."""
    offsets: tuple[int, ...]
    """For every queue, the first offset that is the group's to settle."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRecord:
    """What is stored of a group."""

    settings: GroupSettings
    positions: Mapping[str, Position] = field(default_factory=dict)
    """By topic."""
    members: tuple[str, ...] = ()
    """Workers that joined, some of them perhaps dead."""

    def joined_by(self, worker: str) -> GroupRecord:
        """With one more member."""
        return self if worker in self.members else replace(self, members=(*self.members, worker))

    def left_by(self, worker: str) -> GroupRecord:
        """With a member less."""
        return replace(self, members=tuple(member for member in self.members if member != worker))

    def at(self, topic: str, offsets: tuple[int, ...]) -> GroupRecord:
        """Begun on a topic, or reset there: in the next generation."""
        old = self.positions.get(topic)
        position = Position(old.generation + 1 if old else 0, offsets)
        return replace(self, positions={**self.positions, topic: position})


def check_agreement(stated: GroupSettings, stored: GroupSettings, group: str) -> None:
    """Raise `InvalidArgument` showing both unless a member states the settings that the group has."""
    differing = [one.name for one in fields(GroupSettings) if getattr(stated, one.name) != getattr(stored, one.name)]
    if differing:
        raise InvalidArgument(
            f"the consumer group has another {differing[0].replace('_', ' ')}",
            object=group,
            expected={name: _shown(getattr(stored, name)) for name in differing},
            observed={name: _shown(getattr(stated, name)) for name in differing},
            hint="state what the group has, leave the settings out, or change them with `penstock group alter`",
        )


def encode_group(record: GroupRecord) -> bytes:
    """For the group's cell."""
    settings = asdict(record.settings)
    settings["retry"] = {name: _shown(value) for name, value in settings["retry"].items()}
    positions = {topic: [position.generation, *position.offsets] for topic, position in record.positions.items()}
    document = {"format": FORMAT, "settings": settings, "positions": positions, "members": record.members}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_group(data: bytes, *, where: str) -> GroupRecord:
    """What `encode_group` gave. Raises `DataDamaged` or `NewerFormatError`."""
    try:
        document: dict[str, Any] = json.loads(data)
        if document["format"] != FORMAT:
            raise NewerFormatError(
                "the group was written by another version of Penstock",
                object=where,
                expected=f"format {FORMAT}",
                observed=document["format"],
                hint="upgrade this process",
            )
        settings = document["settings"]
        retry = settings.pop("retry")
        interval, interval_max = (timedelta(seconds=retry.pop(name)) for name in ("interval", "interval_max"))
        return GroupRecord(
            settings=GroupSettings(**settings, retry=RetryPolicy(**retry, interval=interval, interval_max=interval_max)),
            positions={topic: Position(first, tuple(rest)) for topic, (first, *rest) in document["positions"].items()},
            members=tuple(document["members"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidArgument) as error:
        raise DataDamaged("the cell is not a consumer group's record", object=where, observed=repr(error)) from error


def _shown(value: object) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value

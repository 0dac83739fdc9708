"""A consumer group's record: its settings, where it stands on each topic, and what its operators ordered. One cell; operators write nothing
else, so that each of their orders is one write, and its owners carry it out queue by queue.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from ..log.errors import CallError, InvalidArgument, LimitExceeded
from ..log.filters import parse_filter
from ..log.limits import TOPIC_NAME_CHARS_MAX, is_positive, plain
from ..log.paths import DLQ_PREFIX, check_topic_name
from .retry import RetryPolicy, Schedule

ATTEMPTS_DEFAULT = 17
ATTEMPTS_MAX = 1_000_000
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


class GroupNotFound(CallError, LookupError):
    """The lake has no consumer group of this name."""

    kind = "group_not_found"


class GroupDeleted(CallError):
    """The consumer group was deleted, or deleted and made again, since this member joined it."""

    kind = "group_deleted"


class GroupExists(CallError):
    """The lake has a consumer group of this name, with other settings."""

    kind = "group_exists"


class GroupInUse(CallError):
    """Members of the consumer group live, or it has dead letters to write."""

    kind = "group_in_use"


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
    """By topic, as `parse_filter` reads them: tags, ``a || b``, or ``SQL92: price > 10``; a topic that is not here is taken whole."""

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
        if self.max_attempts is not None and self.max_attempts > ATTEMPTS_MAX:
            raise LimitExceeded(
                "max_attempts is too much",
                expected=f"at most {ATTEMPTS_MAX:,}, or None for any number",
                observed=plain(self.max_attempts),
            )
        if self.dead_letter_policy is DeadLetterPolicy.PARK and self.delivery_order is DeliveryOrder.CONCURRENT:
            raise InvalidArgument(
                "only an ORDERLY group can park", expected="dead_letter_policy='continue'", observed="delivery_order='CONCURRENT'"
            )
        filters: object = self.filters
        if not isinstance(filters, Mapping):
            raise InvalidArgument("filters must be a mapping of topics to texts", observed=type(filters).__name__)
        for topic, tags in self.filters.items():
            check_topic_name(topic)
            if not isinstance(tags, str):
                raise InvalidArgument(f"the filter of {topic} must be a string", observed=repr(tags))
            parse_filter(tags)

    @staticmethod
    def of(delivery_order: DeliveryOrder | str) -> GroupSettings:
        """The defaults: ORDERLY groups retry each second, CONCURRENT ones by RocketMQ's table."""
        settings = GroupSettings(delivery_order=delivery_order)  # type: ignore[arg-type]  # checked there
        concurrent = settings.delivery_order is DeliveryOrder.CONCURRENT
        return replace(settings, retry=RetryPolicy(schedule=Schedule.ROCKETMQ)) if concurrent else settings

    @staticmethod
    def stating(stated: Mapping[str, object]) -> GroupSettings:
        """What is stated, and the defaults of its delivery order. Raises `InvalidArgument` for what no group can have."""
        known = [one.name for one in fields(GroupSettings)]
        if unknown := sorted(set(stated) - set(known)):
            raise InvalidArgument(f"a consumer group has no {', '.join(unknown)}", expected=", ".join(known))
        defaults = GroupSettings.of(stated.get("delivery_order", DeliveryOrder.ORDERLY))  # type: ignore[arg-type]
        return replace(defaults, **stated)  # type: ignore[arg-type]

    def filter_of(self, topic: str) -> str:
        """What the group takes of a topic."""
        return self.filters.get(topic, ALL)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group begins on one topic; resolved to offsets once, so that no two members begin at different places."""

    offsets: tuple[int, ...]
    """For every queue, the first offset that is the group's to settle."""
    generations: tuple[int, ...]
    """For every queue; raised by each reset of it, so that what was granted before counts no more."""
    life: int = 0
    """The entry that created the topic: one that was deleted and made again is another."""
    since: int = 0
    """The first generation in this life of topic and group: what was given up in an earlier one was another message, or another group's."""
    queues_max: int = 0
    """The most queues that a former life of the topic had, if it has fewer now: the cells of the others are kept."""


class CommandKind(StrEnum):
    """What an operator orders about parked message groups."""

    RELEASE = "release"
    """The message is tried again, with no strike against it."""
    SKIP = "skip"
    """The message becomes a dead letter, and its group goes on behind it."""


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's order, carried out by the queue's owner."""

    number: int
    """Rises from command to command of a group; a queue's cell names the last one that was carried out in it."""
    kind: CommandKind
    topic: str
    queue: int
    generation: int
    """The queue's: after a reset the command is void."""
    heads: tuple[int, ...]
    """The offsets of the parked messages, ascending; what else is parked, or stands elsewhere by now, is left alone."""
    attempts: tuple[int, ...]
    """How often each had been delivered: one that was tried again since, and is parked anew, is not meant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRecord:
    """What is stored of a group."""

    settings: GroupSettings
    positions: Mapping[str, Position] = field(default_factory=dict)
    """By topic."""
    members: tuple[str, ...] = ()
    """Those that joined, some of them perhaps dead."""
    assigned: tuple[str, ...] = ()
    """The same of those that have the queues which they asked for, and no share in any others."""
    commands: tuple[Command, ...] = ()
    """Those that are not known to be carried out, by number."""
    commanded: int = 0
    """How many commands were given: the number of the last one."""
    generations: int = 0
    """How many generations were given: the next one's number. Of all topics, and kept when the group is deleted, so that none comes again."""
    lives: int = 0
    """How often a group of this name was deleted before."""
    secret: str = field(default="", repr=False)
    """32 hexadecimal digits, drawn anew each time the group is made: the key of what names its message groups in cells, and of its receipt
    handles. Whoever can read this record is trusted with it; who only chooses message groups cannot make two of them one.
    """
    deleted: bool = False
    """The group is gone. Its queues' cells stay; a new group of the name begins a generation of its own, and they catch up with it."""

    def joined_by(self, member: str) -> GroupRecord:
        """With one more member."""
        return self if member in self.members else replace(self, members=(*self.members, member))

    def left_by(self, *gone: str) -> GroupRecord:
        """Without these members."""
        members, assigned = (tuple(one for one in those if one not in gone) for those in (self.members, self.assigned))
        return replace(self, members=members, assigned=assigned)

    def assigned_to(self, member: str) -> GroupRecord:
        """With one more member that has the queues which it asked for."""
        return self if member in self.assigned else replace(self, assigned=(*self.assigned, member))

    @property
    def all_members(self) -> tuple[str, ...]:
        """Both kinds."""
        return (*self.members, *self.assigned)

    def begun(self, topic: str, offsets: tuple[int, ...], life: int) -> GroupRecord:
        """With all queues of a topic at these offsets, in the next generation."""
        known = self.positions.get(topic)
        most = 0 if known is None else max(known.queues_max, len(known.offsets))
        position = Position(
            offsets,
            (self.generations,) * len(offsets),
            life,
            since=self.generations if known is None or known.life != life else known.since,
            queues_max=most if most > len(offsets) else 0,
        )
        return self._at(topic, position, self.commands_elsewhere(topic, range(len(offsets))))

    def reset(self, topic: str, offsets: Mapping[int, int]) -> GroupRecord:
        """With some queues of a topic that the group has begun at other offsets, in the next generation."""
        old = self.positions[topic]
        position = replace(
            old,
            offsets=tuple(offsets.get(queue, offset) for queue, offset in enumerate(old.offsets)),
            generations=tuple(self.generations if queue in offsets else one for queue, one in enumerate(old.generations)),
        )
        return self._at(topic, position, self.commands_elsewhere(topic, offsets))

    def commanded_to(self, kind: CommandKind, parked: Mapping[tuple[str, int], Mapping[int, int]]) -> GroupRecord:
        """With a command for each of these (topic, queue), about these heads, with the attempts of each."""
        commands = tuple(
            Command(number, kind, topic, queue, self.positions[topic].generations[queue], *zip(*sorted(heads.items()), strict=True))
            for number, ((topic, queue), heads) in enumerate(parked.items(), start=self.commanded + 1)
        )
        return replace(self, commands=(*self.commands, *commands), commanded=self.commanded + len(commands))

    def generations_of(self, queues: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        """The generation that each of these (topic, queue) is in; None: the group has no position on it."""
        found: dict[tuple[str, int], int | None] = {}
        for topic, queue in queues:
            position = self.positions.get(topic)
            found[topic, queue] = position.generations[queue] if position and queue < len(position.generations) else None
        return found

    def raised(self, *, generation: int = -1, commands: int = 0) -> GroupRecord:
        """With no such generation, and no such command's number, to be given again: a queue's cell has them, which a record that was put back to
        an older state does not know.
        """
        generations, commanded = max(self.generations, generation + 1), max(self.commanded, commands)
        if (generations, commanded) == (self.generations, self.commanded):
            return self
        return replace(self, generations=generations, commanded=commanded)

    def commands_elsewhere(self, topic: str, queues: Container[int]) -> tuple[Command, ...]:
        """Without those for some queues of a topic."""
        return tuple(one for one in self.commands if one.topic != topic or one.queue not in queues)

    def gone(self) -> GroupRecord:
        """Deleted."""
        return GroupRecord(
            settings=self.settings,
            commanded=self.commanded,
            generations=self.generations,
            lives=self.lives + 1,
            deleted=True,
        )

    def _at(self, topic: str, position: Position, commands: tuple[Command, ...]) -> GroupRecord:
        positions = {**self.positions, topic: position}
        return replace(self, positions=positions, commands=commands, generations=self.generations + 1)


def check_agreement(stated: Mapping[str, object], stored: GroupSettings, group: str) -> None:
    """Raise `InvalidArgument` showing both unless the group has the settings that a member states; of filters those it states."""
    if differing := differences(stated, stored):
        raise InvalidArgument(
            f"the consumer group has another {next(iter(differing)).replace('_', ' ')}",
            object=group,
            expected={name: has for name, (_, has) in differing.items()},
            observed={name: states for name, (states, _) in differing.items()},
            hint="state what the group has, leave the settings out, or change them with `penstock group alter`",
        )


def differences(stated: Mapping[str, object], stored: GroupSettings, *, whole: bool = False) -> dict[str, tuple[str, str]]:
    """By setting: what is stated, and what the group has instead, for people; with ``whole``, no filter stated means none."""
    wanted = GroupSettings.stating(stated)
    found = {
        name: (setting_text(getattr(wanted, name)), setting_text(getattr(stored, name)))
        for name in stated
        if name != "filters" and getattr(wanted, name) != getattr(stored, name)
    }
    for topic in sorted({*wanted.filters, *(stored.filters if whole else ())}):
        tags, has = wanted.filter_of(topic), stored.filter_of(topic)
        if parse_filter(tags) != parse_filter(has):
            found[f"filter of {topic}"] = (tags, has)
    return found


def setting_text(value: object) -> str:
    """A setting in words."""
    match value:
        case None:
            return "any number"
        case RetryPolicy(schedule=Schedule.ROCKETMQ, jitter=jitter):
            text = "by RocketMQ's table"
        case RetryPolicy(schedule=Schedule.FIXED, interval=interval, jitter=jitter):
            text = f"every {interval.total_seconds():g} s"
        case RetryPolicy(interval=interval, interval_max=interval_max, jitter=jitter):
            text = f"after {interval.total_seconds():g} s, doubling to {interval_max.total_seconds():g} s"
        case _:
            return str(value)
    return f"{text}, jitter {jitter:g}" if jitter else text

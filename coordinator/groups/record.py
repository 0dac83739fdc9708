"""A consumer group's record: settings, positions, and operators' orders.

It is one cell. Each order is one write, which owners carry out queue by queue.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Literal, TypeAlias, TypedDict

from ...log.errors import CallError, InvalidArgument, LimitExceeded
from ...log.limits import ChoiceField, field_default, is_positive, named, plain
from ...log.paths import check_topic_name
from .retry import RetryPolicy, RetrySchedule

ATTEMPTS_DEFAULT = 17
ATTEMPTS_MAX = 1_000_000
"""The most deliveries. The default is RocketMQ's 16 retries after the first."""
FORMER_TOPICS_MAX = 200
"""The most topics whose queues a record remembers after the group's deletion."""
ALL = "*"


class DeliveryOrder(StrEnum):
    """The order in which a group's messages are run."""

    ORDERLY = "ORDERLY"
    """Messages of a message group run one after the other, as stored; message groups run side by side."""
    CONCURRENT = "CONCURRENT"
    """All messages run side by side."""


DeliveryOrderLike: TypeAlias = "DeliveryOrder | Literal['ORDERLY', 'CONCURRENT']"
"""A delivery order as callers may give it."""


class DeadLetterPolicy(StrEnum):
    """The fate of a message that used up its attempts."""

    CONTINUE = "continue"
    """The message goes to the dead-letter queue, and later ones run."""
    PARK = "park"
    """The message group stands still until an operator releases or skips the message; others run."""


DeadLetterPolicyLike: TypeAlias = "DeadLetterPolicy | Literal['continue', 'park']"
"""A dead-letter policy as callers may give it."""


class GroupProtocol(StrEnum):
    """The protocol by which a group's members share their work."""

    PENSTOCK = "penstock"
    KAFKA = "kafka"
    """Kafka's classic protocol: offsets that members commit, and nothing of single messages."""


class GroupNotFound(CallError, LookupError):
    """The consumer group is missing."""

    kind = "group_not_found"


class GroupDeleted(CallError):
    """The consumer group was deleted since this member joined, and perhaps made again."""

    kind = "group_deleted"


class GroupExists(CallError):
    """The consumer group exists with other settings."""

    kind = "group_exists"


class GroupInUse(CallError):
    """The consumer group has live members, or dead letters to write."""

    kind = "group_in_use"


class GroupMixed(CallError):
    """The group cannot be gone on with in this way.

    Pull consumers have offsets alone, which do not say what push and simple consumers have in flight, waiting or parked. Kafka's clients and
    Penstock's own consumers are in no group together.
    """

    kind = "group_mixed"


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSettings:
    """A consumer group's settings. A member that states others gets an error with both."""

    delivery_order: ChoiceField[DeliveryOrder, DeliveryOrderLike] = field_default(DeliveryOrder.ORDERLY)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_attempts: int | None = ATTEMPTS_DEFAULT
    """The deliveries until the dead-letter policy applies; None: any number."""
    dead_letter_policy: ChoiceField[DeadLetterPolicy, DeadLetterPolicyLike] = field_default(DeadLetterPolicy.CONTINUE)
    filters: Mapping[str, str] = field(default_factory=dict)
    """The filters by topic, for `parse_filter`: tags, ``a || b``, or ``SQL92: price > 10``."""

    def __post_init__(self) -> None:
        for name, kind in (("delivery_order", DeliveryOrder), ("dead_letter_policy", DeadLetterPolicy)):
            try:
                object.__setattr__(self, name, named(kind, getattr(self, name)))
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
            from ...log.filter.filters import parse_filter  # needs Arrow, and few groups have filters

            parse_filter(tags)

    @staticmethod
    def of(delivery_order: DeliveryOrderLike) -> GroupSettings:
        """The defaults: ORDERLY groups retry each second, CONCURRENT ones by RocketMQ's table."""
        settings = GroupSettings(delivery_order=delivery_order)
        concurrent = settings.delivery_order is DeliveryOrder.CONCURRENT
        return replace(settings, retry=RetryPolicy(schedule=RetrySchedule.ROCKETMQ)) if concurrent else settings

    @staticmethod
    def stating(stated: Mapping[str, object]) -> GroupSettings:
        """Raises `InvalidArgument`."""
        known = [one.name for one in fields(GroupSettings)]
        if unknown := sorted(set(stated) - set(known)):
            raise InvalidArgument(f"a consumer group has no {', '.join(unknown)}", expected=", ".join(known))
        defaults = GroupSettings.of(stated.get("delivery_order", DeliveryOrder.ORDERLY))  # type: ignore[arg-type]
        settings = replace(defaults, **stated)  # type: ignore[arg-type]
        check_stated_filters(settings.filters)
        return settings

    def filter_of(self, topic: str) -> str:
        return self.filters.get(topic, ALL)


class GroupChanges(TypedDict, total=False):
    """The settings of a group that can be changed."""

    retry: RetryPolicy
    max_attempts: int | None
    dead_letter_policy: DeadLetterPolicyLike
    filters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Position:
    """The place where a group begins on a topic."""

    offsets: tuple[int, ...]
    """The first offset to settle, for every queue."""
    generations: tuple[int, ...]
    """The generation of every queue. A reset raises it, and voids earlier grants."""
    life: int = 0
    """The entry that created the topic."""
    since: int = 0
    """The first generation in this life of topic and group: earlier messages were others."""
    queues_max: int = 0
    """The most queues that a former life had, if more than now. Their cells are kept."""

    @property
    def queues_ever(self) -> int:
        """The number of queues that may have cells."""
        return max(self.queues_max, len(self.offsets))


class CommandKind(StrEnum):
    """An order about parked message groups."""

    RELEASE = "release"
    """The message is tried again, without strikes."""
    SKIP = "skip"
    """The message becomes a dead letter, and its group goes on."""


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's order to the owner of a queue."""

    number: int
    """Rises within a group. A queue's cell has the last one carried out."""
    kind: CommandKind
    topic: str
    queue: int
    generation: int
    """The queue's generation: a reset voids the command."""
    heads: tuple[int, ...]
    """The offsets of the parked messages, ascending."""
    attempts: tuple[int, ...]
    """The deliveries of each. A message parked anew since does not count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRecord:
    """The stored state of a group."""

    settings: GroupSettings
    positions: Mapping[str, Position] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    """The members, some perhaps dead."""
    assigned: tuple[str, ...] = ()
    """The members that have only the queues they asked for."""
    commands: tuple[Command, ...] = ()
    """The commands perhaps not carried out, ascending."""
    commanded: int = 0
    """The number of the last command."""
    generations: int = 0
    """The next generation, of all topics and lives."""
    lives: int = 0
    """The number of earlier groups of this name."""
    secret: str = field(default="", repr=False)
    """32 hexadecimal digits, drawn for each life of the group. It keys receipt handles and hashes of message groups, so that no sender makes two
    collide.
    """
    former_queues: Mapping[str, int] = field(default_factory=dict)
    """The most queues that deleted groups of this name had, by topic."""
    deleted: bool = False
    protocol: GroupProtocol = GroupProtocol.PENSTOCK

    def joined_by(self, member: str) -> GroupRecord:
        return self if member in self.members else replace(self, members=(*self.members, member))

    def left_by(self, *gone: str) -> GroupRecord:
        members, assigned = (tuple(one for one in those if one not in gone) for those in (self.members, self.assigned))
        return replace(self, members=members, assigned=assigned)

    def assigned_to(self, member: str) -> GroupRecord:
        return self if member in self.assigned else replace(self, assigned=(*self.assigned, member))

    @property
    def all_members(self) -> tuple[str, ...]:
        return (*self.members, *self.assigned)

    def begun(self, topic: str, offsets: tuple[int, ...], life: int) -> GroupRecord:
        """The record with all queues of a topic at these offsets, in the next generation."""
        known = self.positions.get(topic)
        most = self.former_queues.get(topic, 0) if known is None else known.queues_ever
        position = Position(
            offsets,
            (self.generations,) * len(offsets),
            life,
            since=self.generations if known is None or known.life != life else known.since,
            queues_max=most if most > len(offsets) else 0,
        )
        others = {name: queues for name, queues in self.former_queues.items() if name != topic}
        return replace(self._at(topic, position, self.commands_elsewhere(topic, range(len(offsets)))), former_queues=others)

    def extended(self, topic: str, queues: int) -> GroupRecord:
        """The record with positions for so many queues of a topic at least, new ones at their first message. The same record if it has them."""
        known = self.positions[topic]
        more = queues - len(known.offsets)
        if more <= 0:
            return self
        # Cells of a former life of topic or group may be left under these numbers. Kafka's queues have no position until it is committed.
        generation = known.since if self.protocol is GroupProtocol.KAFKA else self.generations
        position = replace(
            known,
            offsets=(*known.offsets, *(0,) * more),
            generations=(*known.generations, *(generation,) * more),
            queues_max=known.queues_max if known.queues_max > queues else 0,
        )
        return self._at(topic, position, self.commands)

    def following(self, topic: str, life: int, queues: int) -> GroupRecord:
        """The record as members leave it that see a topic so: a later life is begun anew, and a topic that grew has positions for all queues."""
        known = self.positions[topic]
        if known.life < life:
            return self.begun(topic, (0,) * queues, life)
        return self.extended(topic, queues) if known.life == life else self

    def reset(self, topic: str, offsets: Mapping[int, int]) -> GroupRecord:
        """The record with these offsets in the next generation."""
        old = self.positions[topic]
        position = replace(
            old,
            offsets=tuple(offsets.get(queue, offset) for queue, offset in enumerate(old.offsets)),
            generations=tuple(self.generations if queue in offsets else one for queue, one in enumerate(old.generations)),
        )
        return self._at(topic, position, self.commands_elsewhere(topic, offsets))

    def commanded_to(self, kind: CommandKind, parked: Mapping[tuple[str, int], Mapping[int, int]]) -> GroupRecord:
        """The record with a command for each (topic, queue): heads and their attempts."""
        commands = tuple(
            Command(number, kind, topic, queue, self.positions[topic].generations[queue], *zip(*sorted(heads.items()), strict=True))
            for number, ((topic, queue), heads) in enumerate(parked.items(), start=self.commanded + 1)
        )
        return replace(self, commands=(*self.commands, *commands), commanded=self.commanded + len(commands))

    def generations_of(self, queues: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        """The generation of each (topic, queue); None without a position."""
        found: dict[tuple[str, int], int | None] = {}
        for topic, queue in queues:
            position = self.positions.get(topic)
            found[topic, queue] = position.generations[queue] if position and queue < len(position.generations) else None
        return found

    def raised(self, *, generation: int = -1, commands: int = 0) -> GroupRecord:
        """The record that does not give these numbers again, which cells have after a restore of the record."""
        generations, commanded = max(self.generations, generation + 1), max(self.commanded, commands)
        if (generations, commanded) == (self.generations, self.commanded):
            return self
        return replace(self, generations=generations, commanded=commanded)

    def commands_elsewhere(self, topic: str, queues: Container[int]) -> tuple[Command, ...]:
        """The commands without those for some queues of a topic."""
        return tuple(one for one in self.commands if one.topic != topic or one.queue not in queues)

    def gone(self) -> GroupRecord:
        queues = {topic: most for topic, most in self.former_queues.items() if topic not in self.positions}
        queues |= {topic: position.queues_ever for topic, position in self.positions.items()}
        return GroupRecord(
            settings=self.settings,
            commanded=self.commanded,
            generations=self.generations,
            lives=self.lives + 1,
            former_queues=dict(list(queues.items())[-FORMER_TOPICS_MAX:]),
            deleted=True,
        )

    def _at(self, topic: str, position: Position, commands: tuple[Command, ...]) -> GroupRecord:
        positions = {name: one for name, one in self.positions.items() if name != topic} | {topic: position}
        return replace(self, positions=positions, commands=commands, generations=self.generations + 1)


def check_protocol(record: GroupRecord, protocol: GroupProtocol, group: str) -> None:
    """Raise `GroupMixed` for a group of another protocol."""
    if record.protocol is protocol:
        return
    is_kafka = record.protocol is GroupProtocol.KAFKA
    raise GroupMixed(
        "the consumer group is one of Kafka's clients" if is_kafka else "the consumer group is one of Penstock's own consumers",
        object=group,
        expected=f"a group of the protocol {protocol}",
        observed=f"one of {record.protocol}",
        hint="use another group, or delete this one first (`penstock group delete`)",
    )


def check_agreement(stated: Mapping[str, object], stored: GroupSettings, group: str) -> None:
    """Raise `InvalidArgument`, showing both, for other settings or filters."""
    if differing := differences(stated, stored):
        raise InvalidArgument(
            f"the consumer group has another {next(iter(differing)).replace('_', ' ')}",
            object=group,
            expected={name: has for name, (_, has) in differing.items()},
            observed={name: states for name, (states, _) in differing.items()},
            hint="state what the group has, leave the settings out, or change them with `penstock group alter`",
        )


def check_stated_filters(filters: Mapping[str, str]) -> None:
    """Raise `InvalidArgument` for tags that look like a condition."""
    for tags in filters.values():
        from ...log.filter.filters import parse_stated  # as above

        parse_stated(tags)


def differences(stated: Mapping[str, object], stored: GroupSettings, *, whole: bool = False) -> dict[str, tuple[str, str]]:
    """The settings that differ, stated and stored. With ``whole``, an unstated filter means none."""
    wanted = GroupSettings.stating(stated)
    found = {
        name: (setting_text(getattr(wanted, name)), setting_text(getattr(stored, name)))
        for name in stated
        if name != "filters" and getattr(wanted, name) != getattr(stored, name)
    }
    for topic in sorted({*wanted.filters, *(stored.filters if whole else ())}):
        tags, has = wanted.filter_of(topic), stored.filter_of(topic)
        from ...log.filter.filters import parse_filter

        if parse_filter(tags) != parse_filter(has):
            found[f"filter of {topic}"] = (tags, has)
    return found


def setting_text(value: object) -> str:
    match value:
        case None:
            return "any number"
        case RetryPolicy(schedule=RetrySchedule.ROCKETMQ, jitter=jitter):
            text = "by RocketMQ's table"
        case RetryPolicy(schedule=RetrySchedule.FIXED, interval=interval, jitter=jitter):
            text = f"every {interval.total_seconds():g} s"
        case RetryPolicy(interval=interval, interval_max=interval_max, jitter=jitter):
            text = f"after {interval.total_seconds():g} s, doubling to {interval_max.total_seconds():g} s"
        case _:
            return str(value)
    return f"{text}, jitter {jitter:g}" if jitter else text

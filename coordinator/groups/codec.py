"""Groups' records as bytes."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from itertools import accumulate, pairwise
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta, field

from ...log.format.stored_json import Number, StoredForm, damaged, parse_stored
from ...log.limits import FORMAT_BASIC, FORMAT_EXTENDED, NUMBER_MAX, QUEUES_MAX
from .record import (
    Command,
    CommandKind,
    DeadLetterPolicy,
    DeliveryOrder,
    GroupProtocol,
    GroupRecord,
    GroupSettings,
    Position,
)
from .retry import RetryPolicy, RetrySchedule

_WHAT = "a consumer group's record"


def encode_group(record: GroupRecord) -> bytes:
    settings = asdict(record.settings)
    settings["retry"] = {name: _plain(value) for name, value in settings["retry"].items()}
    is_native = record.protocol is GroupProtocol.PENSTOCK
    document: dict[str, object] = {
        "format": FORMAT_BASIC if is_native else FORMAT_EXTENDED,
        "settings": settings,
        "positions": {topic: _position_document(position) for topic, position in record.positions.items()},
        "members": record.members,
        "assigned": record.assigned,
        "commands": [_command_document(command) for command in record.commands],
        "commanded": record.commanded,
        "generations": record.generations,
        "lives": record.lives,
        "former_queues": record.former_queues,
        "secret": record.secret,
        "deleted": record.deleted,
    }
    if not is_native:  # whoever does not know of it must not touch the group
        document["protocol"] = record.protocol
    return json.dumps(document, separators=(",", ":")).encode()


class _RetryForm(StoredForm, frozen=True):
    schedule: str
    interval: float
    interval_max: float
    jitter: float


class _SettingsForm(StoredForm, frozen=True):
    delivery_order: str
    retry: _RetryForm
    max_attempts: Number | None
    dead_letter_policy: str
    filters: dict[str, str]


_Offsets: TypeAlias = Annotated[tuple[Number, ...], Meta(max_length=QUEUES_MAX)]


class _PositionForm(NamedTuple):
    life: Number
    generations: Number | _Offsets
    offsets: _Offsets
    since: Number = 0
    queues_max: Annotated[int, Meta(ge=0, le=QUEUES_MAX)] = 0
    """Optional: earlier records had neither."""


class _CommandForm(NamedTuple):
    number: Number
    kind: str
    topic: str
    queue: Number
    generation: Number
    steps: tuple[Number, ...]
    attempts: Number | tuple[Number, ...]


class _GroupForm(StoredForm, frozen=True):
    format: int
    settings: _SettingsForm
    positions: dict[str, _PositionForm]
    members: tuple[str, ...]
    commands: tuple[_CommandForm, ...]
    commanded: Number
    generations: Number
    lives: Number
    deleted: bool
    former_queues: dict[str, Annotated[int, Meta(ge=0, le=QUEUES_MAX)]] = field(default_factory=dict)
    assigned: tuple[str, ...] = ()
    secret: Annotated[str, Meta(pattern=r"\A([0-9a-f]{2})*\Z")] = ""
    protocol: str = GroupProtocol.PENSTOCK


def decode_group(data: bytes, *, where: str) -> GroupRecord:
    """Raises `DataDamaged` or `NewerFormatError`."""
    form = parse_stored(data, _GroupForm, what=_WHAT, where=where, formats=(FORMAT_BASIC, FORMAT_EXTENDED))
    settings, retry = form.settings, form.settings.retry
    try:
        return GroupRecord(
            settings=GroupSettings(
                delivery_order=DeliveryOrder(settings.delivery_order),
                retry=RetryPolicy(
                    schedule=RetrySchedule(retry.schedule),
                    interval=timedelta(seconds=retry.interval),
                    interval_max=timedelta(seconds=retry.interval_max),
                    jitter=retry.jitter,
                ),
                max_attempts=settings.max_attempts,
                dead_letter_policy=DeadLetterPolicy(settings.dead_letter_policy),
                filters=settings.filters,
            ),
            positions={topic: _position(one) for topic, one in form.positions.items()},
            members=form.members,
            assigned=form.assigned,
            commands=tuple(map(_command, form.commands)),
            commanded=form.commanded,
            generations=form.generations,
            lives=form.lives,
            former_queues=form.former_queues,
            secret=form.secret,
            deleted=form.deleted,
            protocol=GroupProtocol(form.protocol),
        )
    except (ValueError, OverflowError) as error:
        raise damaged(_WHAT, error, where=where) from error


def _position_document(position: Position) -> list[object]:
    uniform = len(set(position.generations)) == 1
    generations = position.generations[0] if uniform else position.generations
    return [position.life, generations, position.offsets, position.since, position.queues_max]


def _position(form: _PositionForm) -> Position:
    generations = form.generations
    if isinstance(generations, int):
        generations = (generations,) * len(form.offsets)
    if len(generations) != len(form.offsets):
        raise ValueError("a position has not as many generations as offsets")
    return Position(form.offsets, generations, form.life, form.since, form.queues_max)


def _heads(steps: tuple[int, ...]) -> tuple[int, ...]:
    if sum(steps) > NUMBER_MAX:
        raise ValueError("a command is about offsets that there cannot be")
    return tuple(accumulate(steps))


def _command_document(command: Command) -> list[object]:
    attempts = command.attempts[0] if len(set(command.attempts)) == 1 else command.attempts
    return [command.number, command.kind, command.topic, command.queue, command.generation, _steps(command.heads), attempts]


def _command(form: _CommandForm) -> Command:
    attempts = form.attempts
    if isinstance(attempts, int):
        attempts = (attempts,) * len(form.steps)
    if len(attempts) != len(form.steps):
        raise ValueError("a command has not as many attempts as heads")
    return Command(form.number, CommandKind(form.kind), form.topic, form.queue, form.generation, _heads(form.steps), attempts)


def _steps(ascending: tuple[int, ...]) -> list[int]:
    return [second - first for first, second in pairwise((0, *ascending))]


def _plain(value: object) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value

"""Groups' records as bytes."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from itertools import accumulate, pairwise
from typing import Any

from ..log.errors import DataDamaged, NewerFormatError
from .groups import Command, CommandKind, GroupRecord, GroupSettings, Position
from .retry import RetryPolicy

FORMAT = 1


def encode_group(record: GroupRecord) -> bytes:
    """For the group's cell."""
    settings = asdict(record.settings)
    settings["retry"] = {name: _plain(value) for name, value in settings["retry"].items()}
    document = {
        "format": FORMAT,
        "settings": settings,
        "positions": {topic: _position_document(position) for topic, position in record.positions.items()},
        "members": record.members,
        "commands": [[one.number, one.kind, one.topic, one.queue, one.generation, _steps(one.heads)] for one in record.commands],
        "commanded": record.commanded,
        "generations": record.generations,
        "lives": record.lives,
        "secret": record.secret,
        "deleted": record.deleted,
    }
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
            positions={topic: _position(one) for topic, one in document["positions"].items()},
            members=tuple(document["members"]),
            commands=tuple(
                Command(number, CommandKind(kind), topic, queue, generation, tuple(accumulate(steps)))
                for number, kind, topic, queue, generation, steps in document["commands"]
            ),
            commanded=document["commanded"],
            generations=document["generations"],
            lives=document["lives"],
            secret=_secret(document.get("secret", "")),
            deleted=document["deleted"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataDamaged("the cell is not a consumer group's record", object=where, observed=repr(error)) from error


def _secret(text: object) -> str:
    """Records of before had none."""
    if not isinstance(text, str) or bytes.fromhex(text).hex() != text:
        raise ValueError("a secret is hexadecimal digits")
    return text


def _position_document(position: Position) -> list[object]:
    """With one number for all queues where they are of one generation, as they mostly are."""
    uniform = len(set(position.generations)) == 1
    generations = position.generations[0] if uniform else position.generations
    return [position.life, generations, position.offsets, position.since, position.queues_max]


def _position(document: list[Any]) -> Position:
    life, generations, offsets, *rest = document
    since, queues_max = rest or (0, 0)  # records of before had none
    if isinstance(generations, int):
        generations = [generations] * len(offsets)
    if len(generations) != len(offsets):
        raise ValueError("a position has not as many generations as offsets")
    return Position(tuple(offsets), tuple(generations), life, since, queues_max)


def _steps(ascending: tuple[int, ...]) -> list[int]:
    """The first number, and the distance of each other one from the one before it: thousands must fit into a cell."""
    return [second - first for first, second in pairwise((0, *ascending))]


def _plain(value: object) -> object:
    return value.total_seconds() if isinstance(value, timedelta) else value

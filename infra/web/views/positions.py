"""Places in a topic, in forms and links. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

import click

from ....log.errors import InvalidArgument
from ....log.read.reader import Position as LogPosition
from ...terminal.values import PositionParam

QUEUES_MAX = 64
_CURSOR = re.compile(r"\d{1,4}\.\d{1,18}(?:-\d{1,4}\.\d{1,18}){0,63}", re.ASCII)


def position_of(text: str, *, operation: str) -> LogPosition:
    """Raises `InvalidArgument`."""
    try:
        found = cast("LogPosition", PositionParam().convert(text, None, None))
    except click.UsageError as error:
        raise InvalidArgument(error.message, operation=operation) from error
    return found


def cursor_text(offsets: Mapping[int, int]) -> str:
    """Offsets of queues in a link: ``0.120-1.133``."""
    return "-".join(f"{queue}.{offset}" for queue, offset in sorted(offsets.items()))


def cursor_of(text: str) -> dict[int, int]:
    """The inverse of `cursor_text`. Raises `InvalidArgument`."""
    if not _CURSOR.fullmatch(text):
        raise InvalidArgument(
            "a place in a topic is an offset for each queue",
            operation="show messages",
            expected=f"queue.offset, as 0.120-1.133, of at most {QUEUES_MAX} queues",
            observed=text[:200],
        )
    pairs = (one.split(".") for one in text.split("-"))
    return {int(queue): int(offset) for queue, offset in pairs}

"""Places in the logs of sources, as the positions of their captures name them. Pure.

A capture is a named producer whose sequences are positions of its source, in the order of commits. So its last sequence says how far the topic
tells the source: everything up to that position is there, and nothing behind it. A capture marks positions that lie between transactions, so
that nothing has to look at events to know that one is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..postgres.positions import is_between as is_between_postgres
from ..postgres.positions import lsn_text, split

PlaceOf = Callable[[int], str | None]
"""The place in the source's log, as people of that source write it, if a position lies between transactions."""


def _of_postgres(position: int) -> str | None:
    return lsn_text(split(position)[0]) if is_between_postgres(position) else None


def _silent(position: int) -> str | None:
    """The captures of this kind tell no place between transactions."""
    return None


KINDS: Mapping[str, PlaceOf] = {"postgres": _of_postgres, "debezium": _silent}
"""The captures by what stands before the slash in their producers' names."""


def is_capture(producer: str) -> bool:
    """Whether a producer of this name is a capture."""
    kind, slash, _ = producer.partition("/")
    return bool(slash) and kind in KINDS


def tells_places(producer: str) -> bool:
    """Whether a capture is of a kind that tells where transactions end."""
    return KINDS[producer.partition("/")[0]] is not _silent


def place_of(producer: str, position: int) -> str | None:
    """The place that a capture's last sequence names; None amid a transaction, or where nothing tells that it is whole."""
    return KINDS[producer.partition("/")[0]](position)

"""Places in the logs of sources, by the positions of their captures. Pure.

A capture's sequences are positions of its source, in the order of commits: the topic has exactly the events up to the last one. Positions between
transactions are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..capture import positions
from ..debezium import positions as binlog
from ..mongodb import positions as oplog
from ..postgres import positions as wal

PlaceOf = Callable[[int], str | None]
"""The place, in its users' spelling, if a position lies between transactions."""
ROWS = "/rows"
"""The end of the name under which some captures send tables' rows."""


def _of_postgres(position: int) -> str | None:
    return wal.lsn_text(wal.split(position)[0]) if wal.is_between(position) else None


def _of_binlog(position: int) -> str | None:
    return binlog.place_text(position) if positions.is_between(position) else None


def _of_oplog(position: int) -> str | None:
    return oplog.place_text(position) if positions.is_between(position) else None


KINDS: Mapping[str, PlaceOf] = {"postgres": _of_postgres, "debezium": _of_binlog, "mongodb": _of_oplog}
"""Keyed by the part of producers' names before the slash."""


def is_capture(producer: str) -> bool:
    kind, slash, _ = producer.partition("/")
    return bool(slash) and kind in KINDS


def _is_of_rows(producer: str) -> bool:
    return producer.endswith(ROWS) and producer.count("/") == 2  # a capture may be called rows itself


def place_of(producer: str, position: int) -> str | None:
    """None amid a transaction, or where its end is not marked."""
    return KINDS[producer.partition("/")[0]](position)


def captures_between(named: Mapping[str, int]) -> dict[str, int] | None:
    """The captures' last sequences; None unless each stands between transactions, with its tables' rows read."""
    captures = {name: last for name, last in named.items() if is_capture(name)}
    streams = {name: last for name, last in captures.items() if not _is_of_rows(name)}
    if any(place_of(name, last) is None for name, last in streams.items()):
        return None
    for name in captures.keys() - streams.keys():
        stream = streams.get(name.removesuffix(ROWS))
        if stream is None or not positions.has_caught_up(stream, captures[name]):
            return None
    return streams or None

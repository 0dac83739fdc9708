"""Places in the logs of sources, as the positions of their captures name them. Pure.

A capture is a named producer whose sequences are positions of its source, in the order of commits. So its last sequence says how far the topic
tells the source: everything up to that position is there, and nothing behind it. A capture marks positions that lie between transactions, so
that nothing has to look at events to know that one is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..capture import readings
from ..debezium import positions as binlog
from ..mongodb import positions as oplog
from ..postgres import positions as wal

PlaceOf = Callable[[int], str | None]
"""The place in the source's log, as people of that source write it, if a position lies between transactions."""
ROWS = "/rows"
"""The end of the name under which a capture sends what it has read from tables, where that is another one."""


def _of_postgres(position: int) -> str | None:
    return wal.lsn_text(wal.split(position)[0]) if wal.is_between(position) else None


def _of_binlog(position: int) -> str | None:
    return binlog.place_text(position) if readings.is_between(position) else None


def _of_oplog(position: int) -> str | None:
    return oplog.place_text(position) if readings.is_between(position) else None


KINDS: Mapping[str, PlaceOf] = {"postgres": _of_postgres, "debezium": _of_binlog, "mongodb": _of_oplog}
"""The captures by what stands before the slash in their producers' names."""


def is_capture(producer: str) -> bool:
    """Whether a producer of this name is a capture."""
    kind, slash, _ = producer.partition("/")
    return bool(slash) and kind in KINDS


def _is_of_rows(producer: str) -> bool:
    return producer.endswith(ROWS) and producer.count("/") == 2  # a capture may be called rows itself


def place_of(producer: str, position: int) -> str | None:
    """The place that a capture's last sequence names; None amid a transaction, or where nothing tells that it is whole."""
    return KINDS[producer.partition("/")[0]](position)


def captures_between(named: Mapping[str, int]) -> dict[str, int] | None:
    """The last sequences of the captures among named producers, if each stands between transactions, and has caught up with the rows that were
    read from its tables. None otherwise, or while there is none.
    """
    captures = {name: last for name, last in named.items() if is_capture(name)}
    streams = {name: last for name, last in captures.items() if not _is_of_rows(name)}
    if any(place_of(name, last) is None for name, last in streams.items()):
        return None
    for name in captures.keys() - streams.keys():
        stream = streams.get(name.removesuffix(ROWS))
        if stream is None or not readings.has_caught_up(stream, captures[name]):
            return None
    return streams or None

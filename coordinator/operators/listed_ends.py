"""The topics whose log and table one LIST of a lake shows unmoved. Pure.

A log stands at entry v if the LIST shows nothing above: were the next entry trimmed, the floor's checkpoint would be listed. A table stands likewise:
versions are cleaned up only below a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...log.paths import TOPICS, parse_padded, topic_folder
from ...log.stores.protocol import ObjectInfo

NOTHING = -1


@dataclass(slots=True)
class ListedEnd:
    """The highest numbers that a LIST shows of a topic."""

    log: int = NOTHING
    """The highest of entries and checkpoints."""
    tables: dict[str, int] = field(default_factory=dict)
    """The highest versions, by the table's folder."""

    def stands(self, *, entry: int, table: str, version: int) -> bool:
        """Whether a log read up to ``entry`` and a table read up to ``version`` are unmoved."""
        return self.log == entry and self.tables.get(table, NOTHING) == version


class ListedEnds:
    """The ends of all topics in a LIST of `TOPICS`."""

    def __init__(self, objects: Iterable[ObjectInfo]) -> None:
        self._ends: dict[str, ListedEnd] = {}
        for one in objects:
            self._take(one.key.removeprefix(TOPICS).split("/"))

    def of(self, topic: str) -> ListedEnd:
        return self._ends.get(topic_folder(topic)) or ListedEnd()

    def _take(self, parts: list[str]) -> None:
        match parts:
            case [folder, "log", "checkpoints", name] | [folder, "log", name]:
                end = self._end(folder)
                end.log = max(end.log, _number(name))
            case [folder, table, "_delta_log", name]:
                end = self._end(folder)
                end.tables[table] = max(end.tables.get(table, NOTHING), _number(name))

    def _end(self, folder: str) -> ListedEnd:
        return self._ends.setdefault(folder, ListedEnd())


def _number(name: str) -> int:
    found = parse_padded(name.partition(".")[0])
    return NOTHING if found is None else found

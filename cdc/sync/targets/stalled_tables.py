"""Tables that stand still, with the events, the reasons, and the places to go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from ...events.sources import TableId, distinct_names
from ...fold.fold_result import RefusedEvent
from ..record import TableStop

T = TypeVar("T")


class StalledTables:
    """The stopped tables of one run."""

    def __init__(self) -> None:
        self._stops: dict[TableId, dict[int, TableStop]] = {}
        self._resume: dict[TableId, dict[int, int]] = {}

    def __contains__(self, source: TableId) -> bool:
        return source in self._stops

    def __iter__(self) -> Iterator[TableId]:
        return iter(tuple(self._stops))

    def keep(self, source: TableId, stops: Iterable[TableStop], resume: Mapping[int, int]) -> None:
        self._stops[source] = {stop.queue: stop for stop in stops}
        self._resume[source] = dict(resume)

    def add(self, source: TableId, refused: Iterable[RefusedEvent], reached: Mapping[int, int]) -> None:
        """Stop a table. ``reached``: the offset by queue before which it is complete, unless an event was refused."""
        stops = self._stops.setdefault(source, {})
        for one in refused:
            stops.setdefault(one.place[0], TableStop(*one.place, one.reason))
        resume = self._resume.setdefault(source, {})
        for queue, offset in reached.items():
            resume.setdefault(queue, stops[queue].offset if queue in stops else offset)

    @property
    def named(self) -> dict[str, tuple[TableStop, ...]]:
        return {name: tuple(stops[queue] for queue in sorted(stops)) for name, stops in self._by_name(self._stops).items()}

    @property
    def resume(self) -> dict[str, dict[int, int]]:
        """The place to go on, by table and queue."""
        return {name: dict(places) for name, places in self._by_name(self._resume).items()}

    @property
    def sources(self) -> dict[str, TableId]:
        return {name: source for source, name in distinct_names(self._stops).items()}

    def _by_name(self, of_tables: Mapping[TableId, T]) -> dict[str, T]:
        names = distinct_names(self._stops)
        return {names[source]: one for source, one in of_tables.items()}

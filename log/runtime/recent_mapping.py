"""A mapping in the order of last use, of which a copy costs little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_LATE_MAX = 512


class _Layout(Generic[K, V]):
    """Items as they once were, and the place of each. Never changed: copies of a mapping share it."""

    __slots__ = ("items", "places")

    def __init__(self, items: Iterable[tuple[K, V]]) -> None:
        self.items = list(items)
        self.places = {key: place for place, (key, _) in enumerate(self.items)}


class RecentMapping(Mapping[K, V]):
    """Items in the order of their last use, oldest first. Only the oldest leaves.

    `copy` costs what was used since the items were last laid out, at most some hundred items, and not all of them.
    """

    __slots__ = ("_begin", "_late", "_layout", "_len")

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        self._take(_Layout(dict(items).items()), 0, {})

    def _take(self, layout: _Layout[K, V], begin: int, late: dict[K, V], length: int | None = None) -> None:
        self._layout = layout
        self._begin = begin
        """What is laid out before it has left, or was used since."""
        self._late = late
        """What was used since. It hides what is laid out under its keys."""
        self._len = len(layout.items) if length is None else length

    def copy(self) -> RecentMapping[K, V]:
        other = RecentMapping[K, V]()
        other._take(self._layout, self._begin, self._late.copy(), self._len)
        return other

    def use(self, key: K, value: V) -> None:
        """Put an item, as the one used last."""
        if key in self._late:
            del self._late[key]
        elif self._place(key) is None:
            self._len += 1
        self._late[key] = value
        if len(self._late) > _LATE_MAX:
            self._take(_Layout(self._pairs()), 0, {})

    def oldest(self) -> tuple[K, V] | None:
        while self._begin < len(self._layout.items) and self._layout.items[self._begin][0] in self._late:
            self._begin += 1
        if self._begin < len(self._layout.items):
            return self._layout.items[self._begin]
        return next(iter(self._late.items()), None)

    def drop_oldest(self) -> None:
        """Raises `LookupError` where there is none."""
        if (found := self.oldest()) is None:
            raise LookupError("it is empty")
        if self._begin < len(self._layout.items):
            self._begin += 1
        else:
            del self._late[found[0]]
        self._len -= 1
        if not self._len:
            self._take(_Layout(()), 0, {})

    def _pairs(self) -> list[tuple[K, V]]:
        older = [pair for pair in self._layout.items[self._begin :] if pair[0] not in self._late]
        return [*older, *self._late.items()]

    def _place(self, key: K) -> int | None:
        place = self._layout.places.get(key)
        return None if place is None or place < self._begin else place

    def __getitem__(self, key: K) -> V:
        if key in self._late:
            return self._late[key]
        if (place := self._place(key)) is None:
            raise KeyError(key)
        return self._layout.items[place][1]

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self._pairs())

    def __len__(self) -> int:
        return self._len

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.items())})"

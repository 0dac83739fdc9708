"""Memory that many share, in turn: who finds no room is called when there is some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    owner: str
    size_bytes: int
    granted: Callable[[], None]


@dataclass(slots=True)
class ByteBudget:
    """Bytes of each owner and of all. Something larger than a bound passes when nothing else is held."""

    owner_bytes: int
    all_bytes: int
    _held: dict[str, int] = field(default_factory=dict)
    _sum: int = 0
    _line: list[_Waiting] = field(default_factory=list)

    def held(self, owner: str | None = None) -> int:
        """The bytes that an owner holds; None: all together."""
        return self._sum if owner is None else self._held.get(owner, 0)

    def take(self, owner: str, size_bytes: int, granted: Callable[[], None]) -> Callable[[], None] | None:
        """None: the bytes are taken. Else they are taken later, and then ``granted`` is called; what is returned gives up waiting."""
        if self._has_room(owner, size_bytes) and not any(one.owner == owner for one in self._line):
            self._hold(owner, size_bytes)
            return None
        waiting = _Waiting(owner, size_bytes, granted)
        self._line.append(waiting)

        def give_up() -> None:
            if waiting in self._line:
                self._line.remove(waiting)
                self._grant()

        return give_up

    def give(self, owner: str, size_bytes: int) -> None:
        """Give back what was taken."""
        self._hold(owner, -size_bytes)
        if not self._held[owner]:
            del self._held[owner]
        if self._line:
            self._grant()

    def _hold(self, owner: str, size_bytes: int) -> None:
        self._held[owner] = self._held.get(owner, 0) + size_bytes
        self._sum += size_bytes

    def _has_room(self, owner: str, size_bytes: int) -> bool:
        of_owner = self._held.get(owner, 0)
        return (not of_owner or of_owner + size_bytes <= self.owner_bytes) and self._fits(size_bytes)

    def _fits(self, size_bytes: int) -> bool:
        return not self._sum or self._sum + size_bytes <= self.all_bytes

    def _grant(self) -> None:
        """Grant in turn. An owner without room waits alone; where all have none, nobody overtakes."""
        granted: list[_Waiting] = []
        blocked: set[str] = set()
        for one in self._line:
            if not self._fits(one.size_bytes):
                break
            if one.owner not in blocked and self._has_room(one.owner, one.size_bytes):
                self._hold(one.owner, one.size_bytes)
                granted.append(one)
            else:
                blocked.add(one.owner)
        if granted:
            self._line = [one for one in self._line if one not in granted]
        for one in granted:
            one.granted()

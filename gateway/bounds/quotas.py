"""The shares of a gateway that callers hold, for each caller and for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...log import BackPressureError


@dataclass(frozen=True, slots=True)
class Quota:
    """A share with its bounds."""

    what: str
    each: int
    all: int


@dataclass(slots=True)
class QuotaCounter:
    """Counts what is held now."""

    _held: dict[str, Counter[str]] = field(default_factory=dict)
    _sums: Counter[str] = field(default_factory=Counter)

    def held(self, share: Quota, owner: str | None = None) -> int:
        """The share of an owner; None: of all together."""
        return self._sums[share.what] if owner is None else self._held.get(share.what, Counter()).get(owner, 0)

    def check(self, share: Quota, owner: str, more: int = 0) -> None:
        """Raise `BackPressureError` where the share is exceeded."""
        _check(f"{share.what}, of {owner}", self.held(share, owner) + more, share.each)
        _check(f"{share.what}, of all together", self.held(share) + more, share.all)

    @contextmanager
    def hold(self, share: Quota, owner: str, count: int) -> Iterator[None]:
        """A block in which an owner holds so much more. Raises `BackPressureError` without room."""
        self.check(share, owner, count)
        with self.take(share, owner, count):
            yield

    @contextmanager
    def take(self, share: Quota, owner: str, count: int) -> Iterator[None]:
        """The same without regard to room."""
        held = self._held.setdefault(share.what, Counter())
        held[owner] += count
        self._sums[share.what] += count
        try:
            yield
        finally:
            self._sums[share.what] -= count
            held[owner] -= count
            if not held[owner]:
                del held[owner]


def _check(what: str, found: int, most: int) -> None:
    if found > most:
        raise BackPressureError(
            f"there are too many {what}: {found}, and at most {most}. Read what was asked for, and try again later"
        )

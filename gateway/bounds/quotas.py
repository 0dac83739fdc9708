"""The shares of a gateway that callers hold, for each caller and for all."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

from ...log import BackPressureError


@dataclass(frozen=True, slots=True)
class Quota:
    """A share with its bounds."""

    what: str
    each: int
    all: int


HeldShare: TypeAlias = AbstractContextManager[None]
"""A block in which an owner holds so much more of a share."""


@dataclass(slots=True)
class QuotaCounter:
    """Counts what is held now."""

    _held: dict[str, dict[str, int]] = field(default_factory=dict)
    """No `Counter`, which takes long to say that there is nothing, as of most calls."""
    _sums: dict[str, int] = field(default_factory=dict)

    def held(self, share: Quota, owner: str | None = None) -> int:
        """The share of an owner; None: of all together."""
        return self._sums.get(share.what, 0) if owner is None else self._of_owners(share).get(owner, 0)

    def check(self, share: Quota, owner: str, more: int = 0) -> None:
        """Raise `BackPressureError` where the share is exceeded."""
        if (found := self._of_owners(share).get(owner, 0) + more) > share.each:
            raise _exceeded(f"{share.what}, of {owner}", found, share.each)
        if (found := self._sums.get(share.what, 0) + more) > share.all:
            raise _exceeded(f"{share.what}, of all together", found, share.all)

    def hold(self, share: Quota, owner: str, count: int) -> HeldShare:
        """Hold so much more within the bounds. Raises `BackPressureError` without room."""
        self.check(share, owner, count)
        return self.take(share, owner, count)

    def take(self, share: Quota, owner: str, count: int) -> HeldShare:
        """The same without regard to room."""
        return _Held(self._of_owners(share), self._sums, share.what, owner, count)

    def _of_owners(self, share: Quota) -> dict[str, int]:
        found = self._held.get(share.what)
        if found is None:
            found = self._held[share.what] = {}
        return found


class _Held(AbstractContextManager[None]):
    """A class, as a generator takes three times as long, and a call has several."""

    __slots__ = ("_count", "_of_owners", "_owner", "_sums", "_what")

    def __init__(self, of_owners: dict[str, int], sums: dict[str, int], what: str, owner: str, count: int) -> None:
        self._of_owners, self._sums = of_owners, sums
        self._what, self._owner, self._count = what, owner, count

    def __enter__(self) -> None:
        self._of_owners[self._owner] = self._of_owners.get(self._owner, 0) + self._count
        self._sums[self._what] = self._sums.get(self._what, 0) + self._count

    def __exit__(self, *_: object) -> None:
        self._sums[self._what] -= self._count
        self._of_owners[self._owner] -= self._count
        if not self._of_owners[self._owner]:
            del self._of_owners[self._owner]


def _exceeded(what: str, found: int, most: int) -> BackPressureError:
    return BackPressureError(
        f"there are too many {what}: {found}, and at most {most}. Read what was asked for, and try again later"
    )

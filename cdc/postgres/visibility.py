"""The transactions in a snapshot of the server; pure.

A commit is in the log before it is visible, perhaps long before with a synchronous standby, and the two orders differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...log.errors import DataDamaged

_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class VisibleTransactions:
    """The visible transactions: all before ``before``, but for the running ones."""

    before: int
    running: frozenset[int]

    @classmethod
    def read(cls, text: str) -> VisibleTransactions:
        """A parsed ``pg_current_snapshot()``, such as ``10:20:10,14,15``. Raises `DataDamaged`."""
        try:
            _, before, running = text.split(":")
            return cls(int(before), frozenset(int(one) for one in running.split(",") if one))
        except ValueError:
            raise DataDamaged("this is no snapshot", expected="such as 10:20:10,14,15", observed=text) from None

    @property
    def oldest(self) -> int:
        return min(self.running, default=self.before)

    def contains(self, transaction: int) -> bool:
        """Whether a transaction that ended in the log is visible, by the lower 32 bits of its number, as in the log."""
        distance = (
            transaction - self.before + _WRAP // 2
        ) % _WRAP - _WRAP // 2  # no transaction of the stream is half the numbers away
        number = self.before + distance
        return number < self.before and number not in self.running

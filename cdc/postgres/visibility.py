"""The transactions that a snapshot of the server contains; pure.

The order of commits in the log and the order in which transactions become visible are two orders: a commit is in the log first, and is
visible once its session has left the list of those under way. With a synchronous standby that may take long.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...log.errors import DataDamaged

_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class VisibleTransactions:
    """The transactions that are visible: all before ``before``, but for those under way."""

    before: int
    running: frozenset[int]

    @classmethod
    def read(cls, text: str) -> VisibleTransactions:
        """``pg_current_snapshot()``, such as ``10:20:10,14,15``. Raises `DataDamaged`."""
        try:
            _, before, running = text.split(":")
            return cls(int(before), frozenset(int(one) for one in running.split(",") if one))
        except ValueError:
            raise DataDamaged("this is no snapshot", expected="such as 10:20:10,14,15", observed=text) from None

    @property
    def oldest(self) -> int:
        """The first transaction that is not visible."""
        return min(self.running, default=self.before)

    def contains(self, transaction: int) -> bool:
        """Whether a transaction that has ended in the log is visible. Its number is the log's, which has the lower 32 bits only."""
        distance = (
            transaction - self.before + _WRAP // 2
        ) % _WRAP - _WRAP // 2  # no transaction of the stream is half the numbers away
        number = self.before + distance
        return number < self.before and number not in self.running

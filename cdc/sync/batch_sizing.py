"""The sizes of a sync's batches: halved after one that ended its driver or ran out of memory, and grown again with each that did not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ...log.errors import PenstockError
from .plan import SyncPlan

AFTER_DEATH = 2
"""How often batches are halved after a driver died, perhaps out of memory. The next one begins with a fourth, and grows with each batch."""
_TIMES_MAX = 63


class BatchSizing:
    """The sizes of one driver's batches."""

    def __init__(self, plan: SyncPlan, save: Callable[[int], None]) -> None:
        """``save`` keeps the number for the driver after this one."""
        self._plan, self._save = plan, save
        self.times = 0
        """How many times batches are halved: a batch that ended its driver, or ran out of memory, is not taken again at its size."""
        self.can_be_smaller = True
        """Whether the batch that failed had more than one event."""

    @property
    def events_max(self) -> int:
        return max(1, self._plan.options.max_events >> self.times)

    @property
    def bytes_max(self) -> int:
        return max(1, self._plan.options.max_bytes >> self.times)

    def halve(self, times: int) -> None:
        """Halve the largest size of batches ``times`` times, also for a driver that comes after this one."""
        self.times = max(0, min(times, _TIMES_MAX))
        self._save(self.times)

    def failed(self, events: int) -> None:
        """Note that a batch of ``events`` events could not be applied, maybe for want of memory."""
        self.can_be_smaller = events > 1
        times = range(self.times + 1, _TIMES_MAX)
        smaller = next((n for n in times if self._plan.options.max_events >> n <= events // 2), _TIMES_MAX)
        with suppress(PenstockError):  # the error raised is why the batch failed
            self.halve(smaller)

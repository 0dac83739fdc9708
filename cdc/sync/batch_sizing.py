"""The sizes of a sync's batches: halved after one that failed or ended its driver, and grown again with each success."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ...log.errors import PenstockError
from .plan import SyncPlan

AFTER_DEATH = 2
"""The halvings after a driver died, perhaps out of memory."""
_TIMES_MAX = 63


class BatchSizing:
    """The sizes of one driver's batches."""

    def __init__(self, plan: SyncPlan, save: Callable[[int], None]) -> None:
        self._plan, self._save = plan, save
        self.times = 0
        self.can_be_smaller = True

    @property
    def events_max(self) -> int:
        return max(1, self._plan.options.max_events >> self.times)

    @property
    def bytes_max(self) -> int:
        return max(1, self._plan.options.max_bytes >> self.times)

    def halve(self, times: int) -> None:
        """Halve the largest size ``times`` times, for later drivers too."""
        self.times = max(0, min(times, _TIMES_MAX))
        self._save(self.times)

    def failed(self, events: int) -> None:
        """Note a batch that failed, maybe for want of memory."""
        self.can_be_smaller = events > 1
        times = range(self.times + 1, _TIMES_MAX)
        smaller = next((n for n in times if self._plan.options.max_events >> n <= events // 2), _TIMES_MAX)
        with suppress(PenstockError):  # the error raised is why the batch failed
            self.halve(smaller)

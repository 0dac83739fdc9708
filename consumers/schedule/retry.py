"""The consequence of a failed attempt."""

from __future__ import annotations

from ...coordinator.groups.record import GroupSettings
from ...coordinator.queues.cell import MessageState, Tries
from .lanes import Failure


def after_failure(before: Tries, failure: Failure, settings: GroupSettings, *, chance: float, now_ms: int) -> tuple[Tries, bool]:
    """The history with this attempt, and whether the message is given up. ``chance`` decides the jitter."""
    if not failure.blamed:
        return Tries(MessageState.WAITING, before.attempts, before.strikes), False
    strikes, most = before.strikes + 1, settings.max_attempts
    delay_ms = failure.retry_after_ms
    if delay_ms is None:
        delay_ms = round(settings.retry.delay(strikes, chance).total_seconds() * 1000)
    gives_up = failure.rejected or (most is not None and strikes >= most)
    return Tries(MessageState.WAITING, before.attempts, strikes, now_ms + delay_ms), gives_up

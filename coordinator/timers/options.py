"""How a topic's timers are played."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ...log.errors import InvalidArgument
from ...log.limits import MIB, is_positive

CLAIM_ROWS_MAX = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class TimerOptions:
    """How often, and how much at a time. The defaults are for S3; tests of few messages want small numbers."""

    tick: timedelta = timedelta(milliseconds=500)
    """Between two steps that let messages go, unless more is due than one may take; and so much later than it could be what is sent is read,
    where much is sent. A shorter one costs more requests."""
    probe: timedelta = timedelta(seconds=1)
    """Between looks at a timer log that is silent: so much later a message that is due at once is found."""
    settle: timedelta = timedelta(minutes=1)
    """When nothing has followed for so long, what arrived is noted by a write of its own."""
    claim_rows: int = 4_000
    claim_bytes: int = 4 * MIB
    """What one step lets go at most, but one message at least. It is appended as one batch."""
    flush_rows: int = 100_000
    flush_bytes: int = 32 * MIB
    flush_age: timedelta = timedelta(days=1)
    """What waits in memory goes to a run when it is so much, or when so long has passed since the last time."""
    merge_runs: int = 4
    """So many runs of about one size become one."""
    run_bytes: int = 64 * MIB
    """Runs that would be larger together are not merged."""
    group_bytes: int = 2 * MIB
    """Of rows that are read from a run at a time."""
    recalled_rows: int = 1_024
    """So many recalled messages whose time is still to come leave the cell for an object."""
    ahead: timedelta = timedelta(seconds=5)
    """So long before they are due messages are fetched from the runs."""

    def __post_init__(self) -> None:
        for name in ("tick", "probe", "settle", "flush_age", "ahead"):
            duration: object = getattr(self, name)
            if not isinstance(duration, timedelta) or duration < timedelta(0):
                raise InvalidArgument(f"{name} must be a timedelta, not negative", observed=duration)
        for name in (
            "claim_rows",
            "claim_bytes",
            "flush_rows",
            "flush_bytes",
            "merge_runs",
            "run_bytes",
            "group_bytes",
            "recalled_rows",
        ):
            if not is_positive(getattr(self, name)):
                raise InvalidArgument(f"{name} must be a positive whole number", observed=getattr(self, name))
        if self.merge_runs < 2:
            raise InvalidArgument("it takes two runs to merge them", observed=self.merge_runs)
        if self.claim_rows > CLAIM_ROWS_MAX:
            raise InvalidArgument("claim_rows is too large", expected=f"at most {CLAIM_ROWS_MAX}", observed=self.claim_rows)

"""The options of playing a topic's timers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ...log.errors import InvalidArgument
from ...log.limits import DELAY_MAX, MIB, DurationField, field_default, is_positive, set_durations

CLAIM_ROWS_MAX = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class TimerOptions:
    """The intervals and sizes of the player's steps, by default for S3."""

    tick: DurationField = field_default(timedelta(milliseconds=500))
    """The interval between two deliveries, unless more is due than fits into one."""
    probe: DurationField = field_default(timedelta(seconds=1))
    """The interval between probes of a silent timer log."""
    settle: DurationField = field_default(timedelta(minutes=1))
    """The silence after which arrived messages are noted by a write."""
    claim_rows: int = 4_000
    claim_bytes: int = 4 * MIB
    """The most bytes of one delivery, but at least one message."""
    flush_rows: int = 100_000
    flush_bytes: int = 32 * MIB
    flush_age: DurationField = field_default(timedelta(days=1))
    """The limits of waiting messages in memory, or of the time since the last flush, before a run is written."""
    merge_runs: int = 4
    """The number of runs of about one size that are merged."""
    run_bytes: int = 64 * MIB
    """The largest size of a merged run."""
    group_bytes: int = 2 * MIB
    """The size of rows read from a run at a time."""
    recalled_rows: int = 1_024
    """The recalled messages at which they leave the cell for an object."""
    ahead: DurationField = field_default(timedelta(seconds=5))
    """How long before they are due messages are fetched from runs."""

    def __post_init__(self) -> None:
        set_durations(self, "tick", "probe", "settle", "flush_age", "ahead", most=DELAY_MAX, operation="timers")
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

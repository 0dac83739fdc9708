"""The options of push consumers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..log.errors import InvalidArgument
from ..log.limits import MIB, DurationField, field_default, plain, set_durations
from ..log.metrics import MemoryMetrics, Metrics, check_metrics
from .limits import CONSUME_TIMEOUT, CONSUME_TIMEOUT_MAX, check_counts

THREADS = 20
CACHE_MESSAGES = 1_024
CACHE_BYTES = 64 * MIB
BATCH_MESSAGES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """A PushConsumer's settings. Raises `InvalidArgument`."""

    threads: int = THREADS
    """Handlers at once: threads, or tasks of a coroutine function."""
    cache_messages: int = CACHE_MESSAGES
    """The most messages fetched and not settled."""
    cache_bytes: int = CACHE_BYTES
    on_expired: Literal["skip", "stop"] = "skip"
    """The action when retention removed messages before: pass over them and log an error, or end with `OffsetOutOfRange`."""
    consume_timeout: DurationField = field_default(CONSUME_TIMEOUT)
    """A handler that runs longer is a failed attempt; its later result no longer counts."""
    batch: Literal["group", "queue"] | None = None
    """Whether the listener gets lists of messages: of one message group, or of one queue."""
    batch_messages: int = BATCH_MESSAGES
    """The most messages in a list."""
    window: int = 10_000
    """The most messages of a queue from the first unsettled to the last handed out; at the cap fetching stops."""
    waiting: int = 1_000
    """CONCURRENT: the failed messages that wait in a queue's cell. More, those due last, wait in objects of the lake's store."""
    metrics: Metrics = field(default_factory=MemoryMetrics)

    def __post_init__(self) -> None:
        counts = ("threads", "cache_messages", "cache_bytes", "batch_messages", "window", "waiting")
        check_counts(self, *counts, operation="push consumer")
        set_durations(self, "consume_timeout", most=CONSUME_TIMEOUT_MAX, operation="push consumer", above_zero=True)
        check_metrics(self.metrics, "push consumer")
        if self.on_expired not in ("skip", "stop"):
            raise InvalidArgument(
                "on_expired is not known", operation="push consumer", expected="'skip' or 'stop'", observed=plain(self.on_expired)
            )
        if self.batch not in (None, "group", "queue"):
            raise InvalidArgument(
                "batch is not known", operation="push consumer", expected="'group', 'queue' or None", observed=plain(self.batch)
            )

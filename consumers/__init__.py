"""Consumers: push, simple, pull and broadcast, with retries, dead letters and filters."""

from typing import TYPE_CHECKING

from ..log.lazy_names import lazy_names

if TYPE_CHECKING:
    from ..log.metrics import MemoryMetrics, Metrics
    from .broadcast import BroadcastConsumer
    from .dead_letters.redrive import RedriveReport
    from .handlers.results import BatchResult, ConsumeResult, RetryAfter
    from .named_receives import OutstandingDelivery
    from .pull import GroupMixed, PullConsumer
    from .push import PushConsumer
    from .push_options import PushOptions
    from .simple import SimpleConsumer, SimpleOptions
    from .statistics import ConsumerStatistics, QueueStatistics
    from .trace.status import DeliveryState
    from .trace.trace import DeadLetterTrace, GroupTrace, MemberTrace, StoredTrace, Trace

__all__ = [
    "BatchResult",
    "BroadcastConsumer",
    "ConsumeResult",
    "ConsumerStatistics",
    "DeadLetterTrace",
    "DeliveryState",
    "GroupMixed",
    "GroupTrace",
    "MemberTrace",
    "MemoryMetrics",
    "Metrics",
    "OutstandingDelivery",
    "PullConsumer",
    "PushConsumer",
    "PushOptions",
    "QueueStatistics",
    "RedriveReport",
    "RetryAfter",
    "SimpleConsumer",
    "SimpleOptions",
    "StoredTrace",
    "Trace",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "..log.metrics": ["MemoryMetrics", "Metrics"],
            ".broadcast": ["BroadcastConsumer"],
            ".dead_letters.redrive": ["RedriveReport"],
            ".handlers.results": ["BatchResult", "ConsumeResult", "RetryAfter"],
            ".pull": ["GroupMixed", "PullConsumer"],
            ".push": ["PushConsumer"],
            ".push_options": ["PushOptions"],
            ".named_receives": ["OutstandingDelivery"],
            ".simple": ["SimpleConsumer", "SimpleOptions"],
            ".statistics": ["ConsumerStatistics", "QueueStatistics"],
            ".trace.status": ["DeliveryState"],
            ".trace.trace": ["DeadLetterTrace", "GroupTrace", "MemberTrace", "StoredTrace", "Trace"],
        },
    )

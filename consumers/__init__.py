"""Consumers: push, simple, pull and broadcast, with retries, dead letters and filters.

``lake.push_consumer``, ``simple_consumer``, ``pull_consumer`` and ``broadcast_consumer`` of `penstock.connect` make them, or of
`penstock.aio.connect` for asynchronous callers.
"""

from ..log.metrics import MemoryMetrics, Metrics
from .broadcast import BroadcastConsumer
from .dead_letters.redrive import RedriveReport
from .handlers.results import BatchResult, ConsumeResult, RetryAfter
from .pull import GroupMixed, PullConsumer
from .push import PushConsumer, PushOptions
from .simple import SimpleConsumer, SimpleOptions
from .statistics import ConsumerStatistics, QueueStatistics
from .trace.status import Fate
from .trace.trace import DeadLetterTrace, GroupTrace, MemberTrace, StoredTrace, Trace

__all__ = [
    "BatchResult",
    "BroadcastConsumer",
    "ConsumeResult",
    "ConsumerStatistics",
    "DeadLetterTrace",
    "Fate",
    "GroupMixed",
    "GroupTrace",
    "MemberTrace",
    "MemoryMetrics",
    "Metrics",
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

"""Consumers: push, simple, pull and broadcast, with retries, dead letters and filters.

Made by ``lake.push_consumer`` of `penstock.connect`, or of `penstock.aio.connect` for asynchronous callers.
"""

from .metrics import MemoryMetrics, Metrics
from .push import PushConsumer, PushOptions
from .results import BatchResult, ConsumeResult, RetryAfter
from .statistics import ConsumerStatistics, QueueStatistics

__all__ = [
    "BatchResult",
    "ConsumeResult",
    "ConsumerStatistics",
    "MemoryMetrics",
    "Metrics",
    "PushConsumer",
    "PushOptions",
    "QueueStatistics",
    "RetryAfter",
]

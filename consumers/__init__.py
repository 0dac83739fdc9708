"""Consumers: push, simple, pull and broadcast, with retries, dead letters and filters."""

from typing import TYPE_CHECKING

from ..log.lazy_names import lazy_names

if TYPE_CHECKING:
    from ..coordinator.groups.record import GroupMixed as GroupMixed
    from ..log.metrics import MemoryMetrics as MemoryMetrics
    from ..log.metrics import Metrics as Metrics
    from .broadcast import BroadcastConsumer as BroadcastConsumer
    from .dead_letters.redrive import RedriveReport as RedriveReport
    from .handlers.results import BatchListener as BatchListener
    from .handlers.results import BatchResult as BatchResult
    from .handlers.results import ConsumeResult as ConsumeResult
    from .handlers.results import Listener as Listener
    from .handlers.results import RetryAfter as RetryAfter
    from .named_receives import OutstandingDelivery as OutstandingDelivery
    from .pull import PullConsumer as PullConsumer
    from .push import PushConsumer as PushConsumer
    from .push_options import PushOptions as PushOptions
    from .simple import SimpleConsumer as SimpleConsumer
    from .simple import SimpleOptions as SimpleOptions
    from .statistics import ConsumerStatistics as ConsumerStatistics
    from .statistics import QueueStatistics as QueueStatistics
    from .trace.status import DeliveryState as DeliveryState
    from .trace.trace import DeadLetterTrace as DeadLetterTrace
    from .trace.trace import GroupTrace as GroupTrace
    from .trace.trace import MemberTrace as MemberTrace
    from .trace.trace import StoredTrace as StoredTrace
    from .trace.trace import Trace as Trace
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)

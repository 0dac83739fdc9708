"""The settings for a client, as its SDK understands them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from ....coordinator import DeliveryOrder, GroupSettings, RetryPolicy, RetrySchedule
from ..protocol import rocketmq_pb2 as pb

RECEIVE_MAX: Final = 32
LONG_POLL: Final = timedelta(seconds=20)
_ATTEMPTS_MAX: Final = 2**31 - 1
_INTERVALS_MAX: Final = 32
_SENDING: Final = pb.RetryPolicy(
    max_attempts=3,
    exponential_backoff=pb.ExponentialBackoff(initial=timedelta(milliseconds=10), max=timedelta(seconds=1), multiplier=2),
)
_EXPONENTIAL_ONLY: Final = frozenset({pb.NODE_JS})
"""SDKs that ignore a list of intervals: their FIFO consumers would give up after one attempt."""

_ONE_BY_ONE: Final = frozenset({pb.GOLANG})
"""SDKs whose FIFO consumers run on in a batch while a failed message waits for its retry."""


def settings_for(asked: pb.Settings, *, body_bytes_max: int, group: GroupSettings | None) -> pb.Settings:
    """The answer to a client's announcement. Without a record, ``group`` counts as ORDERLY: a client asks for its order only once."""
    answer = pb.Settings()
    answer.CopyFrom(asked)
    answer.metric.on = False
    if asked.HasField("publishing"):
        answer.publishing.max_body_size = body_bytes_max
        answer.publishing.validate_message_type = True
        answer.backoff_policy.CopyFrom(_SENDING)
        return answer
    known = group or GroupSettings()
    subscription = answer.subscription
    subscription.fifo = known.delivery_order is DeliveryOrder.ORDERLY
    one_by_one = subscription.fifo and asked.user_agent.language in _ONE_BY_ONE
    subscription.receive_batch_size = 1 if one_by_one else RECEIVE_MAX
    if not subscription.HasField("long_polling_timeout"):
        subscription.long_polling_timeout.FromTimedelta(LONG_POLL)
    answer.backoff_policy.CopyFrom(_backoff(known, exponential=asked.user_agent.language in _EXPONENTIAL_ONLY))
    return answer


def _backoff(group: GroupSettings, *, exponential: bool) -> pb.RetryPolicy:
    attempts = _ATTEMPTS_MAX if group.max_attempts is None else group.max_attempts
    intervals = [_in_seconds(one) for one in intervals_of(group.retry)]
    if not exponential:
        policy = pb.RetryPolicy(max_attempts=attempts)
        for interval in intervals:
            policy.customized_backoff.next.add().FromTimedelta(interval)  # protobuf 6.30 takes no list of them
        return policy
    multiplier = 1 if len(intervals) == 1 else 2
    form = pb.ExponentialBackoff(initial=intervals[0], max=intervals[-1], multiplier=multiplier)
    return pb.RetryPolicy(max_attempts=attempts, exponential_backoff=form)


def intervals_of(retry: RetryPolicy) -> Sequence[timedelta]:
    """The intervals of a policy until they stay the same, without jitter."""
    if retry.schedule is RetrySchedule.FIXED:
        return [retry.interval]
    intervals = [retry.delay(strikes, 0.0) for strikes in range(1, _INTERVALS_MAX + 1)]
    while len(intervals) > 1 and intervals[-2] == intervals[-1]:
        intervals.pop()
    return intervals


def _in_seconds(interval: timedelta) -> timedelta:
    """Whole seconds, at least 1: the Python SDK drops fractions."""
    return timedelta(seconds=max(1, math.ceil(interval.total_seconds())))

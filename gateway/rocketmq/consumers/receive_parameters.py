"""The checked parameters of a receive or a change of an invisible duration. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration

from ....consumers.simple import INVISIBLE_MAX, INVISIBLE_MIN, RECEIVE_MESSAGES_MAX
from ..protocol import rocketmq_pb2 as pb
from ..protocol.status import StatusError

INVISIBLE_DURATION: Final = timedelta(seconds=60)
POLL_DEFAULT: Final = timedelta(seconds=20)
POLL_MAX: Final = timedelta(seconds=20)
_RESERVE_S: Final = 0.5
"""The time left for an answer's way."""


@dataclass(frozen=True, slots=True)
class ReceiveParameters:
    """A receive."""

    most: int
    invisible: timedelta
    poll: timedelta
    is_renewed: bool
    """Whether messages stay invisible as long as the client lives."""
    attempt_id: str | None

    @property
    def is_named(self) -> bool:
        """Whether cells name the client as holder, for other gateways."""
        return self.is_renewed or self.attempt_id is not None


def receive_parameters_of(request: pb.ReceiveMessageRequest, remaining_s: float | None) -> ReceiveParameters:
    """``remaining_s``: how long the client still waits. Raises `StatusError`."""
    if request.batch_size <= 0:
        raise StatusError(pb.BAD_REQUEST, f"the batch size must be positive, but is {request.batch_size}")
    invisible = INVISIBLE_DURATION
    if not request.auto_renew:
        invisible = _invisible(request.invisible_duration, least=INVISIBLE_MIN)
    attempt_id = request.attempt_id if request.HasField("attempt_id") and request.attempt_id else None
    return ReceiveParameters(
        min(request.batch_size, RECEIVE_MESSAGES_MAX), invisible, _poll(request, remaining_s), request.auto_renew, attempt_id
    )


def changed_duration_of(request: pb.ChangeInvisibleDurationRequest) -> timedelta:
    """A duration from 0, which ends the delivery. Raises `StatusError`."""
    return _invisible(request.invisible_duration, least=timedelta(0))


def _invisible(stated: Duration, *, least: timedelta) -> timedelta:
    try:
        duration = stated.ToTimedelta()
    except (OverflowError, ValueError):
        raise StatusError(pb.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime of {stated.seconds} s is no duration") from None
    if duration < least:
        least_ms = round(least.total_seconds() * 1000)
        raise StatusError(pb.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too small. min is {least_ms}")
    if duration > INVISIBLE_MAX:
        most_ms = round(INVISIBLE_MAX.total_seconds() * 1000)
        raise StatusError(pb.ILLEGAL_INVISIBLE_TIME, f"the invisibleTime is too large. max is {most_ms}")
    return duration


def _poll(request: pb.ReceiveMessageRequest | pb.PullMessageRequest, remaining_s: float | None) -> timedelta:
    poll = POLL_DEFAULT
    if request.HasField("long_polling_timeout"):
        try:
            poll = min(request.long_polling_timeout.ToTimedelta(), POLL_MAX)
        except (OverflowError, ValueError):
            poll = POLL_MAX
        if poll < timedelta(0):
            raise StatusError(pb.ILLEGAL_POLLING_TIME, "the long polling time is negative")
    if remaining_s is None:
        return poll
    if remaining_s <= _RESERVE_S:
        raise StatusError(
            pb.ILLEGAL_POLLING_TIME, f"the request's deadline is in {remaining_s:.3f} s, which leaves no time for its answer"
        )
    return min(poll, timedelta(seconds=remaining_s - _RESERVE_S))


def poll_of(request: pb.PullMessageRequest, remaining_s: float | None) -> timedelta:
    """The longest wait of a pull. Raises `StatusError`."""
    return _poll(request, remaining_s)

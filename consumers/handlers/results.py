"""A listener's answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import NamedTuple, TypeAlias

from ...log.escapes import text_of_error
from ...log.limits import DELAY_MAX, Duration, checked_duration
from ...log.message.message import MessageView
from ..schedule.lanes import Failure


class ConsumeResult(Enum):
    """The outcome of a message in a listener."""

    SUCCESS = "success"
    """The message is done, and never handed out again."""
    FAILURE = "failure"
    """The message is run again after the retry policy's interval; at the end of its attempts the dead-letter policy applies."""
    DEAD_LETTER = "dead_letter"
    """The message can never succeed: the dead-letter policy applies at once."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """A failure, to be run again after ``delay`` instead of the policy's interval."""

    delay: timedelta
    reason: str

    def __init__(self, delay: Duration, reason: str = "the listener asked for a retry") -> None:
        """``delay`` is a `timedelta` or a number of seconds."""
        object.__setattr__(self, "delay", checked_duration("delay", delay, most=DELAY_MAX, operation="consume"))
        object.__setattr__(self, "reason", reason)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """A batch of which the first ``succeeded`` messages are done, and the next one is not."""

    succeeded: int
    then: ConsumeResult | RetryAfter = ConsumeResult.FAILURE
    """The result of the first message that did not succeed."""


NO_ANSWER = "the listener returned None"

Result: TypeAlias = ConsumeResult | RetryAfter
AnyResult: TypeAlias = ConsumeResult | RetryAfter | BatchResult
Listener: TypeAlias = "Callable[[MessageView], ConsumeResult | RetryAfter | Awaitable[ConsumeResult | RetryAfter]]"
"""Takes a message. A function runs in a thread; a coroutine function is awaited."""
BatchListener: TypeAlias = "Callable[[list[MessageView]], AnyResult | Awaitable[AnyResult]]"
"""The same, of a list of messages."""


class MessagesDeclined(Exception):
    """Raised by a listener that declines messages: they are given back as if not handed out, and, outside of a drain, handed out again at once."""


class ListenerVerdict(NamedTuple):
    """A checked result: the messages that succeeded, and what failed then."""

    succeeded: int
    failure: Failure | None = None


def judge(result: object, count: int) -> ListenerVerdict:
    """Anything that is no answer is a failure."""
    if result is ConsumeResult.SUCCESS:
        return ListenerVerdict(count)
    if isinstance(result, BatchResult):
        if isinstance(result.succeeded, bool) or not isinstance(result.succeeded, int) or not 0 <= result.succeeded <= count:
            return ListenerVerdict(0, Failure(f"the listener answered {result!r} to a batch of {count}", blamed=count == 1))
        if result.succeeded == count:
            return ListenerVerdict(count)
        return ListenerVerdict(result.succeeded, _failure(result.then, 1))
    return ListenerVerdict(0, _failure(result, count))


def raised(error: BaseException, count: int) -> ListenerVerdict:
    return ListenerVerdict(0, Failure(text_of_error(error), blamed=count == 1, error=type(error).__name__))


def _failure(result: object, count: int) -> Failure:
    blamed = count == 1
    match result:
        case RetryAfter(delay, reason):
            return Failure(reason, retry_after_ms=round(delay.total_seconds() * 1000), blamed=blamed, error="RetryAfter")
        case ConsumeResult.FAILURE:
            return Failure("the listener answered FAILURE", blamed=blamed, error="FAILURE")
        case ConsumeResult.DEAD_LETTER:
            return Failure("the listener answered DEAD_LETTER", rejected=True, blamed=blamed, error="DEAD_LETTER")
        case None:
            return Failure(NO_ANSWER, blamed=blamed)
        case Coroutine():
            result.close()
            return Failure("the listener answered a coroutine; make it a coroutine function (async def)", blamed=blamed)
        case _:
            return Failure(f"the listener answered {result!r:.200}, which is no ConsumeResult", blamed=blamed)

"""Errors, grouped by the caller's next step.

PenstockError
    ├── RetryError              the same call may succeed later
    │   ├── StoreUnavailable
    │   │   └── AccessRefused
    │   ├── StorageFull, BackPressureError
    │   └── NotWritten
    │       └── RoutingChanged
    ├── ReopenError             this object is done for; make a new one
    │   ├── ClosedError, FencedError, ProducerFailedError, UnknownOutcome, ForkedError, ViewLost
    ├── CallError               the call or the configuration is wrong
    │   ├── InvalidArgument, LimitExceeded, MessageTypeMismatch, NotSupported, MissingDependency
    │   ├── TopicNotFound, TopicExists, TopicDeleted
    │   ├── OffsetOutOfRange, SequenceError, MessageNotFound
    │   ├── ReadOnlyError, PermissionDenied
    │   │   └── AccessLost
    │   ├── ClockSkewError, UnsafeStoreError, NewerFormatError
    ├── DataDamaged             stored bytes are not what was written
    │   └── ForeignObject
    └── InternalError           a bug in Penstock

Every error carries ``operation``, ``object``, ``expected``, ``observed`` and ``hint`` where they are known. ``kind`` is a code for programs; codes
are only ever added. The text is for people and may change.
"""

from __future__ import annotations

from typing import ClassVar


class PenstockError(Exception):
    """Base of all errors raised by Penstock."""

    kind: ClassVar[str] = "penstock"

    def __init__(
        self,
        message: str,
        *,
        operation: str | None = None,
        object: str | None = None,
        expected: object = None,
        observed: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.operation = operation
        self.object = object
        self.expected = expected
        self.observed = observed
        self.hint = hint

    def __str__(self) -> str:
        facts = [
            f"{name}: {_text(value)}"
            for name, value in (
                ("operation", self.operation),
                ("object", self.object),
                ("expected", self.expected),
                ("observed", self.observed),
            )
            if value is not None
        ]
        text = self.message + (f" ({'; '.join(facts)})" if facts else "")
        return f"{text}. {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.__dict__))


FACT_CHARS_MAX = 2_000
"""The characters of a fact in an error's text; the error itself has all."""


def _text(value: object) -> str:
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - a number of too many digits, or an object with a mistake of its own
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= FACT_CHARS_MAX else f"{text[:FACT_CHARS_MAX]}…"


def _rebuild(cls: type[PenstockError], message: str, state: dict[str, object]) -> PenstockError:
    error = cls(message)
    error.__dict__.update(state)
    return error


class RetryError(PenstockError):
    """The same call may succeed later."""

    kind = "retry"


class StoreUnavailable(RetryError):
    """The store did not answer in time, throttled, or failed. The call may have been carried out."""

    kind = "store_unavailable"


class AccessRefused(StoreUnavailable):
    """The store or the table refuses what it allowed before. Nothing was written. It is tried again for `refusal_timeout`."""

    kind = "access_refused"


NO_ROOM, NO_ROOM_HINT = "no room left", "Free some space, or raise the quota: work goes on by itself then"
"""The words of every `StorageFull`; its object says where."""


class StorageFull(RetryError):
    """The store has no room left. Nothing was written. Background work tries again."""

    kind = "storage_full"


class BackPressureError(RetryError):
    """The producer holds as many bytes in memory as it may. Nothing was taken over."""

    kind = "back_pressure"


class NotWritten(RetryError):
    """The send is proved not to be in the log."""

    kind = "not_written"


class RoutingChanged(NotWritten):
    """The topic got more queues after the rows were routed. They are proved not to be in the log."""

    kind = "routing_changed"


class ReopenError(PenstockError):
    """This object cannot be used any more; open a new one."""

    kind = "reopen"


class ClosedError(ReopenError):
    """This process closed the object."""

    kind = "closed"


class FencedError(ReopenError):
    """A newer instance of the named producer is open."""

    kind = "fenced"


class ProducerFailedError(ReopenError):
    """An earlier send of this producer failed, and nothing overtakes a failed send."""

    kind = "producer_failed"


class UnknownOutcome(ReopenError):
    """The send may or may not be in the log; ``last_sequence`` of the reopened named producer decides."""

    kind = "unknown_outcome"


class ForkedError(ReopenError):
    """The process was forked after the lake was opened; open it in the child."""

    kind = "forked"


class ViewLost(ReopenError):
    """The log was trimmed past what this process knew; readers reopen by themselves."""

    kind = "view_lost"


class CallError(PenstockError):
    """The call or the configuration is wrong; repeating it will not help."""

    kind = "call"


class InvalidArgument(CallError, ValueError):
    """A value has the wrong type or form."""

    kind = "invalid_argument"


class LimitExceeded(CallError, ValueError):
    """A value is larger than the topic allows."""

    kind = "limit_exceeded"


class MessageTypeMismatch(CallError):
    """The message is of another type than the topic takes."""

    kind = "message_type_mismatch"


class NotSupported(CallError):
    """Penstock does not do this, or not yet."""

    kind = "not_supported"


class MissingDependency(CallError):
    """Something this call needs is not installed in a fitting version."""

    kind = "missing_dependency"


def install_hint(extra: str) -> str:
    """The command that installs an extra of Penstock. A checkout is installed from its folder; else the wheel of this version is named, as no
    package index has it.
    """
    from importlib.metadata import version
    from pathlib import Path

    here = Path(__file__).resolve().parents[1]
    what = "." if (here / "pyproject.toml").exists() else f"./penstock-{version('penstock')}-py3-none-any.whl"
    return f"pip install '{what}[{extra}]'"


class TopicNotFound(CallError, LookupError):
    """The lake has no topic of this name."""

    kind = "topic_not_found"


class TopicExists(CallError):
    """The topic exists with other settings."""

    kind = "topic_exists"


class TopicDeleted(CallError):
    """The topic was deleted since it was opened."""

    kind = "topic_deleted"


class OffsetOutOfRange(CallError, LookupError):
    """The offset is older than the earliest kept, or beyond the next one."""

    kind = "offset_out_of_range"


class SequenceError(CallError, ValueError):
    """A sequence is not above the same producer's one before."""

    kind = "sequence"


class MessageNotFound(CallError, LookupError):
    """The lake has no such message, or none any more."""

    kind = "message_not_found"


class ReadOnlyError(CallError):
    """The lake was opened with ``read_only=True``."""

    kind = "read_only"


class PermissionDenied(CallError):
    """The store refused the credentials, or what they may do."""

    kind = "permission_denied"


class AccessLost(PermissionDenied):
    """The store or the table has refused for `refusal_timeout` what it allowed before."""

    kind = "access_lost"


def is_never_allowed(error: object) -> bool:
    """Whether another try is of no use, as this was never allowed."""
    return isinstance(error, PermissionDenied) and not isinstance(error, AccessLost)


class ClockSkewError(CallError):
    """This machine's clock is more than five minutes off the store's."""

    kind = "clock_skew"


class UnsafeStoreError(CallError):
    """The store does not honour conditional writes, on which Penstock relies."""

    kind = "unsafe_store"


class NewerFormatError(CallError):
    """A newer version of Penstock wrote the object."""

    kind = "newer_format"


class DataDamaged(PenstockError):
    """Stored bytes are not what was written."""

    kind = "data_damaged"


class ForeignObject(DataDamaged):
    """An object under the lake's names that Penstock did not write."""

    kind = "foreign_object"


class InternalError(PenstockError):
    """A bug in Penstock; please report it with this text."""

    kind = "internal"


def unforeseen(error: Exception, *, operation: str) -> InternalError:
    """A bug as an error for the caller, instead of vanishing in a task."""
    internal = InternalError("something unforeseen went wrong; please report it", operation=operation, observed=repr(error))
    internal.__cause__ = error
    return internal

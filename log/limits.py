"""The log's limits.

`TopicLimits` may be set per topic; its defaults are RocketMQ's (``MessageStoreConfig``, ``ProxyConfig``, ``Validators``). The constants are part of
the stored format or of a proof in ``docs/0001-the-log-protocol.md`` and are never tuned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar, cast, overload

from .errors import InvalidArgument, LimitExceeded

E = TypeVar("E", bound=StrEnum)
W_contra = TypeVar("W_contra", contravariant=True)

Duration: TypeAlias = timedelta | float
"""A duration as callers may give it: a `timedelta`, or a number of seconds."""


class Strings(Protocol):
    """Strings in a list, a set or the like. One string is not, though it is a ``Collection[str]``."""

    def __contains__(self, value: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...


class StringList(Strings, Protocol):
    """Strings in a list or a tuple. One string is not, though it is a ``Sequence[str]``."""

    def __getitem__(self, index: int, /) -> str: ...


if TYPE_CHECKING:

    class DurationField:
        """A dataclass's field that takes a `Duration` and is read as a `timedelta`."""

        @overload
        def __get__(self, instance: None, owner: type) -> Any: ...  # noqa: ANN401 - a field has no value in its class
        @overload
        def __get__(self, instance: object, owner: type) -> timedelta: ...
        def __get__(self, instance: object, owner: type) -> Any: ...
        def __set__(self, instance: object, value: Duration) -> None: ...

    class OptionalDurationField:
        """A `DurationField` that may be None."""

        @overload
        def __get__(self, instance: None, owner: type) -> Any: ...  # noqa: ANN401 - the same
        @overload
        def __get__(self, instance: object, owner: type) -> timedelta | None: ...
        def __get__(self, instance: object, owner: type) -> Any: ...
        def __set__(self, instance: object, value: Duration | None) -> None: ...

    class ChoiceField(Generic[E, W_contra]):
        """A dataclass's field that takes an enumeration's member or its word, and is read as the member."""

        @overload
        def __get__(self, instance: None, owner: type) -> Any: ...  # noqa: ANN401 - the same
        @overload
        def __get__(self, instance: object, owner: type) -> E: ...
        def __get__(self, instance: object, owner: type) -> Any: ...
        def __set__(self, instance: object, value: W_contra) -> None: ...
else:
    DurationField, OptionalDurationField = Duration, Duration | None

    class ChoiceField:
        """The enumeration, for those who ask a dataclass for its types."""

        def __class_getitem__(cls, given: tuple[type[E], object]) -> type[E]:
            return given[0]


NO_TIME = timedelta(0)
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
REFUSAL_TIMEOUT = timedelta(minutes=5)
"""The default time for which a refusal of what was allowed before is tried again."""
_SECONDS_MAX = timedelta.max.total_seconds() - 1

KIB = 1024
MIB = 1024 * KIB

# --- Format constants: part of stored data and of the proofs -----------------------------------------------------------------
FORMAT_BASIC = 1
"""The first format. Objects state the lowest format whose readers understand them."""
FORMAT_EXTENDED = 2
"""The format of schemas, and of messages with a key, headers, or NULL instead of a body."""
FORMAT_SETTINGS = 3
"""The format of the settings of a topic of type MIXED, with limits of headers, or with another routing than the default."""
FORMAT_IDEMPOTENT = 4
"""The format of idempotent producers' batches and rows."""
FORMAT_CONFIGS = 5
"""The format of the settings of a topic with configs of Kafka's clients."""
FORMAT_GROWN = 6
"""The format of logs of topics that got more queues."""
FORMATS_OF_SETTINGS = (FORMAT_BASIC, FORMAT_EXTENDED, FORMAT_SETTINGS, FORMAT_CONFIGS)
FORMATS_OF_LOGS = (FORMAT_BASIC, FORMAT_EXTENDED, FORMAT_IDEMPOTENT, FORMAT_GROWN)
SCHEMA_VERSIONS_KEPT = 100
"""The versions of a schema that a topic's state remembers."""
SCHEMA_CHANGES_TOLD = 20
"""How many changes of one version it remembers."""
VALIDITY_ENTRIES = 64
"""The entries after the tail it was formed at within which a batch may be accepted."""
UNNAMED_ROW_ENTRIES = 64
"""The entries after its last accepted batch at which an unnamed producer's row leaves the state. At least VALIDITY_ENTRIES, so that the row refuses
its batches as long as they are valid.
"""
NAMED_ROW_MS = 30 * 24 * 3600 * 1000
"""The store time after which an unused name leaves the state."""
IDEMPOTENT_ROW_ENTRIES = 64
"""The entries for which an idempotent producer's row stays in the state in any case; at least VALIDITY_ENTRIES, as above."""
IDEMPOTENT_ROW_MS = 15 * 60 * 1000
"""The store time after which an unused one leaves it; far above the two minutes (``delivery.timeout.ms``) for which Kafka's clients retry."""
IDEMPOTENT_STEP_MAX_MS = 10 * 1000
"""The most of that time that one entry counts, so that neither a clock that is off, nor the end of a long silence, ages rows by more."""
IDEMPOTENT_ROWS_MAX = 10_000
"""The rows of idempotent producers above which the longest unused leaves before its time."""
IDEMPOTENT_APPEND_MAX_S = 120.0
"""The longest time for which a process tries to append an idempotent producer's batch; with its client's retries far below IDEMPOTENT_ROW_MS."""
STORE_TIME_STEP_MAX_MS = 24 * 3600 * 1000
"""The most by which one entry moves the store timestamp, so that one bad clock ages no named producers out of the state."""
GROWTHS_MAX = 16
"""The growths of one life of a topic: each at least doubles its queues, of which there are `QUEUES_MAX` at most."""
CHECKPOINT_ENTRIES = 64
VIEW_AGE_MAX_S = 300.0
"""The time for which a read of the tail proves that the next key has not been trimmed; far below TRIM_GRACE_MS."""
TRIM_GRACE_MS = 3600 * 1000
"""The age of a floor, by the store's clock, before anything at or below it is deleted."""
CLOCK_SKEW_MAX_MS = 5 * 60 * 1000
JOB_AGE_MAX_MS = 48 * 3600 * 1000
"""The age at which an unlinked staged upload is closed."""
JOB_LINK_MAX_S = 24 * 3600.0
"""The longest time after an upload began at which a link to it may leave a process; far below JOB_AGE_MAX_MS, so that no link meets a state that has
forgotten the job.
"""

# --- Sizes -------------------------------------------------------------------------------------------------------------------
ENTRY_INLINE_BYTES_MAX = 1 * MIB
"""The size above which rows are staged and linked: some servers break the connection of a larger refused conditional PUT."""
HANDED_BYTES_MAX = 8 * MIB
"""The size above which rows are staged in parts, as a job."""
ENTRY_LINKS_MAX = 256
PATH_PART_BYTES_MAX = 255
TOPIC_NAME_CHARS_MAX = 249
"""The longest name of a topic, as Kafka's: with ``timer.`` before it, it fills a path part."""
GROUP_STORED_BYTES_MAX = 249
"""The longest part of a key that stands for a consumer group."""
PRODUCER_NAME_BYTES_MAX = 128
QUEUES_MAX = 4096
MESSAGE_ID_CHARS_MAX = 128
DELAY_MAX = timedelta(days=3650)
HEADERS_BYTES_MAX = 1 * MIB
HEADERS_MAX = 10_000
NUMBER_MAX = 2**63 - 1
"""The largest stored number: offsets, entries, sequences, counts."""
SEQUENCE_MAX = NUMBER_MAX
TIME_MAX_MS = 253_402_300_799_999
"""The end of the year 9999, after which no timestamp can be shown."""
ENTRY_GAP_MAX = 64 * 1024
"""The most entries in a row that are lost with later ones left. An object beyond does not belong to the log."""
NAME_CHARS_MAX = 1024
"""The most characters of a stored name or id."""
TIME_MIN_US = -62_135_596_800_000_000
"""The beginning of the year 1, in microseconds."""
ENTRY_ROWS_MAX = 2**31
"""The most rows of an entry, inline and linked. A repair moves offsets by this where a lost entry's rows are unknown."""
FILTER_CHARS_MAX = 4096
"""The characters of a filter."""
WAIT_MAX = timedelta(days=30)
"""The longest wait that a caller may state."""
LINGER_MAX = timedelta(hours=1)
MEMORY_BYTES_MAX = 1024 * 1024 * MIB
MESSAGES_MAX = 1_000_000
SHOWN_CHARS_MAX = 200
BODY_SHOWN_BYTES = 64
FILTER_DEPTH_MAX = 64
"""The deepest nesting of parentheses and NOTs."""


class Seconds(timedelta):
    """A duration given as a number of seconds, and shown as that number."""

    __slots__ = ("given",)
    given: float

    def __new__(cls, given: float) -> Self:
        made = super().__new__(cls, seconds=given)
        made.given = given
        return made

    def __repr__(self) -> str:
        return repr(self.given)

    def __reduce__(self) -> tuple[type[Seconds], tuple[float]]:
        return Seconds, (self.given,)


def field_default(value: timedelta | StrEnum | None) -> Any:  # noqa: ANN401 - a type checker takes the default for the field itself
    """The default of a `DurationField`, an `OptionalDurationField` or a `ChoiceField`."""
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicLimits:
    """The limits of a message's size, and of its delay."""

    max_body_bytes: int = 4 * MIB
    max_properties_bytes: int = 16 * KIB
    """The bytes of all properties' names and values, the tag and the keys."""
    max_properties: int = 128
    max_headers_bytes: int | None = None
    """The bytes of the binary key and of all headers' names and values, up to 1 MiB; None: as ``max_properties_bytes``."""
    max_headers: int | None = None
    """Up to 10,000; None: as ``max_properties``."""
    max_message_group_bytes: int = 63
    max_delay: DurationField = field_default(timedelta(days=40))
    """The latest time after ``send`` at which a delayed message may be due."""

    def __post_init__(self) -> None:
        for name in ("max_body_bytes", "max_properties_bytes", "max_properties", "max_message_group_bytes"):
            check_count(f"limit {name}", getattr(self, name), most=MEMORY_BYTES_MAX, operation="limits")
        for name, most in (("max_headers_bytes", HEADERS_BYTES_MAX), ("max_headers", HEADERS_MAX)):
            if (given := getattr(self, name)) is not None:
                check_count(f"limit {name}", given, most=most, operation="limits")
        set_durations(self, "max_delay", most=DELAY_MAX, operation="limits", above_zero=True)

    @property
    def headers_bytes_max(self) -> int:
        return self.max_properties_bytes if self.max_headers_bytes is None else self.max_headers_bytes

    @property
    def headers_max(self) -> int:
        return self.max_properties if self.max_headers is None else self.max_headers


def named(kind: type[E], value: object) -> E:
    """The member of an enumeration by its name, in capitals or not. Raises `ValueError`."""
    word = value.casefold() if isinstance(value, str) else None
    return next((one for one in kind if one.value.casefold() == word), None) or kind(cast("str", value))


def is_positive(value: object) -> bool:
    """Whether a value is a whole number above zero, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def check_count(name: str, value: object, *, most: int, operation: str, least: int | None = None) -> None:
    """Raise `InvalidArgument` unless the value is a whole number from ``least`` (None: above zero), and `LimitExceeded` above ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < (1 if least is None else least):
        wanted = "positive whole number" if least is None else f"whole number from {least}"
        raise InvalidArgument(f"{name} must be a {wanted}", operation=operation, observed=plain(value))
    if value > most:
        raise LimitExceeded(f"{name} is too much", operation=operation, expected=f"at most {most:,}", observed=plain(value))


def checked_duration(
    name: str,
    value: object,
    *,
    operation: str,
    most: timedelta,
    least: timedelta = NO_TIME,
    above_zero: bool = False,
    or_none: bool = False,
    hint: str | None = None,
) -> timedelta:
    """A caller's `Duration` as a `timedelta`.

    Raises `InvalidArgument` for anything else and below ``least``, and `LimitExceeded` above ``most``. ``above_zero`` refuses less than a
    microsecond. ``or_none``: errors name None as allowed; it is not allowed here.
    """
    found = _as_timedelta(value)
    if found is not None and least <= found <= most and (found or not above_zero):
        return found  # before the texts of refusals, which take longer than the checks
    lower = "above 0" if above_zero else "0 or more" if least == NO_TIME else f"at least {duration_text(least)}"
    if found is None:
        expected = f"a timedelta or a number of seconds, {lower}{', or None' if or_none else ''}"
        raise InvalidArgument(f"{name} is no duration", operation=operation, expected=expected, observed=plain(value))
    given = duration_text(found) if isinstance(value, timedelta) else plain(value)
    if found < least or (above_zero and not found):
        raise InvalidArgument(f"{name} is too short", operation=operation, expected=lower, observed=given)
    if not isinstance(value, timedelta):
        hint = "a number is one of seconds"
    expected = f"at most {duration_text(most)}"
    raise LimitExceeded(f"{name} is too long", operation=operation, expected=expected, observed=given, hint=hint)


def optional_duration(
    name: str,
    value: object,
    *,
    operation: str,
    most: timedelta,
    above_zero: bool = False,
    hint: str | None = None,
) -> timedelta | None:
    """`checked_duration`, or None."""
    if value is None:
        return None
    return checked_duration(name, value, operation=operation, most=most, above_zero=above_zero, or_none=True, hint=hint)


def as_timedelta(value: Duration) -> timedelta:
    """A duration that `checked_duration` has taken before."""
    return value if isinstance(value, timedelta) else Seconds(value)


def set_durations(fields: object, *names: str, operation: str, most: timedelta, above_zero: bool = False) -> None:
    """Turn fields of a frozen dataclass into `timedelta`. Raises as `checked_duration` does."""
    for name in names:
        found = checked_duration(name, getattr(fields, name), operation=operation, most=most, above_zero=above_zero)
        object.__setattr__(fields, name, found)


def duration_text(value: timedelta) -> str:
    """A duration in its largest whole unit: ``12 h``, ``1.5 s``."""
    for unit, one in (("days", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if value and not value % one and abs(value // one) > 1:
            return f"{value // one:,} {unit}"
    return f"{value.total_seconds():.15g} s"


def _as_timedelta(value: object) -> timedelta | None:
    """None for no duration. Numbers out of range become the longest, or most negative, `timedelta`."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if abs(value) > _SECONDS_MAX:
        return timedelta.max if value > 0 else timedelta.min
    return Seconds(value)


def check_flag(name: str, value: object, *, operation: str) -> None:
    """Raise `InvalidArgument` unless the value is True or False: the text "false" would count as true."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False", operation=operation, observed=plain(value))


def shown(self: object, what: str, *states: str) -> str:
    """The ``repr`` of a stateful object: its class, its subject and its states."""
    return f"<{type(self).__name__} {', '.join([what, *filter(None, states)])}>"


def bytes_text(value: object) -> str:
    """The beginning of a message's body, and the size of a longer one."""
    if not isinstance(value, bytes | bytearray | memoryview) or len(value) <= BODY_SHOWN_BYTES:
        return repr(value)
    return f"{bytes(value[:BODY_SHOWN_BYTES])!r}… of {len(value):,} bytes"


def named_tuple_text(value: tuple[object, ...], names: Iterable[str]) -> str:
    """The ``repr`` of a named tuple, with the beginning of its body."""
    fields = ", ".join(f"{name}={bytes_text(one)}" for name, one in zip(names, value, strict=True))
    return f"{type(value).__name__}({fields})"


def plain(value: object) -> str:
    """A caller's value, short enough for an error."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of too many digits, or an object with a mistake of its own
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"

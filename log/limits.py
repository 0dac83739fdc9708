"""Every limit of the log, in one place.

`TopicLimits` may be set per topic; its defaults are RocketMQ's (``MessageStoreConfig``, ``ProxyConfig``, ``Validators``). The
constants are part of the stored format or of a proof in ``docs/0001-the-log-protocol.md`` and are never tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar, cast

from .errors import InvalidArgument, LimitExceeded

E = TypeVar("E", bound=StrEnum)

KIB = 1024
MIB = 1024 * KIB

# --- Format constants: part of stored data and of the proofs -----------------------------------------------------------------
FORMAT_VERSION = 1
VALIDITY_ENTRIES = 64
"""The number of entries, after the tail it was formed at, within which a batch may be accepted."""
UNNAMED_ROW_ENTRIES = 64
"""The number of entries after its last accepted batch at which an unnamed producer's row leaves the state. It is at least
VALIDITY_ENTRIES, so that a batch cannot be accepted again once the row that would refuse it is gone."""
NAMED_ROW_MS = 30 * 24 * 3600 * 1000
"""The store time after which an unused name leaves the state."""
STORE_TIME_STEP_MAX_MS = 24 * 3600 * 1000
"""The most by which one entry moves the store timestamp. So one bad clock cannot push it out for good, nor age named producers out of
the state."""
CHECKPOINT_ENTRIES = 64
VIEW_AGE_MAX_S = 300.0
"""How long a read of the tail proves that the next key has not been trimmed; far below TRIM_GRACE_MS."""
TRIM_GRACE_MS = 3600 * 1000
"""How long a floor must have stood, by the store's clock, before anything at or below it is deleted."""
CLOCK_SKEW_MAX_MS = 5 * 60 * 1000
JOB_AGE_MAX_MS = 48 * 3600 * 1000
"""The age at which a staged upload that nothing linked is closed."""
JOB_LINK_MAX_S = 24 * 3600.0
"""The longest time after an upload began at which a link to it may leave a process; far below JOB_AGE_MAX_MS. So no process can come by
a jump to a state that has forgotten the job, and link it all the same."""

# --- Sizes -------------------------------------------------------------------------------------------------------------------
ENTRY_INLINE_BYTES_MAX = 1 * MIB
"""The size above which rows are staged and linked: some servers break the connection of a refused conditional PUT of more."""
HANDED_BYTES_MAX = 8 * MIB
"""The size above which rows are staged in parts, side by side, as a job."""
ENTRY_LINKS_MAX = 256
PATH_PART_BYTES_MAX = 255
TOPIC_NAME_CHARS_MAX = 127
PRODUCER_NAME_BYTES_MAX = 128
QUEUES_MAX = 4096
TAG_BYTES_MAX = 1024
KEYS_MAX = 128
DELAY_MAX = timedelta(days=3650)
NUMBER_MAX = 2**63 - 1
"""The largest stored number: offsets, entries, sequences, counts."""
SEQUENCE_MAX = NUMBER_MAX
TIME_MAX_MS = 253_402_300_799_999
"""The end of the year 9999, after which no timestamp can be shown."""
ENTRY_GAP_MAX = 64 * 1024
"""The most entries in a row that are ever lost with later ones left. An object under a number beyond does not belong to the log."""
NAME_CHARS_MAX = 1024
"""The most characters of a stored name or id."""
TIME_MIN_US = -62_135_596_800_000_000
"""The beginning of the year 1, in microseconds."""
ENTRY_ROWS_MAX = 2**31
"""The most rows of an entry, inline and linked together. A repair moves offsets by this where nothing tells how many rows a lost entry
brought."""
FILTER_CHARS_MAX = 4096
"""The longest filter, which stands in the record of its consumer group."""
WAIT_MAX = timedelta(days=30)
"""The longest time that a caller waits, or lets others wait."""
LINGER_MAX = timedelta(hours=1)
MEMORY_BYTES_MAX = 1024 * 1024 * MIB
"""The largest cache or buffer: more is a mistake in the unit."""
MESSAGES_MAX = 1_000_000
"""The most messages of a cache, or of one answer."""
SHOWN_CHARS_MAX = 200
FILTER_DEPTH_MAX = 64
"""The deepest nesting of parentheses and NOTs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicLimits:
    """The limits of a message's size, and of its delay."""

    body_bytes: int = 4 * MIB
    properties_bytes: int = 16 * KIB
    """The bytes of names and values of all properties, the tag and the keys together."""
    properties: int = 128
    group_bytes: int = 63
    delay: timedelta = timedelta(days=40)
    """How far ahead, counted from ``send``, a message of a topic of type DELAY may be due."""

    def __post_init__(self) -> None:
        for name in ("body_bytes", "properties_bytes", "properties", "group_bytes"):
            check_count(f"limit {name}", getattr(self, name), most=MEMORY_BYTES_MAX, operation="limits")
        delay: object = self.delay
        if not (isinstance(delay, timedelta) and timedelta(0) < delay <= DELAY_MAX):
            raise InvalidArgument(f"limit delay must be a positive timedelta of at most {DELAY_MAX.days} days", observed=delay)


def named(kind: type[E], value: object) -> E:
    """The member of an enumeration that a caller named, in capitals or not. Raises `ValueError` if there is none."""
    word = value.casefold() if isinstance(value, str) else None
    return next((one for one in kind if one.value.casefold() == word), None) or kind(cast("str", value))


def is_positive(value: object) -> bool:
    """Whether a value is a whole number above zero, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def check_count(name: str, value: object, *, most: int, operation: str) -> None:
    """Raise `InvalidArgument` unless the value is a whole number above zero, and `LimitExceeded` above ``most``."""
    if not is_positive(value):
        raise InvalidArgument(f"{name} must be a positive whole number", operation=operation, observed=plain(value))
    assert isinstance(value, int), "as was seen"
    if value > most:
        raise LimitExceeded(f"{name} is too much", operation=operation, expected=f"at most {most:,}", observed=plain(value))


def check_duration(name: str, value: object, *, most: timedelta, operation: str) -> None:
    """Raise `InvalidArgument` unless the value is a duration, not negative, and `LimitExceeded` above ``most``."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidArgument(f"{name} must be a timedelta, not negative", operation=operation, observed=plain(value))
    if value > most:
        raise LimitExceeded(f"{name} is too long", operation=operation, expected=f"at most {most}", observed=str(value))


def check_flag(name: str, value: object, *, operation: str) -> None:
    """Raise `InvalidArgument` unless the value is True or False: the text "false" would be taken for true."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False", operation=operation, observed=plain(value))


def plain(value: object) -> str:
    """A value that a caller gave, short enough for an error."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of too many digits, or an object with a mistake of its own
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"

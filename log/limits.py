"""Every limit of the log, in one place.

`TopicLimits` may be set per topic; its defaults are RocketMQ's (``MessageStoreConfig``, ``ProxyConfig``, ``Validators``). The
constants are part of the stored format or of a proof in ``docs/0001-the-log-protocol.md`` and are never tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from .errors import InvalidArgument, LimitExceeded

KIB = 1024
MIB = 1024 * KIB

# --- Format constants: part of stored data and of the proofs -----------------------------------------------------------------
FORMAT_VERSION = 1
VALIDITY_ENTRIES = 64
"""A batch may be accepted at most this many entries after the tail it was formed at."""
UNNAMED_ROW_ENTRIES = 64
"""A row of an unnamed producer leaves the state this many entries after its last accepted batch; at least VALIDITY_ENTRIES, so
that a batch cannot be accepted again once the row that would refuse it is gone."""
NAMED_ROW_MS = 30 * 24 * 3600 * 1000
"""A name unseen for this long, in store time, leaves the state."""
STORE_TIME_STEP_MAX_MS = 24 * 3600 * 1000
"""One entry moves the store timestamp by at most a day: one bad clock cannot push it out for good, nor age named producers out of the state."""
CHECKPOINT_ENTRIES = 64
VIEW_AGE_MAX_S = 300.0
"""For this long what was read of the tail is proof that the next key has not been trimmed; far below TRIM_GRACE_MS."""
TRIM_GRACE_MS = 3600 * 1000
"""A floor must have stood for this long, by the store's clock, before anything at or below it is deleted."""
CLOCK_SKEW_MAX_MS = 5 * 60 * 1000
JOB_AGE_MAX_MS = 48 * 3600 * 1000
"""A staged upload that nothing linked for this long is closed."""
JOB_LINK_MAX_S = 24 * 3600.0
"""Nothing that links a staged upload leaves a process later than this after the upload began; far below JOB_AGE_MAX_MS, so that no
process can come by a jump to a state that has forgotten the job, and link it all the same."""

# --- Sizes -------------------------------------------------------------------------------------------------------------------
ENTRY_INLINE_BYTES_MAX = 1 * MIB
"""Rows beyond this are staged and linked: some servers break the connection of a refused conditional PUT of more."""
HANDED_BYTES_MAX = 8 * MIB
"""Rows beyond this are staged in parts, side by side, as a job."""
ENTRY_LINKS_MAX = 256
PATH_PART_BYTES_MAX = 255
TOPIC_NAME_CHARS_MAX = 127
PRODUCER_NAME_BYTES_MAX = 128
QUEUES_MAX = 4096
TAG_BYTES_MAX = 1024
KEYS_MAX = 128
DELAY_MAX = timedelta(days=3650)
NUMBER_MAX = 2**63 - 1
"""No stored number is larger: offsets, entries, sequences, counts."""
SEQUENCE_MAX = NUMBER_MAX
TIME_MAX_MS = 253_402_300_799_999
"""The end of the year 9999, behind which no timestamp can be shown."""
ENTRY_GAP_MAX = 64 * 1024
"""So many entries in a row are never all lost with later ones left: an object under a later number is none of the log's."""
NAME_CHARS_MAX = 1024
"""No stored name or id is longer."""
TIME_MIN_US = -62_135_596_800_000_000
"""The beginning of the year 1, in microseconds."""
ENTRY_ROWS_MAX = 2**31
"""No entry brings more rows, inline and linked together. A repair jumps by this where nothing tells how many a lost entry brought."""
FILTER_CHARS_MAX = 4096
"""It stands in the record of its consumer group."""
WAIT_MAX = timedelta(days=30)
"""Of what a caller waits for, or lets others wait for."""
LINGER_MAX = timedelta(hours=1)
MEMORY_BYTES_MAX = 1024 * 1024 * MIB
"""Of a cache or a buffer: more is a mistake in the unit."""
MESSAGES_MAX = 1_000_000
"""Of a cache, or of one answer."""
SHOWN_CHARS_MAX = 200
FILTER_DEPTH_MAX = 64
"""Parentheses and NOTs inside each other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicLimits:
    """What a message may be at most, and how long it may be delayed."""

    body_bytes: int = 4 * MIB
    properties_bytes: int = 16 * KIB
    """Names and values of all properties, the tag and the keys together."""
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


def is_positive(value: object) -> bool:
    """Whether it is a whole number above zero, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def check_count(name: str, value: object, *, most: int, operation: str) -> None:
    """Raise `InvalidArgument` unless it is a whole number above zero, and `LimitExceeded` above ``most``."""
    if not is_positive(value):
        raise InvalidArgument(f"{name} must be a positive whole number", operation=operation, observed=plain(value))
    assert isinstance(value, int), "as was seen"
    if value > most:
        raise LimitExceeded(f"{name} is too much", operation=operation, expected=f"at most {most:,}", observed=plain(value))


def check_duration(name: str, value: object, *, most: timedelta, operation: str) -> None:
    """Raise `InvalidArgument` unless it is a duration, not negative, and `LimitExceeded` above ``most``."""
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidArgument(f"{name} must be a timedelta, not negative", operation=operation, observed=plain(value))
    if value > most:
        raise LimitExceeded(f"{name} is too long", operation=operation, expected=f"at most {most}", observed=str(value))


def check_flag(name: str, value: object, *, operation: str) -> None:
    """Raise `InvalidArgument` unless it is True or False: the text "false" would be taken for true."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False", operation=operation, observed=plain(value))


def plain(value: object) -> str:
    """What a caller gave, short enough for an error."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of too many digits, or an object with a mistake of its own
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"

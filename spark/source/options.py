"""The user's options for the source as checked values. Nothing here needs Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from ...consumers.ranges.offsets import Place, QueuePositions
from ...consumers.ranges.planned_columns import PlannedSchema
from ...coordinator.lakes import LakePlace
from ...log.errors import InvalidArgument
from ...log.filter.tags import TagFilter
from ...log.format.stored_json import whole_number
from ...log.message.message import MESSAGE_SCHEMA, VALUE
from ...log.paths import check_group_name, check_topic_name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER_MAX = 2**63 - 1
"""The largest number in Spark."""
_BEYOND_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")
_EARLIEST, _LATEST = -2, -1
"""Kafka's numbers for the two ends, which are no offsets here either."""

OPTIONS = (
    "lake",
    "topic",
    "path",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "damaged",
    "columns",
    "tags",
    "group",
    "coordination",
    "numTasks",
)
"""Spark passes the argument of ``load`` as ``path``."""

_OF_STREAMS = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "group")
_OF_BATCHES = ("endingOffsets", "endingTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSourceOptions:
    """The options of one read."""

    place: LakePlace
    topic: str
    start: QueuePositions
    start_given: bool = True
    end: QueuePositions = QueuePositions("latest")  # noqa: RUF009 - it is frozen
    """The end of a batch; a stream has none."""
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    skip_damaged: bool = False
    columns: tuple[str, ...] = tuple(MESSAGE_SCHEMA.names)
    columns_given: bool = False
    planned: PlannedSchema | None = None
    keep: TagFilter = TagFilter(None)  # noqa: RUF009 - it is frozen
    group: str | None = None
    """The group that shows the stream's progress."""
    tasks_max: int | None = None
    """None: the cores of the driver's machine."""

    @property
    def may_read_fields(self) -> bool:
        return not self.columns_given or any(is_of_value(name) for name in self.columns)

    def with_schema(self, planned: PlannedSchema | None) -> SparkSourceOptions:
        """The read with all fields of the topic's schema unless the user named columns."""
        more = (VALUE,) if planned is not None and not self.columns_given else ()
        return replace(self, columns=(*self.columns, *more), planned=planned)


def is_of_value(column: str) -> bool:
    return column.partition(".")[0] == VALUE


def parse(given: Mapping[str, str], *, stream: bool | None) -> SparkSourceOptions:
    """The options of a stream, of a batch, or (None) of either. Names may be in any case.

    Raises `InvalidArgument` for an unknown name (naming a near one), a bad value, and for missing or contradicting options.
    """
    known = {name.lower(): name for name in OPTIONS}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            raise _unknown(name)
        found[known[name.lower()]] = value
    elsewhere = () if stream is None else _OF_BATCHES if stream else _OF_STREAMS
    for name in elsewhere:
        if name in found:
            hint = f"it belongs to {'spark.read: a stream has no end' if stream else 'spark.readStream'}"
            raise _bad(name, found[name], "no such option here", hint=hint)
    if "lake" not in found:
        raise InvalidArgument("the lake is missing", operation="read", hint='name it: .option("lake", "s3://bucket/lake")')
    start = _places(found, "starting", "latest" if stream else "earliest", unnamed="earliest")
    end = _places(found, "ending", "latest", unnamed="latest")
    _check_range(start, end)
    return SparkSourceOptions(
        place=LakePlace.of(found["lake"], coordination=found.get("coordination"), read_only=True),
        topic=_topic(found),
        start=start,
        start_given="startingOffsets" in found or "startingTimestamp" in found,
        end=end,
        max_offsets_per_trigger=_positive(found, "maxOffsetsPerTrigger"),
        max_bytes_per_trigger=_positive(found, "maxBytesPerTrigger"),
        fail_on_data_loss=_choice(found, "failOnDataLoss", {"true": True, "false": False}, default=True),
        skip_damaged=_choice(found, "damaged", {"raise": False, "skip": True}, default=False),
        columns=_columns(found.get("columns")),
        columns_given="columns" in found,
        keep=TagFilter.parse(found.get("tags")),
        group=_group(found.get("group")),
        tasks_max=_positive(found, "numTasks"),
    )


def _unknown(name: str) -> InvalidArgument:
    near = get_close_matches(name.lower(), [one.lower() for one in OPTIONS], n=1, cutoff=0.5)
    meant = next((one for one in OPTIONS if near and one.lower() == near[0]), None)
    return InvalidArgument(
        f"the source has no option {name!r}",
        operation="read",
        expected=", ".join(OPTIONS),
        hint=f"Did you mean {meant}?" if meant else None,
    )


def _topic(found: Mapping[str, str]) -> str:
    names = {found[name] for name in ("topic", "path") if name in found}
    if len(names) > 1:
        raise InvalidArgument(
            "two topics are named", operation="read", observed=", ".join(sorted(names)), hint="read one at a time"
        )
    if not names:
        raise InvalidArgument("the topic is missing", operation="read", hint='name it: .load("orders")')
    topic = names.pop()
    check_topic_name(topic)
    return topic


def _places(found: Mapping[str, str], which: str, default: Place, *, unnamed: Place) -> QueuePositions:
    offsets, timestamp = f"{which}Offsets", f"{which}Timestamp"
    if offsets in found and timestamp in found:
        raise InvalidArgument(f"{offsets} and {timestamp} are both given", operation="read", hint="give one of them")
    if timestamp in found:
        return QueuePositions(_time(timestamp, found[timestamp]))
    if offsets not in found:
        return QueuePositions(default)
    text = found[offsets].strip()
    match text.lower():
        case "earliest":
            return QueuePositions("earliest")
        case "latest":
            return QueuePositions("latest")
    return QueuePositions(unnamed, _offsets_by_queue(offsets, text))


def _check_range(start: QueuePositions, end: QueuePositions) -> None:
    if isinstance(start.default, datetime) and isinstance(end.default, datetime) and start.default > end.default:
        raise InvalidArgument(
            "startingTimestamp is after endingTimestamp", operation="read", observed=f"{start.default} to {end.default}"
        )
    for queue, first in start.named.items():
        last = end.named.get(queue)
        if isinstance(first, int) and isinstance(last, int) and first > last:
            raise InvalidArgument(
                f"startingOffsets are above endingOffsets in queue {queue}", operation="read", observed=f"{first} to {last}"
            )


def _offsets_by_queue(name: str, text: str) -> dict[int, Place]:
    expected = 'earliest, latest, or offsets by queue such as {"0": 12, "1": -2} (-2: earliest, -1: latest)'
    try:
        document: Any = json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise _bad(name, text, f"it is not JSON: {error}", expected) from None
    if not isinstance(document, dict) or not document:
        raise _bad(name, text, "it does not name offsets by queue", expected)
    places: dict[int, Place] = {}
    for queue, offset in document.items():
        number = whole_number(queue)
        if number is None:
            raise _bad(name, text, f"{queue!r} is no queue", expected)
        if not isinstance(offset, int) or isinstance(offset, bool) or not _EARLIEST <= offset <= _NUMBER_MAX:
            raise _bad(name, text, f"{offset!r} is no offset", expected)
        places[number] = {_EARLIEST: "earliest", _LATEST: "latest"}.get(offset, offset)  # type: ignore[assignment]
    return places


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a queue is named twice")
    return found


def _time(name: str, text: str) -> datetime:
    expected = "a time with a zone, such as 2026-01-31T12:00:00Z, or milliseconds since 1970"
    try:
        if (milliseconds := whole_number(text.strip())) is not None:
            return _EPOCH + timedelta(milliseconds=milliseconds)
        time = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise _bad(name, text, str(error), expected) from None
    if _BEYOND_MICROSECONDS.search(text):
        raise _bad(name, text, "it has more digits than microseconds", expected)
    if time.tzinfo is None:
        raise _bad(name, text, "it has no zone", expected)
    return time


def _positive(found: Mapping[str, str], name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    number = whole_number(text.strip())
    if number is None or not 0 < number <= _NUMBER_MAX:
        raise _bad(name, text, "it is no positive whole number", "such as 10000")
    return number


def _choice(found: Mapping[str, str], name: str, choices: Mapping[str, bool], *, default: bool) -> bool:
    if name not in found:
        return default
    text = found[name].strip().lower()
    if text not in choices:
        raise _bad(name, found[name], "bad value", " or ".join(choices))
    return choices[text]


def _columns(text: str | None) -> tuple[str, ...]:
    if text is None:
        return tuple(MESSAGE_SCHEMA.names)
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in MESSAGE_SCHEMA.names and not is_of_value(name)]
    if unknown:
        raise _bad("columns", text, f"there are no columns {', '.join(map(repr, unknown))}", ", ".join(MESSAGE_SCHEMA.names))
    if len(set(names)) < len(names):
        raise _bad("columns", text, "a column is named twice", "each column once")
    return names


def _group(name: str | None) -> str | None:
    if name is not None:
        check_group_name(name)
    return name


def _bad(name: str, value: str, why: str, expected: str | None = None, *, hint: str | None = None) -> InvalidArgument:
    return InvalidArgument(
        f"the option {name} is wrong: {why}", operation="read", expected=expected, observed=f"{name}={value}", hint=hint
    )

"""A user's DataFrame as rows to stage."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias, Union

from ...log.errors import InvalidArgument, MessageTypeMismatch
from ...log.message.message import SEND_SCHEMA
from ...log.message.message_type import MessageType
from ...log.message.routing import Router
from ...log.message.routing_type import Routing
from ...log.topic.settings import TopicSettings
from ..partitioning import in_partitions
from ..versions import TIMES_IN_JSON, require

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

ColumnOrName: TypeAlias = Union["Column", str]

_PREFIX = "__penstock_"
_INT_MAX = 2**31 - 1
_JSON = {
    "ignoreNullFields": "false",
    # Spark's own formats cut microseconds.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_HAS_TIME = re.compile(r"(?:^|[<:,])time\(\d+\)")
STAGED = tuple(name for name in SEND_SCHEMA.names if name != "sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageColumns:
    """A DataFrame's columns for each part of a message; names or expressions."""

    message_group: ColumnOrName | None = None
    order_by: tuple[ColumnOrName, ...] = ()
    body: ColumnOrName | None = None
    tag: ColumnOrName | None = None
    keys: ColumnOrName | None = None
    properties: ColumnOrName | None = None
    queue: ColumnOrName | int | None = None

    def named(self) -> Iterator[tuple[str, str]]:
        for name in ("message_group", "tag", "keys", "properties", "queue", "body"):
            if (given := getattr(self, name)) is not None:
                yield name, label(given)


def columns_of(given: ColumnOrName | Sequence[ColumnOrName]) -> tuple[ColumnOrName, ...]:
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)


def ordered(df: DataFrame, mapping: MessageColumns, settings: TopicSettings) -> DataFrame:
    """The columns `STAGED`, with each queue's rows in one task and in order.

    Raises `InvalidArgument` for a column that is missing (naming a near one), of another type, or required by the topic.
    """
    found = found_columns(df, mapping, settings)
    body = _body(df, mapping)
    return in_order(df, mapping, settings, {**found, "body": body}, content=body)


def found_columns(df: DataFrame, mapping: MessageColumns, settings: TopicSettings) -> dict[str, Column]:
    """The checked columns of a message without its body."""
    check_topic(mapping, settings)
    _check_queue(mapping.queue, settings.queues)
    return _found(df, mapping)


def in_order(
    df: DataFrame,
    mapping: MessageColumns,
    settings: TopicSettings,
    fields: dict[str, Column],
    *,
    content: Column,
    unstaged: Collection[str] = (),
) -> DataFrame:
    """The columns of ``fields`` without ``unstaged`` ones, ordered. ``content`` routes rows without a message group."""
    from pyspark.sql import functions as F

    fields = dict(fields)
    if is_routed(mapping):
        # A row without a group is routed by its content: a task that is tried again must send it the same way.
        routed = _hashed(content, settings.queues)
        if (group := fields.get("message_group")) is not None:
            routed = F.when(group.isNotNull(), _routed(group, settings)).otherwise(routed)
        fields["queue"] = F.coalesce(fields["queue"], routed) if "queue" in fields else routed
    staged = df.withColumns({_PREFIX + name: column for name, column in fields.items()})
    if is_routed(mapping):
        at = F.col(_PREFIX + "queue")
        tasks = min(settings.queues, df.sparkSession.sparkContext.defaultParallelism)
        # Partitioning by number gives each queue to one task for sure, while two hashes may meet in one task and leave another idle.
        staged = in_partitions(staged, tasks, F.pmod(at, F.lit(tasks)))
        staged = staged.sortWithinPartitions(at, *(_resolved(df, one, "order_by") for one in mapping.order_by))
    names = [*(name for name in STAGED if name in fields), *(name for name in fields if name not in STAGED)]
    return staged.select(*(F.col(quoted(_PREFIX + name)).alias(name) for name in names if name not in unstaged))


def _hashed(column: Column, queues: int) -> Column:
    from pyspark.sql import functions as F

    return F.pmod(F.xxhash64(column), F.lit(queues)).cast("int")


def _routed(group: Column, settings: TopicSettings) -> Column:
    """The queue of a message group, NULL of none; by an Arrow UDF where Spark's SQL has no such hash."""
    from pyspark.sql import functions as F

    if settings.routing is Routing.XXHASH64:
        return _hashed(group, settings.queues)
    router = Router(settings.queues, settings.routing)

    def queue(group: str | None) -> int | None:
        return None if group is None else router.queue(group)

    return F.udf(queue, "int", useArrow=True)(group)


def is_routed(mapping: MessageColumns) -> bool:
    """Whether all rows of a queue come from one task."""
    return mapping.message_group is not None or mapping.queue is not None


def check_topic(mapping: MessageColumns, settings: TopicSettings) -> None:
    if settings.message_type is MessageType.TRANSACTION:
        raise MessageTypeMismatch(
            "the topic takes TRANSACTION messages, which are sent in transactions",
            operation="write_ordered",
            hint="write to a topic of another type: a batch is visible whole or not at all in any",
        )
    if settings.message_type is MessageType.FIFO and mapping.message_group is None:
        raise InvalidArgument(
            "the topic takes FIFO messages, so message_group must name a column",
            operation="write_ordered",
            expected="message_group=…",
        )
    if MessageType.FIFO not in settings.message_type.taken and mapping.message_group is not None:
        raise InvalidArgument(
            f"the topic takes {settings.message_type} messages, which have no message group",
            operation="write_ordered",
            observed=f"message_group={mapping.message_group}",
            hint="leave message_group out, or write to a FIFO or MIXED topic",
        )
    if mapping.order_by and not is_routed(mapping):
        raise InvalidArgument(
            "without a message group or a queue there is nothing to order within", operation="write_ordered", expected="queue=…"
        )


def _check_queue(given: ColumnOrName | int | None, queues: int) -> None:
    if isinstance(given, int) and not isinstance(given, bool) and not 0 <= given < queues:
        raise InvalidArgument(f"the topic has queues 0 to {queues - 1}", operation="write_ordered", object="queue", observed=given)


def _found(df: DataFrame, mapping: MessageColumns) -> dict[str, Column]:
    from pyspark.sql import functions as F

    types = {
        "message_group": ("a string or a number", "string"),
        "tag": ("a string", "string"),
        "keys": ("an array of strings", "array<string>"),
        "properties": ("a map of strings", "map<string,string>"),
        "queue": ("a whole number", "int"),
    }
    found: dict[str, Column] = {}
    for name, (expected, kind) in types.items():
        given = getattr(mapping, name)
        if given is None:
            continue
        column = F.lit(given) if isinstance(given, int) else _resolved(df, given, name)
        if not _fits(_type(df, column), kind):
            raise InvalidArgument(
                f"{name} is of a type that does not fit",
                operation="write_ordered",
                object=label(given),
                expected=expected,
                observed=_type(df, column).simpleString(),
            )
        found[name] = _as_int(column) if kind == "int" else column.cast(kind)
    return found


def _as_int(column: Column) -> Column:
    """A number beyond the ints becomes the nearest int, which is no queue either."""
    from pyspark.sql import functions as F

    beyond = F.when(column > _INT_MAX, F.lit(_INT_MAX)).when(column < -_INT_MAX, F.lit(-_INT_MAX))
    return beyond.otherwise(column.cast("int"))


def _fits(given: DataType, kind: str) -> bool:
    text = given.simpleString()
    match kind:
        case "string":
            return not text.startswith(("array", "map", "struct", "binary", "variant"))
        case "int":
            return text in {"tinyint", "smallint", "int", "bigint"}
    return text == kind


def _body(df: DataFrame, mapping: MessageColumns) -> Column:
    """Binary and text as they are, others as JSON; by default all columns that are no other part of the message."""
    from pyspark.sql import functions as F

    if mapping.body is None:
        taken = {as_compared(df, name) for _, name in mapping.named()}
        rest = [name for name in df.columns if as_compared(df, name) not in taken]
        if not rest:
            raise InvalidArgument(
                "no column is left for the body", operation="write_ordered", expected="body=…", observed=df.columns
            )
        return json_of(df, F.struct(*(F.col(quoted(name)) for name in rest))).cast("binary")
    column = _resolved(df, mapping.body, "body")
    text = _type(df, column).simpleString()
    if text == "binary" or text.startswith(("string", "char", "varchar")):
        return column.cast("binary")
    if text.startswith(("struct", "array", "map", "variant")):
        return json_of(df, column).cast("binary")
    # Spark writes a single value as JSON only inside another value.
    inside = json_of(df, F.array(column))
    return F.when(column.isNotNull(), F.substr(inside, F.lit(2), F.length(inside) - 2)).cast("binary")


def json_of(df: DataFrame, column: Column) -> Column:
    from pyspark.sql import functions as F

    if _HAS_TIME.search(_type(df, column).simpleString()):
        require(TIMES_IN_JSON, "write_ordered")
    return F.to_json(column, _JSON)


def _resolved(df: DataFrame, given: ColumnOrName, what: str) -> Column:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    if isinstance(given, str):
        if given in df.columns:
            return F.col(quoted(given))
        first = given.partition(".")[0].strip("`").lower()
        if first not in {name.lower() for name in df.columns}:
            raise _missing(df, given, what)
    column = F.col(given) if isinstance(given, str) else given
    try:
        with _without_sparks_report():
            df.select(column)
    except AnalysisException as error:
        said = str(error).partition(" SQLSTATE")[0].partition("\n")[0]
        raise InvalidArgument(f"{what}: {said}", operation="write_ordered", object=label(given)) from None
    return column


def _missing(df: DataFrame, given: str, what: str) -> InvalidArgument:
    near = get_close_matches(given, df.columns, n=1)
    return InvalidArgument(
        f"{what}: there is no column {given!r}",
        operation="write_ordered",
        expected=", ".join(df.columns),
        hint=f"Did you mean {near[0]!r}?" if near else None,
    )


@contextmanager
def _without_sparks_report() -> Iterator[None]:
    reporter = logging.getLogger("DataFrameQueryContextLogger")
    before, reporter.disabled = reporter.disabled, True
    try:
        yield
    finally:
        reporter.disabled = before


def label(given: ColumnOrName | int) -> str:
    return re.sub(r"^Column<'(.*)'>$", r"\1", str(given), flags=re.DOTALL)


def _type(df: DataFrame, column: Column) -> DataType:
    return df.select(column).schema[0].dataType


def as_compared(df: DataFrame, name: str) -> str:
    """A name as Spark compares it, by default without regard to case."""
    return name if df.sparkSession.conf.get("spark.sql.caseSensitive") == "true" else name.lower()


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

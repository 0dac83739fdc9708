"""Ordered writes: batches of a DataFrame, and of a stream by ``foreachBatch``, each in the topic whole or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from ...coordinator.lakes import LakeLike, LakePlace, OpenLake, lakes
from ...log.errors import InvalidArgument
from ...log.format.header import Part
from ...log.limits import MIB, WAIT_MAX, Duration, checked_duration
from ...log.linker import Linker, check_batch, open_linker
from ...log.topic.producer_name import check_producer_name
from ..errors import CleanTraceback, reraise_ours
from .columns import ColumnOrName, MessageColumns, columns_of, is_routed, ordered
from .parts import ANSWER, UploadPlan, link_form, parts_of, upload_results
from .typed_rows import ordered_fields, typed_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

log = logging.getLogger("penstock.spark")

NAME_PREFIX = "spark/"
"""Keeps these producers' names apart from others."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a batch."""

    rows: int
    size_bytes: int
    """The size of the rows' Parquet files."""
    entry: int | None = None
    """The entry that brought the rows. None: nothing was written, or it is not known."""
    queues: Mapping[int, tuple[int, int]] | None = field(default_factory=dict)
    """The first offset and the one after the last, by touched queue. None: not known."""
    duplicate: bool = False
    """Whether the batch was there before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSteps:
    """Where tests stop a write: called after the event."""

    after: Callable[[str], None] = lambda step: None
    """Called with ``begun``, ``staged``, ``linked``."""
    before_part: Callable[[int, int, int], None] | None = None
    """Called with task, attempt and part."""


def write_ordered(
    df: DataFrame,
    lake: LakeLike,
    topic: str,
    *,
    message_group: ColumnOrName | None,
    order_by: ColumnOrName | Sequence[ColumnOrName],
    body: ColumnOrName | None = None,
    tag: ColumnOrName | None = None,
    keys: ColumnOrName | None = None,
    properties: ColumnOrName | None = None,
    queue: ColumnOrName | int | None = None,
    name: str | None = None,
    batch_id: int | None = None,
    timeout: Duration = timedelta(minutes=2),
) -> WriteResult:
    """Write a DataFrame to a topic: all of its rows become visible at once, or none does. Returns when they are durable.

    ``lake`` is a URL, a folder or a `penstock.Lake`; executors must reach it, with credentials from their own environment.

    The other arguments name columns, or are expressions over them. ``message_group`` is cast to text, and routed as every producer
    routes: rows of a group have one queue, where they lie in the order of ``order_by``. Equal rows by it lie in any order.

    ``body`` is taken as it is if it is binary or text, otherwise as JSON; NULL makes a tombstone. The default is a JSON object of
    all columns that are named for no other part of the message (``order_by`` is none). Times in JSON have microseconds, in the
    session's zone. ``tag`` is text, ``keys`` an array of text, ``properties`` a map of text to text. ``queue`` names the queue
    where it is not null. A NORMAL topic takes ``message_group=None``, a MIXED one also NULLs.

    In a topic with a schema the columns are its fields, and there is no ``body``. Message group, tag and keys come from fields
    where the topic's settings say so; then ``message_group=None``. A column that is no field must be named for another part of the
    message, or by ``order_by``. A row that does not fit the schema refuses the whole write.

    ``name`` and ``batch_id`` (a whole number that rises from batch to batch) make the write idempotent. A batch whose number is not
    above the last one under this name is not written again (`WriteResult.duplicate`); the last number with another number of rows
    is an `InvalidArgument`. Without a name a write that is tried again may be there twice. A name belongs to the process that used
    it last: another one ends with `FencedError`. Names are remembered for 30 days. A batch without rows writes nothing.

    Raises, before anything is visible, `InvalidArgument` for a column that is missing or does not fit, `MessageTypeMismatch` for a
    null ``message_group``, `LimitExceeded` for a row over a limit of the topic, `TopicNotFound`, `ReadOnlyError` and
    `PermissionDenied`.

    Raises `NotWritten` when it is proved that nothing was written, `UnknownOutcome` (without a name) when the store gave no answer
    for ``timeout`` (a `timedelta` or a number of seconds), and Spark's own errors for failures in ``df``.
    """
    if df.isStreaming:
        raise InvalidArgument(
            "a stream is written batch by batch",
            operation="write_ordered",
            hint="df.writeStream.foreachBatch(penstock.spark.ordered_writer(lake, topic, …))",
        )
    if (name is None) != (batch_id is None):
        raise InvalidArgument(
            "name and batch_id belong together: they make a write that is tried again harmless",
            operation="write_ordered",
            expected="both, or neither",
            observed=f"name={name!r}, batch_id={batch_id!r}",
        )
    mapping = MessageColumns(
        message_group=message_group,
        order_by=columns_of(order_by),
        body=body,
        tag=tag,
        keys=keys,
        properties=properties,
        queue=queue,
    )
    return OrderedWriter(LakePlace.of(lake), topic, mapping, name=name, timeout=timeout).write(df, batch_id)


def ordered_writer(
    lake: LakeLike,
    topic: str,
    *,
    message_group: ColumnOrName | None,
    order_by: ColumnOrName | Sequence[ColumnOrName],
    body: ColumnOrName | None = None,
    tag: ColumnOrName | None = None,
    keys: ColumnOrName | None = None,
    properties: ColumnOrName | None = None,
    queue: ColumnOrName | int | None = None,
    name: str | None = None,
    timeout: Duration = timedelta(minutes=2),
) -> OrderedWriter:
    """A function for ``df.writeStream.foreachBatch(…)`` that writes a stream to a topic, each micro-batch as `write_ordered` does,
    exactly once.

    A batch is known by the query's id, which lives in its checkpoint, or by ``name``, and by its number. A second writer of a query
    to the same topic needs a name of its own. Give a name only to one query, and a new one with each new checkpoint, which numbers
    batches from 0 again. `InvalidArgument` ends a query that breaks a rule. The other arguments are those of `write_ordered`.
    """
    mapping = MessageColumns(
        message_group=message_group,
        order_by=columns_of(order_by),
        body=body,
        tag=tag,
        keys=keys,
        properties=properties,
        queue=queue,
    )
    return OrderedWriter(LakePlace.of(lake), topic, mapping, name=name, timeout=timeout)


class OrderedWriter:
    """Writes batches to one topic, one at a time. `ordered_writer` makes it."""

    def __init__(
        self,
        place: LakePlace,
        topic: str,
        mapping: MessageColumns,
        *,
        name: str | None,
        timeout: Duration,
        part_bytes: int = 16 * MIB,
        steps: WriteSteps | None = None,
    ) -> None:
        if name is not None:
            check_producer_name(NAME_PREFIX + name)
        self._place, self._topic, self._mapping = place, topic, mapping
        self._timeout = checked_duration("timeout", timeout, most=WAIT_MAX, operation="write_ordered", above_zero=True)
        self._name, self._part_bytes = name, part_bytes
        self._steps = steps or WriteSteps()
        self._open: tuple[OpenLake, str | None, Linker] | None = None
        self.last: WriteResult | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write one micro-batch. Raises the errors of `write_ordered`, which end the query."""
        name = self._name or batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if not name:
            raise InvalidArgument(
                "this is not a batch of a stream, so nothing tells which batches were written",
                operation="write_ordered",
                expected="name=…",
                hint="name it, or hand the writer to foreachBatch",
            )
        with CleanTraceback():  # Spark shows the user the text of the whole traceback
            self._check_first(batch, name, batch_id)
            self._write(batch, name, batch_id, of_stream=True)
            self._mark(batch, name, batch_id)

    def write(self, df: DataFrame, batch_id: int | None = None) -> WriteResult:
        """Write a batch; with a name, under ``batch_id``."""
        return self._write(df, self._name, batch_id, of_stream=False)

    def _check_first(self, batch: DataFrame, name: str, batch_id: int) -> None:
        """Raise `InvalidArgument` when this run of the query has written the batch under this name."""
        if batch.sparkSession.sparkContext.getLocalProperty(self._written_key(name)) == str(batch_id):
            raise InvalidArgument(
                f"batch {batch_id} has been written to the topic under this name already, so what this call has would be lost",
                operation="write_ordered",
                object=self._topic,
                observed=f"name {name}",
                hint="write a batch to a topic by one call, or give each writer its own name: ordered_writer(…, name=…)",
            )

    def _mark(self, batch: DataFrame, name: str, batch_id: int) -> None:
        batch.sparkSession.sparkContext.setLocalProperty(self._written_key(name), str(batch_id))

    def _written_key(self, name: str) -> str:
        """A property of the query's thread, which ends with the run."""
        return f"penstock.written {self._place.url} {self._topic} {name}"

    def _write(self, df: DataFrame, name: str | None, batch_id: int | None, *, of_stream: bool) -> WriteResult:
        if batch_id is not None:
            check_batch(batch_id)
        opened, linker = self._linker(name)
        try:
            with reraise_ours():
                self.last = self._written(opened, linker, df, batch_id, of_stream=of_stream)
        except BaseException:
            self._open = None  # the next opening of the name tells the outcome
            raise
        return self.last

    def _linker(self, name: str | None) -> tuple[OpenLake, Linker]:
        opened = lakes.open(self._place)
        if self._open is not None and self._open[:2] == (opened, name):
            return opened, self._open[2]
        full = None if name is None else NAME_PREFIX + name
        linker = opened.run(lambda: open_linker(opened.lake, self._topic, name=full, timeout=self._timeout))
        self._open = (opened, name, linker)
        return opened, linker

    def _written(self, opened: OpenLake, linker: Linker, df: DataFrame, batch_id: int | None, *, of_stream: bool) -> WriteResult:
        if batch_id is not None and linker.is_linked(batch_id):
            if of_stream and batch_id < linker.last_batch:
                raise other_checkpoint(linker, batch_id)
            if batch_id == linker.last_batch:
                linker.check_repeated(batch_id, df.count())
            log.info("batch %d of %s is in topic %s already: nothing is written", batch_id, linker.id, self._topic)
            return WriteResult(0, 0, duplicate=True)
        linker.follow_growth()
        rules = typed_rules(linker.topic)
        # Errors of the call show here, before anything is uploaded.
        if rules is None:
            mapping, rows = self._mapping, ordered(df, self._mapping, linker.settings)
        else:
            mapping, rows = ordered_fields(df, self._mapping, linker.settings, rules)
        job = opened.run(linker.begin)
        self._steps.after("begun")
        upload = UploadPlan(
            place=self._place,
            paths=linker.topic.paths,
            settings=linker.settings,
            producer=linker.id,
            job=job.id,
            born_us=1000 * opened.lake.runtime.clock.wall_ms(),
            part_bytes=self._part_bytes,
            named=tuple(self._mapping.named()),
            rules=rules,
            before_part=self._steps.before_part,
        )
        given = rows.mapInArrow(partial(upload_results, upload), ANSWER).collect()
        parts = parts_of(((one.task, one.number, one.answer) for one in given), routed=is_routed(mapping))
        self._steps.after("staged")
        if not parts:
            opened.run(lambda: linker.discard(job))
            return WriteResult(0, 0)
        version, extended = link_form(upload, parts)
        whole = [one.part for one in parts]
        linked = opened.run(lambda: linker.link(job, whole, batch=batch_id, schema_version=version, extended=extended))
        self._steps.after("linked")
        return WriteResult(linked.rows, _size_bytes(whole), linked.entry, linked.offsets)


def _size_bytes(parts: Sequence[Part]) -> int:
    return sum(part.size_bytes for part in parts)


def other_checkpoint(linker: Linker, batch_id: int) -> InvalidArgument:
    """The error of a stream that begins before what is written."""
    return InvalidArgument(
        "under this name later batches are written already, so this checkpoint is not the one they were written with",
        operation="write_ordered",
        object=linker.id,
        expected=f"batch {linker.last_batch}, which was the last, or a later one",
        observed=f"batch {batch_id}",
        hint="a query with a new checkpoint needs a new name; what its first batches hold may be in the topic already",
    )

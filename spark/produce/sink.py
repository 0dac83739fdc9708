"""``format("penstock")`` as a sink: tasks stage rows, the driver links them.

Rows of one task keep their order. Only `write_ordered` and `ordered_writer` keep an order across tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ...coordinator.lakes import LakePlace, OpenLake, lakes
from ...log.errors import InvalidArgument
from ...log.format.header import Part
from ...log.limits import JOB_LINK_MAX_S
from ...log.linker import LinkedBatch, Linker, current_topic, open_linker
from ...log.paths import check_topic_name
from ...log.runtime.backoff import until_answered
from ...log.stage.jobs import Job, begin_job
from ...log.topic.producer_name import check_producer_name
from ..errors import CleanTraceback
from .columns import STAGED
from .parts import STORE_PATIENCE_S, UploadedPart, UploadPlan, link_form, upload_rows
from .typed_rows import OWN_COLUMNS, check_fields, typed_rules
from .write import NAME_PREFIX, other_checkpoint

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

OPTIONS = ("lake", "topic", "path", "name", "checkpointLocation", "queryName")
_TIMEOUT = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The user's options for the sink."""

    place: LakePlace
    topic: str
    name: str | None


def parse(given: Mapping[str, str]) -> SinkOptions:
    """Raises `InvalidArgument` for an unknown option (naming a near one), and for a missing one."""
    known = {name.lower(): name for name in OPTIONS}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            near = get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
            hint = f"Did you mean {known[near[0]]}?" if near else None
            raise InvalidArgument(f"the sink has no option {name!r}", operation="write", expected="lake, topic, name", hint=hint)
        found[known[name.lower()]] = value
    topic = found.get("topic", found.get("path"))
    if found.get("path", topic) != topic:
        raise InvalidArgument(
            "two topics are named",
            operation="write",
            observed=f"{found['topic']}, {found['path']}",
            hint='name it once: .option("topic", "orders")',
        )
    if "lake" not in found:
        raise InvalidArgument("the lake is missing", operation="write", hint='name it: .option("lake", "s3://bucket/lake")')
    if topic is None:
        raise InvalidArgument("the topic is missing", operation="write", hint='name it: .option("topic", "orders")')
    check_topic_name(topic)
    producer = found.get("name")
    check_producer_name(None if producer is None else NAME_PREFIX + producer)
    return SinkOptions(LakePlace.of(found["lake"]), topic, producer)


@dataclass(frozen=True)
class TaskCommitMessage(WriterCommitMessage):
    """The result of a task."""

    query: str | None
    job: Job
    generation: int
    """The generation of the rows' routing."""
    parts: tuple[UploadedPart, ...]
    form: tuple[int, bool] = (0, False)
    """The schema version, and whether rows are extended (`Linker.link`)."""


class BatchSink(DataSourceArrowWriter):
    """``df.write.format("penstock").mode("append")``: all rows become visible at once."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._sink = TopicSink.planned(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommitMessage:
        return self._sink.stage(iterator, query=None, job=self._sink.upload.job)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Link the rows, on the driver, once all tasks have ended well."""
        self._sink.link(messages, batch=None)


@dataclass(frozen=True, slots=True)
class TopicSink:
    """The common part of both sinks. A stream's commit plans its own; the tasks' values come with their results."""

    options: SinkOptions
    upload: UploadPlan
    generation: int
    link_until_s: float
    """The latest time of the link, by the driver's monotonic clock."""

    @classmethod
    def planned(cls, options: SinkOptions, schema: StructType) -> TopicSink:
        """Plan a sink, on the driver."""
        opened = lakes.open(options.place)
        topic, generation = opened.run(lambda: current_topic(opened.lake, options.topic, timeout=_TIMEOUT))
        runtime, rules = topic.runtime, typed_rules(topic)
        if rules is None:
            _check_columns(schema)
        else:
            check_fields([name for name in schema.fieldNames() if name not in OWN_COLUMNS], schema, rules, operation="write")
        upload = UploadPlan(
            place=options.place,
            paths=topic.paths,
            settings=topic.settings,
            producer=NAME_PREFIX + (options.name or "sink"),
            job=runtime.new_id(),
            born_us=1000 * runtime.clock.wall_ms(),
            named=tuple((name, name) for name in schema.fieldNames()),
            rules=rules,
        )
        return cls(options, upload, generation, runtime.clock.monotonic_s() + JOB_LINK_MAX_S)

    def stage(self, batches: Iterator[pa.RecordBatch], *, query: str | None, job: str) -> TaskCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.attemptNumber()) if context else (0, 0)
        upload = replace(self.upload, job=job)
        opened = lakes.open(upload.place)
        store, runtime = opened.lake.store, opened.lake.runtime

        async def begun() -> Job:
            return await until_answered(
                lambda: begin_job(store, upload.paths, runtime, producer=upload.producer, job=job),
                runtime.clock,
                timeout_s=STORE_PATIENCE_S,
            )

        def recorded() -> Iterator[pa.RecordBatch]:
            """The rows, behind the job's record if there are any."""
            first = True
            for batch in batches:
                if batch.num_rows and first:
                    first = False
                    opened.run(begun)
                yield batch

        with CleanTraceback():
            parts = tuple(upload_rows(upload, recorded(), task=task, attempt=attempt))
        return TaskCommitMessage(query, Job(job, self.link_until_s), self.generation, parts, link_form(upload, parts))

    def link(self, messages: Sequence[WriterCommitMessage | None], *, batch: int | None) -> None:
        """Link the parts in the order of the tasks. A batch without rows writes nothing."""
        done = [one for one in messages if isinstance(one, TaskCommitMessage)]
        parts = [uploaded.part for one in done for uploaded in one.parts]
        if not parts:
            return
        # One sink planned all.
        first = replace(done[0], form=(done[0].form[0], any(one.form[1] for one in done)))
        name = None if batch is None else NAME_PREFIX + (self.options.name or str(first.query))
        opened = lakes.open(self.options.place)
        with CleanTraceback():
            opened.run(lambda: _linked(opened, self.options.topic, name, first, parts, batch))


async def _linked(
    opened: OpenLake, topic: str, name: str | None, done: TaskCommitMessage, parts: Sequence[Part], batch: int | None
) -> LinkedBatch | None:
    linker: Linker = await open_linker(opened.lake, topic, name=name, timeout=_TIMEOUT, generation=done.generation)
    if batch is not None and linker.is_linked(batch):
        if batch < linker.last_batch:
            raise other_checkpoint(linker, batch)
        linker.check_repeated(batch, sum(sum(part.rows.values()) for part in parts))
        return None
    version, extended = done.form
    return await linker.link(done.job, parts, batch=batch, schema_version=version, extended=extended)


def _check_columns(schema: StructType) -> None:
    unknown = [name for name in schema.fieldNames() if name not in STAGED]
    if not unknown and "body" in schema.fieldNames():
        return
    near = get_close_matches(unknown[0], STAGED, n=1) if unknown else []
    raise InvalidArgument(
        f"messages have no column {unknown[0]!r}" if unknown else "the column body is missing",
        operation="write",
        expected=", ".join(STAGED),
        observed=", ".join(schema.fieldNames()),
        hint=f"Did you mean {near[0]}?" if near else "select the columns under these names; write_ordered makes a body of any",
    )


def batch_sink(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchSink:
    if overwrite:
        raise InvalidArgument("a topic cannot be overwritten", operation="write", hint='.mode("append")')
    return BatchSink(parse(options), schema)

"""Uploads rows in parts, as a job that one small entry links."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass

import pyarrow as pa

from ..format.digest import digest
from ..format.entry import encode_rows
from ..format.header import Part
from ..limits import JOB_LINK_MAX_S, MIB
from ..message.batch_rows import BatchRows
from ..paths import TopicPaths
from ..runtime.runtime import Runtime
from ..stores.protocol import ObjectStore, Put

PART_BYTES = 16 * MIB
TRANSACTION_JOBS = "tx-"
"""The prefix of transactions' jobs, which the collector does not touch unasked."""
PART_BYTES_MIN = PART_BYTES // 4
"""The least size of a part; ``PART_BYTES`` is the most. In between, the parts are as many as uploads at once."""
_PARTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Job:
    """An upload whose record is on the store."""

    id: str
    link_until_s: float
    """The time, by this process's monotonic clock, before which a link must leave it: later the collector may close the job."""


@dataclass(frozen=True, slots=True)
class StagedJob:
    """A job whose rows are all uploaded."""

    job: Job
    parts: tuple[Part, ...]


async def begin_job(store: ObjectStore, paths: TopicPaths, runtime: Runtime, *, producer: str, job: str | None = None) -> Job:
    """Begin an upload, by a record before its first part, so that the collector finds leftovers. Several processes may begin one ``job``."""
    job = job or runtime.new_id()
    link_until_s = runtime.clock.monotonic_s() + JOB_LINK_MAX_S  # counted from before the store can have seen anything of it
    record = {"format": 1, "job": job, "producer": producer, "created_ms": runtime.clock.wall_ms()}
    await store.put(paths.job_record(job), json.dumps(record).encode(), mode=Put.REPLACE)
    return Job(job, link_until_s)


async def upload_part(
    store: ObjectStore, paths: TopicPaths, runtime: Runtime, job: str, label: str, build: Callable[[], pa.Table]
) -> Part:
    """Build and upload a part's rows (with `LOG_SCHEMA`, sorted by queue), in any process once the job has begun. Each try has a fresh key. ``label``
    is for people.
    """
    data, queues = await runtime.offload(lambda: encode_part(build()))
    key = paths.job_part(job, f"{label}-{runtime.new_id()}")
    await store.put_large(key, data)
    return Part(key.removeprefix(paths.root), 0, queues, len(data), digest(data))


async def stage(store: ObjectStore, paths: TopicPaths, runtime: Runtime, rows: BatchRows, *, producer: str) -> StagedJob:
    job = await begin_job(store, paths, runtime, producer=producer)
    size_bytes = max(1, rows.size_bytes)
    part_bytes = min(max(PART_BYTES_MIN, -(-size_bytes // _PARTS_AT_ONCE)), PART_BYTES)
    rows_per_part = max(1, -(-rows.count * part_bytes // size_bytes))
    gate = asyncio.Semaphore(_PARTS_AT_ONCE)

    async def upload(number: int) -> Part:
        async with gate:
            first = number * rows_per_part
            return await upload_part(store, paths, runtime, job.id, f"{number:08d}", lambda: rows.part(first, rows_per_part))

    return StagedJob(job, tuple(await side_by_side([upload(number) for number in range(-(-rows.count // rows_per_part))])))


async def side_by_side(uploads: Iterable[Coroutine[object, object, Part]]) -> list[Part]:
    """The first error is raised once the others have been ended."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(upload) for upload in uploads]
    except ExceptionGroup as failed:
        error = failed.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise error


def encode_part(rows: pa.Table) -> tuple[bytes, dict[int, int]]:
    counts = {pair["values"]: pair["counts"] for pair in rows["queue"].value_counts().to_pylist()}
    return encode_rows([rows]), dict(sorted(counts.items()))

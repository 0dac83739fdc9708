"""Staged parts, routed anew as their topic got more queues before they were linked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from ..errors import DataDamaged, NotWritten
from ..format.digest import digest
from ..format.header import Part
from ..format.sealed import check_seal, read_rows
from ..message.routing import Router
from ..paths import TopicPaths
from ..runtime.backoff import until_answered
from ..runtime.runtime import Runtime
from ..stores.protocol import ObjectMissing, ObjectStore
from .jobs import side_by_side, upload_part

_PARTS_AT_ONCE = 2


async def parts_routed_anew(
    store: ObjectStore,
    paths: TopicPaths,
    runtime: Runtime,
    job: str,
    parts: Sequence[Part],
    *,
    former: Router,
    router: Router,
    timeout_s: float,
) -> list[Part]:
    """The same rows in the same order, by the queues of ``router``. Parts of which no row moves stay; others are uploaded again, and the former ones
    are collected with the job. Raises `NotWritten` where a part is gone.
    """
    gate = asyncio.Semaphore(_PARTS_AT_ONCE)

    async def anew(number: int, part: Part) -> Part:
        key = paths.root + part.key
        async with gate:
            try:
                found = await until_answered(lambda: store.get(key), runtime.clock, timeout_s=timeout_s)
            except ObjectMissing as error:
                raise NotWritten("the rows were staged, and given up before they were linked", object=key) from error
            rows = await runtime.offload(lambda: _routed_anew(_rows(found.data, part, key), former, router))
            if rows is None:
                return part
            upload = partial(upload_part, store, paths, runtime, job, f"{number:08d}", lambda: rows)
            return await until_answered(upload, runtime.clock, timeout_s=timeout_s)

    return await side_by_side(anew(number, part) for number, part in enumerate(parts))


def _rows(data: bytes, part: Part, key: str) -> pa.Table:
    if len(data) != part.size_bytes or digest(data) != part.digest:
        raise DataDamaged("staged rows are not what was written", object=key, expected=part.digest, observed=digest(data))
    check_seal(data, where=key)
    return read_rows(data, where=key)


def _routed_anew(rows: pa.Table, former: Router, router: Router) -> pa.Table | None:
    """None where every row stays. Rows without a group do, and those whose sender named the queue."""
    at = rows.schema.get_field_index("queue")
    groups, queues = rows["message_group"].combine_chunks(), rows["queue"].to_numpy()
    routed = groups.is_valid().to_numpy(zero_copy_only=False) & (queues == former.route(groups))
    now = np.where(routed, router.route(groups), queues).astype(queues.dtype)
    if (now == queues).all():
        return None
    moved = rows.set_column(at, rows.schema.field(at), pa.array(now))
    return moved.take(pa.array(np.argsort(now, kind="stable")))

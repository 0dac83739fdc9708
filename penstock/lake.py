"""Opening a lake for synchronous callers: the objects of `penstock.aio`, run on one event-loop thread of this process."""

from __future__ import annotations

import os

from penstock.log import Duration, ObjectStore, Runtime
from penstock.log.limits import REFUSAL_TIMEOUT

from . import aio
from .blocking.lake import Lake

__all__ = ["Lake", "connect"]


def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    store: ObjectStore | None = None,
    read_only: bool = False,
    coordination: str | None = None,
    maintenance: bool = True,
    options: dict[str, str] | None = None,
    runtime: Runtime | None = None,
    refusal_timeout: Duration = REFUSAL_TIMEOUT,
) -> Lake:
    """Open a lake: a folder, ``memory://``, ``s3://bucket/prefix?region=…``, ``gs://…`` or ``az://…`` (see `penstock.log.open_store`).

    Nothing is read or written yet. ``read_only=True`` never writes. A store may be given instead of a URL, for example a
    `penstock.log.stores.MemoryStore` that several lakes share.

    ``coordination`` names the table of consumer groups, the same for all users of the lake: ``sqlite:///path``, ``dynamodb://table?region=…``,
    ``postgresql://user@host/database``, or ``store`` (the lake's own object store). The default is SQLite beside a lake in a folder, otherwise
    ``store`` (see `penstock.coordinator.open_table`).

    With ``maintenance``, a process that has written to the lake takes its share of publishing to the Delta tables, compaction, retention, trimming
    and collection. Otherwise others must do that, such as `penstock maintain`.

    A store or table that refuses what it allowed before (403, expired credentials, files that may not be written) is asked again for
    ``refusal_timeout``. Then consumers and calls end with `AccessLost`. Raises `InvalidArgument` for an unknown scheme or option.
    """
    return Lake(
        aio.connect(
            url,
            store=store,
            read_only=read_only,
            coordination=coordination,
            maintenance=maintenance,
            options=options,
            runtime=runtime,
            refusal_timeout=refusal_timeout,
        )
    )

"""Penstock for asynchronous callers: the same classes, natively on the running event loop.

    async with penstock.aio.connect("./lake") as lake:
        producer = await lake.producer("orders")
        receipt = await producer.send(penstock.Message(b"paid", message_group="user-7"))

``send`` is an ordinary call and returns a receipt at once; awaiting the receipt waits until the message is durable. On the loop's own thread
a full producer raises `BackPressureError`; ``await producer.wait_for_room()`` waits instead.
"""

from __future__ import annotations

import os

from penstock.log import InvalidArgument, Lake, NotSupported, ObjectStore, Producer, Reader, Runtime, TopicSettings, open_store

__all__ = ["Lake", "Producer", "Reader", "TopicSettings", "connect"]


def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    store: ObjectStore | None = None,
    read_only: bool = False,
    coordination: str | None = None,
    options: dict[str, str] | None = None,
    runtime: Runtime | None = None,
) -> Lake:
    """Open a lake on the running event loop; the arguments are those of `penstock.connect`."""
    if coordination is not None:
        raise NotSupported("there are no consumer groups yet, so nothing to coordinate", operation="connect", observed=coordination)
    runtime = runtime or Runtime()
    if store is None:
        store = open_store(url or "", runtime=runtime, options=options)
    elif url is not None or options is not None:
        raise InvalidArgument(
            "a store is given, so there is nothing for a URL or for options to say",
            operation="connect",
            expected="either a URL or a store",
            observed=f"both, and the URL is {os.fspath(url)}" if url is not None else "options beside a store",
        )
    return Lake(store, runtime=runtime, read_only=read_only)

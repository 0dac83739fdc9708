"""Penstock for asynchronous callers: the same classes, natively on the running event loop.

    async with penstock.aio.connect("./lake") as lake:
        producer = await lake.producer("orders")
        receipt = await producer.send(penstock.Message(b"paid", message_group="user-7"))

``send`` is an ordinary call and returns a receipt at once; awaiting the receipt waits until the message is durable. On the loop's own thread
a full producer raises `BackPressureError`; ``await producer.wait_for_room()`` waits instead.
"""

from __future__ import annotations

import os

from penstock.log import Lake, ObjectStore, Producer, Reader, Runtime, TopicSettings, open_store

__all__ = ["Lake", "Producer", "Reader", "TopicSettings", "connect"]


def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    store: ObjectStore | None = None,
    read_only: bool = False,
    options: dict[str, str] | None = None,
    runtime: Runtime | None = None,
) -> Lake:
    """Open a lake on the running event loop; the arguments are those of `penstock.connect`."""
    runtime = runtime or Runtime()
    return Lake(store or open_store(url or "", runtime=runtime, options=options), runtime=runtime, read_only=read_only)

"""The synchronous face of a lake: the same objects as `penstock.aio`, run on one event-loop thread of this process."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from penstock.log import (
    BatchReceipt,
    ClosedError,
    ForkedError,
    Message,
    MessageType,
    MessageView,
    ObjectStore,
    PenstockError,
    ProducerOptions,
    ProducerStatistics,
    Runtime,
    TopicDescription,
    TopicLimits,
    TopicRecord,
    TopicSettings,
    views,
)
from penstock.log import Lake as AsyncLake
from penstock.log import Producer as AsyncProducer
from penstock.log import Reader as AsyncReader
from penstock.log.portal import Portal

from . import aio

if TYPE_CHECKING:
    import pyarrow as pa

Position: TypeAlias = "int | datetime | Literal['earliest', 'latest']"
"""Where reading starts or ends: an offset, a store time, or one of the two ends."""


def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    store: ObjectStore | None = None,
    read_only: bool = False,
    coordination: str | None = None,
    options: dict[str, str] | None = None,
    runtime: Runtime | None = None,
) -> Lake:
    """Open a lake: a folder, ``memory://``, ``s3://bucket/prefix?region=…``, ``gs://…`` or ``az://…`` (see `penstock.log.open_store`).

    Nothing is read or written yet. ``read_only=True`` never writes. A store may be given instead of a URL, for example a
    `penstock.log.stores.MemoryStore` that several lakes share. Raises `InvalidArgument` for an unknown scheme or option.
    """
    return Lake(aio.connect(url, store=store, read_only=read_only, coordination=coordination, options=options, runtime=runtime))


class Lake:
    """Topics, producers and readers under one root. Use it in a ``with`` block, or close it: that writes what was sent."""

    def __init__(self, lake: AsyncLake) -> None:
        self._lake = lake
        self._portal = Portal()
        self._producers: weakref.WeakSet[AsyncProducer] = weakref.WeakSet()
        os.register_at_fork(after_in_child=_in_child(weakref.WeakMethod(self._after_fork)))

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._lake.url

    # --- Topics -----------------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        message_type: MessageType | str = MessageType.NORMAL,
        queues: int = 16,
        retention: timedelta | None = timedelta(days=3),
        retention_bytes: int | None = None,
        limits: TopicLimits | None = None,
    ) -> TopicRecord:
        """Create a topic; fine when it exists with these settings.

        ``message_type`` is NORMAL or FIFO; one queue gives a global order, idle queues cost nothing. Messages older than ``retention``
        are dropped, and beyond ``retention_bytes`` of table files a queue. Raises `TopicExists` when it exists with other settings,
        `InvalidArgument` or `LimitExceeded` for a bad name or value, `NotSupported` for the types that are not there yet.
        """
        settings = TopicSettings(
            message_type=message_type,  # type: ignore[arg-type]
            queues=queues,
            retention=retention,
            retention_bytes=retention_bytes,
            limits=limits or TopicLimits(),
        )
        return self._portal.run(lambda: self._lake.create_topic(name, settings))

    def describe_topic(self, name: str) -> TopicDescription:
        """Settings, offsets of every queue, and the hottest queues and message groups of the messages stored last."""
        return self._portal.run(lambda: self._lake.describe_topic(name))

    def alter_topic(self, name: str, **changes: object) -> TopicRecord:
        """Change ``retention``, ``retention_bytes`` or ``limits``. Raises `InvalidArgument` for anything else."""
        return self._portal.run(lambda: self._lake.alter_topic(name, **changes))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its messages. A new topic of the name may follow at once."""
        self._portal.run(lambda: self._lake.delete_topic(name))

    def topics(self, *, damaged: Literal["raise", "skip"] = "raise") -> dict[str, TopicRecord]:
        """The topics by name. Raises `DataDamaged` when the settings of one cannot be read; ``damaged="skip"`` leaves it out."""
        return self._portal.run(lambda: self._lake.topics(damaged=damaged))

    # --- Producers and readers --------------------------------------------------------------------------------------------------

    def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        linger: timedelta = timedelta(milliseconds=25),
        batch_bytes: int = ProducerOptions().batch_bytes,
        memory_bytes: int = ProducerOptions().memory_bytes,
        on_full: Literal["block", "raise"] = "block",
        block_timeout: timedelta = timedelta(seconds=60),
        delivery_timeout: timedelta = timedelta(seconds=120),
    ) -> Producer:
        """Open a producer. With a ``name`` it fences every earlier instance of that name, and its sends may carry sequences.

        The other arguments are described at `penstock.log.ProducerOptions`. Raises `TopicNotFound`, `ReadOnlyError`, `ClockSkewError`,
        `UnsafeStoreError` or `PermissionDenied` before anything is sent.
        """
        options = ProducerOptions(
            linger=linger,
            batch_bytes=batch_bytes,
            memory_bytes=memory_bytes,
            on_full=on_full,
            block_timeout=block_timeout,
            delivery_timeout=delivery_timeout,
        )
        core = self._portal.run(lambda: self._lake.producer(topic, name=name, options=options))
        self._producers.add(core)
        return Producer(core, self._portal)

    def reader(self, topic: str) -> Reader:
        """Open a reader: any queue, from any place, without a consumer group."""
        return Reader(self._portal.run(lambda: self._lake.reader(topic)), self._portal)

    # --- Its end ----------------------------------------------------------------------------------------------------------------

    def _after_fork(self) -> None:
        """In a child process: the event-loop thread does not exist there, so everything says so instead of waiting for ever."""
        error = ForkedError("the process was forked after the lake was opened", operation="send", hint="connect again in the child")
        for producer in list(self._producers):
            producer.after_fork(error)

    def close(self) -> None:
        """Write what was sent, then let go of everything. Closing again does nothing; whoever closes it meanwhile waits for the same end."""
        if self._portal.stopped:
            return
        try:
            self._portal.run(self._lake.close)
        except ClosedError:
            if not self._portal.stopped:
                raise  # a send that nobody was told of; else another thread's closing came to its end
        finally:
            self._portal.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _close_after(self.close, error)


class Producer:
    """Sends to one topic, from any thread. Use it in a ``with`` block, or close it: that writes what was sent."""

    def __init__(self, core: AsyncProducer, portal: Portal) -> None:
        self._core = core
        self._portal = portal
        self.send = core.send
        """``send(message, *, queue=None, sequence=None) -> Receipt``; see `penstock.log.Producer.send`."""

    @property
    def id(self) -> str:
        """The producer's name, or a random id."""
        return self._core.id

    @property
    def last_sequence(self) -> int:
        """The sequence of the last message known to be accepted under this name, -1 for none: where an application goes on."""
        return self._core.last_sequence

    def send_batch(self, data: pa.Table | pa.RecordBatch | Iterable[Message]) -> BatchReceipt:
        """Take rows over as one batch, durable as a whole or not at all; see `penstock.log.Producer.send_batch`."""
        return self._core.send_batch(data)

    def flush(self) -> None:
        """Return when all that was sent before is durable. Raises what became of it otherwise."""
        self._portal.run(self._core.flush)

    def statistics(self) -> ProducerStatistics:
        """What this producer has done so far."""
        return self._core.statistics()

    def close(self) -> None:
        """Write what was sent, then stop; closing again does nothing.

        Raises what became of it, if not all of it is durable and nobody was told so by a receipt, by ``send`` or by ``flush``.
        """
        if not self._portal.stopped:
            self._portal.run(self._core.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _close_after(self.close, error)


class Reader:
    """Reads a topic's messages, old and new, without a group. Table and log are joined without a seam."""

    def __init__(self, core: AsyncReader, portal: Portal) -> None:
        self._core = core
        self._portal = portal

    @property
    def queues(self) -> int:
        """How many queues the topic has."""
        return self._core.queues

    def read(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        follow: bool = False,
        tags: str | None = None,
        columns: list[str] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> Iterator[pa.RecordBatch]:
        """Messages as Arrow batches; see `penstock.log.Reader.read`."""
        source = self._core.read(queue=queue, start=start, end=end, follow=follow, tags=tags, columns=columns, damaged=damaged)
        try:
            while True:
                try:
                    yield self._portal.run(source.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            if not self._portal.stopped and not self._portal.forked:
                self._portal.run(source.aclose)

    def messages(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        follow: bool = False,
        tags: str | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> Iterator[MessageView]:
        """The same, message by message."""
        for batch in self.read(queue=queue, start=start, end=end, follow=follow, tags=tags, damaged=damaged):
            yield from views(self._core.topic, batch)

    def to_arrow(self, **where: Any) -> pa.Table:  # noqa: ANN401 - the arguments of read
        """All that `read` would yield, as one table, by queue and offset."""
        return self._portal.run(lambda: self._core.to_arrow(**where))

    def to_pandas(self, **where: Any) -> Any:  # noqa: ANN401 - pandas is optional
        """All that `read` would yield, as a pandas DataFrame, by queue and offset."""
        return self._portal.run(lambda: self._core.to_pandas(**where))

    def to_polars(self, **where: Any) -> Any:  # noqa: ANN401 - polars is optional
        """All that `read` would yield, as a Polars DataFrame, by queue and offset. Raises `MissingDependency`."""
        return self._portal.run(lambda: self._core.to_polars(**where))

    def lookup(
        self, *, message_id: str | None = None, key: str | None = None, message_group: str | None = None
    ) -> list[MessageView]:
        """The messages with this id, key or message group, by queue and offset; reads little even of a large topic."""
        return self._portal.run(lambda: self._core.lookup(message_id=message_id, key=key, message_group=message_group))

    def offsets(self) -> dict[int, tuple[int, int]]:
        """For every queue, the earliest kept offset and the one after the last."""
        return self._portal.run(self._core.offsets)

    def close(self) -> None:
        """Stop following: iterations end, in other threads too."""
        if not self._portal.stopped:
            self._portal.run(self._core.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _close_after(close: Callable[[], None], error: BaseException | None) -> None:
    """Leave a ``with`` block: an error that is already on its way is not replaced by what closing raises."""
    if error is None:
        close()
    else:
        with suppress(PenstockError):
            close()


def _in_child(method: weakref.WeakMethod[Callable[[], None]]) -> Callable[[], None]:
    """``method`` for as long as its object lives; hooks of fork cannot be taken back."""

    def call() -> None:
        if (alive := method()) is not None:
            alive()

    return call

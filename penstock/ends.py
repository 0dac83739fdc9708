"""The producer and the reader of a topic for synchronous callers; the work is done on the lake's event-loop thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from penstock.log import BatchReceipt, LeftOut, Message, MessageView, Position, ProducerStatistics, views
from penstock.log import Producer as AsyncProducer
from penstock.log import Reader as AsyncReader
from penstock.log.portal import Portal

from .blocking.face import close_after

if TYPE_CHECKING:
    import pyarrow as pa


class Producer:
    """Sends to one topic, from any thread. Use it in a ``with`` block, or close it: that writes pending messages."""

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
        """The sequence of the last message known to be accepted under this name, -1 for none. An application goes on behind it."""
        return self._core.last_sequence

    def send_batch(self, data: pa.Table | pa.RecordBatch | Iterable[Message]) -> BatchReceipt:
        """Take rows over as one batch, durable as a whole or not at all; see `penstock.log.Producer.send_batch`."""
        return self._core.send_batch(data)

    def flush(self) -> None:
        """Return when all messages sent before are durable. Raises the error otherwise."""
        self._portal.run(self._core.flush)

    def statistics(self) -> ProducerStatistics:
        """The counts of this producer so far."""
        return self._core.statistics()

    def close(self) -> None:
        """Write pending messages, then stop. Closing again does nothing.

        Raises the error if not all messages are durable and no receipt, ``send`` or ``flush`` told anybody so.
        """
        if not self._portal.stopped:
            self._portal.run(self._core.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        close_after(self.close, error)


class Reader:
    """Reads a topic's messages, old and new, without a group. Table and log are joined without a seam."""

    def __init__(self, core: AsyncReader, portal: Portal) -> None:
        self._core = core
        self._portal = portal

    @property
    def queues(self) -> int:
        """The number of the topic's queues."""
        return self._core.queues

    @property
    def left_out(self) -> list[LeftOut]:
        """The messages that `read` and `messages` with ``damaged="skip"`` have passed over so far."""
        return self._core.left_out

    def read(
        self,
        *,
        queue: int | None = None,
        start: Position = "earliest",
        end: Position = "latest",
        follow: bool = False,
        tags: str | None = None,
        where: str | None = None,
        columns: list[str] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> Iterator[pa.RecordBatch]:
        """Messages as Arrow batches; see `penstock.log.Reader.read`."""
        source = self._core.read(
            queue=queue, start=start, end=end, follow=follow, tags=tags, where=where, columns=columns, damaged=damaged
        )
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
        where: str | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> Iterator[MessageView]:
        """Messages one by one; see `read`."""
        for batch in self.read(queue=queue, start=start, end=end, follow=follow, tags=tags, where=where, damaged=damaged):
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
        """The messages with this id, key or message group, by queue and offset. Reads little even of a large topic."""
        return self._portal.run(lambda: self._core.lookup(message_id=message_id, key=key, message_group=message_group))

    def offsets(self) -> dict[int, tuple[int, int]]:
        """The earliest kept offset and the one after the last, by queue."""
        return self._portal.run(self._core.offsets)

    def resolve(self, position: Position, *, queues: Sequence[int] | None = None) -> dict[int, int]:
        """The offset that a position means now in each of these queues, or in all; see `penstock.log.Reader.resolve`."""
        return self._portal.run(lambda: self._core.resolve(position, queues=queues))

    def close(self) -> None:
        """Stop following: iterations end, in other threads too."""
        if not self._portal.stopped:
            self._portal.run(self._core.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

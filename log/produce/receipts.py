"""The return values of ``send``: light handles on a shared batch."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..append.in_flight import AppendResult
from ..errors import ForkedError, StoreUnavailable
from ..limits import WAIT_MAX, Duration, optional_duration, shown
from ..message.batch_rows import BatchQueues, MessageIds
from ..message.few_rows import FewQueues
from ..message.message import MaybeNone
from ..runtime.portal import patiently
from ..runtime.turns import runs_here
from .delays import QUEUE, DelayedRows, RecallHandles


class SendResult(NamedTuple):
    """A message that is durably in the log."""

    message_id: str
    queue: int | None
    """None for a duplicate, and for a delayed message."""
    offset: int | None
    """None where the queue is None, or the log was trimmed past it."""
    duplicate: bool = False
    """Whether its sequence was accepted before this opening, so that nothing was written."""
    recall_handle: str | MaybeNone = None
    """The handle for ``lake.recall``. None for a duplicate, and where the log was trimmed."""
    invalid: str | None = None
    """The reason for which the row went to the topic ``NAME-invalid``."""


class SendBatchResult(NamedTuple):
    """Rows that are durably in the log."""

    rows: int
    offsets: Mapping[int, tuple[int, int]] | None
    """The first offset and the one after the last of every touched queue. None for delayed messages, and where the log was trimmed."""
    duplicates: int = 0
    """Rows left out, as their sequences were accepted before this opening."""
    recall_handles: Sequence[str] = ()
    """The handles of delayed messages, in the order of the rows written."""
    invalid: int = 0
    """Rows that went to the topic ``NAME-invalid``."""


@dataclass(frozen=True, eq=False, slots=True)
class SettledBatch:
    """A written batch, with the places of its rows."""

    written: AppendResult
    places: BatchQueues | FewQueues
    delayed: DelayedRows | None = None
    kept: npt.NDArray[np.int64] | None = None
    """Written messages by number; None: all were."""
    invalid: Mapping[int, str] = field(default_factory=dict)

    def place(self, index: int) -> tuple[int, int | None]:
        """(queue, offset) of a message by its number in the batch."""
        if self.kept is not None:
            index = int(np.searchsorted(self.kept, index))
        queue = int(self.places.queues[index])
        if self.written.offsets is None:
            return queue, None
        return queue, self.written.offsets[queue] + int(self.places.ranks[index])


class BatchFuture(Future[SettledBatch]):
    """The outcome of a batch, which no waiter can cancel; never known in a forked child."""

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self._pid = os.getpid()
        self.heard = False

    def result(self, timeout: float | None = None) -> SettledBatch:
        self._check_process()
        try:
            return patiently(super().result, timeout)
        finally:
            self.heard = self.done()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._check_process()
        error = patiently(super().exception, timeout)
        self.heard = True
        return error

    def __await__(self) -> Generator[object, None, SettledBatch]:
        """Wait on the running loop. The one that settles the batch wakes its own waiters at once; `asyncio.wrap_future` would write to its pipe for
        each. A known outcome takes a turn of the loop all the same: who awaits duplicates lets others run.
        """
        if self.done():
            yield None
        else:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self.add_done_callback(lambda _: _wake(loop, waiter))
            yield from waiter.__await__()
        return self.result()

    def _check_process(self) -> None:
        if os.getpid() != self._pid and not self.done():
            raise ForkedError(
                "the process was forked after the lake was opened", operation="receipt.result", hint="connect again in the child"
            )


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> None:
    """Wake a waiter of a loop from any thread."""
    if runs_here(loop):
        _set(waiter)
    else:
        loop.call_soon_threadsafe(_set, waiter)


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():  # else whoever waited was cancelled
        waiter.set_result(None)


def _timeout_s(timeout: Duration | None, operation: str) -> float | None:
    found = optional_duration("timeout", timeout, most=WAIT_MAX, operation=operation)
    return None if found is None else found.total_seconds()


class SharedBatch(Protocol):
    """The part that all receipts of a batch share."""

    future: BatchFuture

    @property
    def ids(self) -> MessageIds: ...


class _Awaitable:
    __slots__ = ()

    @property
    def _future(self) -> BatchFuture:
        raise NotImplementedError

    def __repr__(self) -> str:
        return shown(self, self._what, self._state())

    @property
    def _what(self) -> str:
        raise NotImplementedError

    def _state(self) -> str:
        future = self._future
        if not future.done():
            return "on its way"
        error = Future.exception(future)
        return "durable" if error is None else type(error).__name__

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._future.done()

    def exception(self, timeout: Duration | None = None) -> BaseException | None:
        """The error, once the outcome is known, or None. Raises `TimeoutError` after ``timeout``, a `timedelta` or seconds."""
        return self._future.exception(_timeout_s(timeout, "receipt.exception"))

    def _settled(self, timeout: Duration | None) -> SettledBatch:
        timeout_s = _timeout_s(timeout, "receipt.result")
        try:
            return self._future.result(timeout_s)
        except FutureTimeoutError as error:
            raise StoreUnavailable(
                "the send is not durable yet",
                operation="receipt.result",
                expected=f"within {timeout_s:g} s",
                hint="it goes on; ask the receipt again",
            ) from error


class Receipt(_Awaitable):
    """The receipt of one ``send``. ``result()`` blocks and ``await`` waits until the message is durable; both raise the send's
    error.
    """

    __slots__ = ("batch", "index")
    batch: SharedBatch
    index: int
    """The index of the message in the batch; -1 for a duplicate."""

    @property
    def _future(self) -> BatchFuture:
        return self.batch.future

    @property
    def _what(self) -> str:
        return f"of message {self.message_id}"

    @property
    def message_id(self) -> str:
        """The message's id: known at once, never changes."""
        return self.batch.ids.one(self.index)

    def result(self, timeout: Duration | None = None) -> SendResult:
        """The message's place, once it is durable. Raises `StoreUnavailable` after ``timeout``, a `timedelta` or seconds."""
        return self._place(self._settled(timeout))

    def __await__(self) -> Generator[object, None, SendResult]:
        settled = yield from self._future.__await__()
        return self._place(settled)

    def _place(self, settled: SettledBatch) -> SendResult:
        if self.index < 0:
            return SendResult(self.message_id, None, None, duplicate=True)
        if self.index in settled.invalid:
            return SendResult(self.message_id, None, None, invalid=settled.invalid[self.index])
        queue, offset = settled.place(self.index)
        if settled.delayed is not None:
            return SendResult(self.message_id, None, None, recall_handle=settled.delayed.handle(self.index, offset))
        return SendResult(self.message_id, queue, offset)


def receipt_of(batch: SharedBatch, index: int) -> Receipt:
    receipt = object.__new__(Receipt)
    receipt.batch = batch
    receipt.index = index
    return receipt


class BatchReceipt(_Awaitable):
    """The receipt of one ``send_batch``."""

    __slots__ = ("_duplicates", "_shared")

    def __init__(self, future: BatchFuture, duplicates: int = 0) -> None:
        self._shared = future
        self._duplicates = duplicates

    @property
    def _future(self) -> BatchFuture:
        return self._shared

    @property
    def _what(self) -> str:
        return "of a batch"

    def result(self, timeout: Duration | None = None) -> SendBatchResult:
        """The places of the rows, as by `Receipt.result`."""
        return self._places(self._settled(timeout))

    def __await__(self) -> Generator[object, None, SendBatchResult]:
        settled = yield from self._future.__await__()
        return self._places(settled)

    def _places(self, settled: SettledBatch) -> SendBatchResult:
        rows, first = settled.places.rows, settled.written.offsets
        if settled.delayed is not None:
            handles = () if first is None else RecallHandles(settled.delayed, first[QUEUE])
            return SendBatchResult(len(settled.places.queues), None, self._duplicates, handles, len(settled.invalid))
        offsets = None if first is None else {queue: (first[queue], first[queue] + count) for queue, count in rows.items()}
        return SendBatchResult(len(settled.places.queues), offsets, self._duplicates, (), len(settled.invalid))

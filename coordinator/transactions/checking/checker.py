"""Asks checkers, which may raise, hang or answer nonsense."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from functools import partial
from typing import Any, TypeAlias

from ....log.limits import MIB
from ....log.message.message import MessageView

log = logging.getLogger("penstock.transactions")

ANSWER_S = 15.0
"""The timeout of an answer."""
AT_ONCE_MAX = 16
"""The questions that one checker has at a time, late ones included."""
HELD_BYTES_MAX = 256 * MIB
"""The bytes of messages with one checker; a single transaction may exceed them."""
_MESSAGE_BYTES, _TEXT_BYTES = 512, 64
"""Python's memory for a message, and for each key, property name and value."""


class TransactionResolution(Enum):
    """A checker's answer, in RocketMQ's words."""

    COMMIT = "commit"
    """The local work is done: the messages become visible."""
    ROLLBACK = "rollback"
    """The local work never will be done: no message becomes visible."""
    UNKNOWN = "unknown"
    """The local work may be under way. The checker is asked again later."""


@dataclass(frozen=True, slots=True)
class CheckedTransaction:
    """An undecided transaction, as its checker sees it."""

    id: str
    producer_group: str
    created: datetime
    checks: int
    """The number of checks, this one included."""
    messages: tuple[MessageView, ...]
    """All messages to be sent, without those to a deleted topic; their offset is -1."""


Checker: TypeAlias = Callable[[CheckedTransaction], TransactionResolution | Awaitable[TransactionResolution]]
"""Returns a `TransactionResolution`. A function runs in a thread; a coroutine function is awaited."""
AnyChecker: TypeAlias = Callable[[Any], Any]
"""A checker that may break that promise."""


class CheckOutcome(StrEnum):
    """The outcome of a question."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"
    FAILED = "failed"
    """The checker raised, or answered something else."""
    LATE = "late"


class RegisteredChecker:
    """One registered checker, and its open questions."""

    def __init__(
        self,
        checker: AnyChecker,
        *,
        group: str,
        on_question: Callable[[str, CheckOutcome | None], None] = lambda group, answer: None,
    ) -> None:
        """``on_question`` is called with None at a question, and with its outcome."""
        self._checker = checker
        self._group = group
        self._on_question = on_question
        self._late: set[asyncio.Future[object]] = set()
        self._held_bytes = 0
        self._freed = asyncio.Event()

    def ask_instead(self, checker: AnyChecker) -> None:
        self._checker = checker

    @property
    def late(self) -> int:
        """The questions worked on after their time."""
        return len(self._late)

    async def take_room(self, size_bytes: int) -> None:
        """Return once messages of this size have room, and count them, for one caller at a time."""
        if not self._fits(size_bytes):
            log.warning(
                "the checker of producer group %s has messages of %d MiB before it, and is asked no more for now",
                self._group,
                self._held_bytes // MIB,
            )
        while not self._fits(size_bytes):
            self._freed.clear()
            await self._freed.wait()
        self._held_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        self._held_bytes -= size_bytes
        self._freed.set()

    def _fits(self, size_bytes: int) -> bool:
        return not self._held_bytes or self._held_bytes + size_bytes <= HELD_BYTES_MAX

    async def ask(self, transaction: CheckedTransaction, *, held_bytes: int = 0) -> TransactionResolution:
        """The checker's answer; UNKNOWN, logged, if it raises, takes too long, or answers something else. ``held_bytes`` are given back at the
        question's end.
        """
        self._on_question(self._group, None)
        question = self._begin(transaction)
        question.add_done_callback(lambda _: self.give_back(held_bytes))
        answer = await self._answer(question, transaction)
        self._on_question(self._group, answer)
        return _RESOLUTIONS.get(answer, TransactionResolution.UNKNOWN)

    async def _answer(self, question: asyncio.Future[object], transaction: CheckedTransaction) -> CheckOutcome:
        done, _ = await asyncio.wait((question,), timeout=ANSWER_S)
        if not done:
            self._late.add(question)
            question.add_done_callback(self._ended)
            if isinstance(question, asyncio.Task):
                question.cancel()  # a thread cannot be cancelled
            log.error("%s did not answer within %g s: asked again later", self._where(transaction), ANSWER_S)
            return CheckOutcome.LATE
        if question.cancelled() or (error := question.exception()) is not None:
            log.error("%s raised: asked again later", self._where(transaction), exc_info=None if question.cancelled() else error)
            return CheckOutcome.FAILED
        return self._understood(question.result(), transaction)

    def _begin(self, transaction: CheckedTransaction) -> asyncio.Future[object]:
        checker = self._checker
        if is_coroutine_function(checker):
            return asyncio.ensure_future(self._awaited(checker, transaction))
        return _in_thread(lambda: checker(transaction), name=f"penstock-check-{self._group}")

    async def _awaited(self, checker: AnyChecker, transaction: CheckedTransaction) -> object:
        answer = checker(transaction)
        assert isinstance(answer, Coroutine), "that is what a coroutine function gives"
        try:
            return await answer
        except SystemExit as error:  # it would end the event loop
            raise _passed_on(error) from error

    def _ended(self, question: asyncio.Future[object]) -> None:
        self._late.discard(question)
        if not question.cancelled():
            question.exception()  # nobody else retrieves it

    def _understood(self, answer: object, transaction: CheckedTransaction) -> CheckOutcome:
        if isinstance(answer, TransactionResolution):
            return CheckOutcome(answer.value)
        if isinstance(answer, Coroutine):
            answer.close()
            log.error("%s answered a coroutine; make it a coroutine function (async def)", self._where(transaction))
        else:
            log.error("%s answered %.200r, which is no TransactionResolution", self._where(transaction), answer)
        return CheckOutcome.FAILED

    def _where(self, transaction: CheckedTransaction) -> str:
        return f"the checker of producer group {self._group}, asked about transaction {transaction.id},"


_RESOLUTIONS = {CheckOutcome(one.value): one for one in TransactionResolution}


def size_bytes(messages: Iterable[MessageView]) -> int:
    """The approximate memory of messages."""
    found = 0
    for one in messages:
        texts = (*one.keys, *one.properties, *one.properties.values())
        found += _MESSAGE_BYTES + len(one.body or b"") + sum(_TEXT_BYTES + len(text) for text in texts)
    return found


def _in_thread(call: Callable[[], object], *, name: str) -> asyncio.Future[object]:
    """The call's result, from a thread that does not hold up the process's end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[object] = loop.create_future()

    def run() -> None:
        tell: Callable[[], None]
        try:
            tell = partial(ended.set_result, call())
        except BaseException as error:  # noqa: BLE001 - whatever a checker raises is its answer, and the thread is ours
            tell = partial(ended.set_exception, _passed_on(error))
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(tell)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:  # the process is out of threads
        ended.set_exception(error)
    return ended


def _passed_on(error: BaseException) -> Exception:
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"the checker raised {error!r}")


def is_coroutine_function(checker: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(checker) or inspect.iscoroutinefunction(getattr(checker, "__call__", None))  # noqa: B004

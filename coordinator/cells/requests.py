"""Changes of cells requested during a write, which go into the next one together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ...log.errors import PenstockError, unforeseen

T = TypeVar("T")
R = TypeVar("R")


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class Waiter(Generic[R]):
    """A caller that waits for its part of a write."""

    done: asyncio.Future[R] = field(default_factory=_future, kw_only=True)
    refusal: PenstockError | None = field(default=None, kw_only=True)

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self.done.done()

    def settle(self, result: R) -> None:
        """Answer the caller, if still there: by the refusal, or the result."""
        if self.refusal is not None:
            self.fail(self.refusal)
        elif not self.done.done():
            self.done.set_result(result)

    def fail(self, error: PenstockError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


@dataclass(slots=True)
class Request(Waiter[R], Generic[T, R]):
    """A requested change, and its waiting caller."""

    change: Callable[[T], T]


Q = TypeVar("Q", bound=Request[Any, Any])


class SharedWrites(Generic[Q]):
    """One write at a time for each key, of all requests since the last, in order. ``write`` makes requests durable and settles each; its error fails
    them all.
    """

    def __init__(self, write: Callable[[str, list[Q]], Awaitable[None]], *, operation: str) -> None:
        self._write = write
        self._operation = operation
        self._requested: dict[str, list[Q]] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}

    def add(self, key: str, request: Q) -> None:
        self._requested.setdefault(key, []).append(request)

    def begin(self, key: str) -> None:
        if key not in self._writing:
            self._writing[key] = asyncio.ensure_future(self._write_all(key))

    def is_writing(self, key: str) -> bool:
        return key in self._writing

    async def ended(self) -> None:
        await asyncio.gather(*self._writing.values(), return_exceptions=True)

    async def _write_all(self, key: str) -> None:
        try:
            while requested := self._requested.pop(key, []):
                try:
                    await self._write(key, requested)
                except PenstockError as error:
                    _fail(requested, error)
                except Exception as error:  # noqa: BLE001 - it belongs to those who wait
                    _fail(requested, unforeseen(error, operation=self._operation))
        finally:
            del self._writing[key]


def _fail(requested: list[Q], error: PenstockError) -> None:
    for one in requested:
        one.fail(error)

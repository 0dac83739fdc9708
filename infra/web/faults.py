"""Parts of a page that may fail by themselves, and what is told of an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...log.errors import CallError, PenstockError, StoreUnavailable
from ..console.wording import in_shell
from .documents import UNTOLD

T = TypeVar("T")

PATIENCE_S = 20.0
"""The time that a part of a page may take. A store that stands still must not hold up the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact about an error, such as what was expected."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error as operators see it."""

    kind: str
    """The code for programs, as `PenstockError.kind`."""
    message: str
    facts: tuple[Fact, ...] = ()
    hint: str | None = None

    @staticmethod
    def of(error: PenstockError) -> Fault:
        """What an error says."""
        facts = {name: getattr(error, name) for name in ("operation", "object", "expected", "observed")}
        return Fault(
            kind=error.kind,
            message=error.message,
            facts=tuple(Fact(name=name, value=str(value)) for name, value in facts.items() if value is not None),
            hint=None if error.hint is None else in_shell(error.hint),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Fault):
    """The answer to a program's request that failed."""

    error: str
    """The same as ``kind``."""


def problem_of(error: PenstockError) -> Problem:
    """What a program is told of an error."""
    fault = Fault.of(error)
    return Problem(error=fault.kind, kind=fault.kind, message=fault.message, facts=fault.facts, hint=fault.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[T]):
    """A part of a page: its value, or why there is none."""

    value: T | None = None
    fault: Fault | None = None
    error: PenstockError | None = field(default=None, metadata=UNTOLD)
    """What the fault tells of."""

    def check_asked(self) -> None:
        """Raise the error by which what was asked for cannot be, or is not there. What fails otherwise is the part's own."""
        if isinstance(self.error, CallError) and isinstance(self.error, ValueError | LookupError):
            raise self.error


async def part(work: Awaitable[T], *, fatal: tuple[type[PenstockError], ...] = (), patience_s: float = PATIENCE_S) -> Part[T]:
    """The result of ``work``, or the fault by which it ended. The rest of the page does not depend on it, but for ``fatal`` errors."""
    try:
        async with asyncio.timeout(patience_s):
            return Part(value=await work)
    except fatal:
        raise
    except PenstockError as error:
        return Part(fault=Fault.of(error), error=error)
    except TimeoutError:
        return Part(fault=Fault.of(late(patience_s)))


def late(patience_s: float) -> StoreUnavailable:
    """The error of what took too long."""
    return StoreUnavailable(
        "the store did not answer in time",
        operation="look at the lake",
        expected=f"an answer within {patience_s:.0f} s",
        hint="reload the page; if it lasts, run `penstock doctor`",
    )

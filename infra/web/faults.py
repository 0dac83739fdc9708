"""Parts of a page that may fail alone, and errors for viewers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...log.errors import CallError, PenstockError, StoreUnavailable
from ..json_values import UNTOLD
from ..terminal.wording import in_shell

T = TypeVar("T")

PATIENCE_S = 20.0
"""The longest time of a part, so that a hanging store does not hold up the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFact:
    """One fact about an error."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """An error as operators see it."""

    kind: str
    message: str
    facts: tuple[ErrorFact, ...] = ()
    hint: str | None = None

    @staticmethod
    def of(error: PenstockError) -> ErrorReport:
        facts = {name: getattr(error, name) for name in ("operation", "object", "expected", "observed")}
        return ErrorReport(
            kind=error.kind,
            message=error.message,
            facts=tuple(ErrorFact(name=name, value=str(value)) for name, value in facts.items() if value is not None),
            hint=None if error.hint is None else in_shell(error.hint),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse(ErrorReport):
    """The answer to a program's failed request."""

    error: str


def problem_of(error: PenstockError) -> ErrorResponse:
    fault = ErrorReport.of(error)
    return ErrorResponse(error=fault.kind, kind=fault.kind, message=fault.message, facts=fault.facts, hint=fault.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePart(Generic[T]):
    """A part of a page: its value, or its fault."""

    value: T | None = None
    fault: ErrorReport | None = None
    error: PenstockError | None = field(default=None, metadata=UNTOLD)

    def check_answer(self) -> None:
        """Raise an error of the query. Other errors are the part's own."""
        if isinstance(self.error, CallError) and isinstance(self.error, ValueError | LookupError):
            raise self.error


async def page_part(
    work: Awaitable[T], *, fatal: tuple[type[PenstockError], ...] = (), patience_s: float = PATIENCE_S
) -> PagePart[T]:
    """The result of ``work``, or its fault. Only ``fatal`` errors are raised."""
    try:
        async with asyncio.timeout(patience_s):
            return PagePart(value=await work)
    except fatal:
        raise
    except PenstockError as error:
        return PagePart(fault=ErrorReport.of(error), error=error)
    except TimeoutError:
        return PagePart(fault=ErrorReport.of(timeout_error(patience_s)))


def timeout_error(patience_s: float) -> StoreUnavailable:
    return StoreUnavailable(
        "the store did not answer in time",
        operation="look at the lake",
        expected=f"an answer within {patience_s:.0f} s",
        hint="reload the page; if it lasts, run `penstock doctor`",
    )

"""The form of an error for users: Spark hands on the text of a traceback, whose last line is the error's own."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType

from ...log.errors import InternalError, PenstockError


class Legible(ContextDecorator):
    """Wraps a method that Spark calls. It lets our errors pass without the calls and causes behind them, which say nothing to a user.

    A bug's error keeps them.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, PenstockError) and not isinstance(error, InternalError):
            raise error.with_traceback(None) from None

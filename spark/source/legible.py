"""What a user sees of an error: Spark hands on the text of a traceback, whose last line is the error's own."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType

from ...log.errors import InternalError, PenstockError


class Legible(ContextDecorator):
    """Around a method that Spark calls: lets an error of ours pass without the calls and causes behind it, which say nothing to a user.

    A bug keeps them.
    """

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, PenstockError) and not isinstance(error, InternalError):
            raise error.with_traceback(None) from None

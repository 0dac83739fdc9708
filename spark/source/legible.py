"""What a user sees of an error: Spark hands on the text of a traceback, whose last line is the error's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...log.errors import InternalError, PenstockError


@contextmanager
def legible() -> Iterator[None]:
    """Let an error of ours pass without the calls and causes behind it, which say nothing to a user. A bug keeps them."""
    try:
        yield
    except InternalError:
        raise
    except PenstockError as error:
        raise error.with_traceback(None) from None

"""What keeps a capture from going on, whichever the database."""

from __future__ import annotations

from ...log.errors import CallError, RetryError


class CaptureRetry(RetryError):
    """A capture waits until this has passed, as long as its patience lasts, and goes on where it was."""


class SourceUnavailable(CaptureRetry):
    """The database does not answer, or has ended the connection."""

    kind = "source_unavailable"


class SourceReplaced(CallError):
    """The server is another one than the topic has changes of, or its log has begun anew: positions are comparable only within one log."""

    kind = "source_replaced"

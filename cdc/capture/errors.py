"""The failures of captures of any database."""

from __future__ import annotations

from ...log.errors import CallError, RetryError


class CaptureRetry(RetryError):
    """A temporary failure, which a capture's patience covers."""


class SourceUnavailable(CaptureRetry):
    """The database does not answer, or has ended the connection."""

    kind = "source_unavailable"


class SourceReplaced(CallError):
    """The server is not the one of the topic's changes, or its log has begun anew: positions are comparable only within one
    log.
    """

    kind = "source_replaced"

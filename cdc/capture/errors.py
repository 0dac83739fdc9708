"""The failures of captures of any database."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ...log.errors import CallError, MissingDependency, RetryError, install_hint


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


def load_extra(module: str, needs: str, extra: str) -> ModuleType:
    """A module of an extra. Raises `MissingDependency`."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependency(needs, operation="capture", observed=str(error), hint=install_hint(extra)) from error

"""What ended a sync's process, as an error of ours. In a module of its own, as the process that is told unpickles it by its name."""

from __future__ import annotations

import re
import traceback
from contextlib import suppress

from ...log.errors import InternalError, PenstockError, RetryError

_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)
_SAID_CHARS = 500
_ORNAMENT = re.compile(r"\x1b\[\d*m|↳")


class SyncFailed(RetryError):
    """Spark, the engine or the file system ended the sync; what was committed stands."""

    kind = "sync_failed"


def as_ours(error: Exception, into: str) -> PenstockError:
    """An error of a sync into this folder that can travel, with the traceback as a note for ``--debug``; ours stay what they are."""
    if isinstance(error, PenstockError):
        return error
    observed = f"{_name(error)}: {_said(error)}"
    ours: PenstockError
    if isinstance(error, _BUGS):
        hint = "run it again with --debug (before the command) for the traceback"
        ours = InternalError("the sync failed in an unforeseen way; please report it", observed=observed, hint=hint)
    else:
        hint = "run it again when that is mended: it goes on from what the targets have"
        ours = SyncFailed("the sync failed", operation="sync", object=into, observed=observed, hint=hint)
    ours.add_note("".join(traceback.format_exception(error)))
    return ours


def _name(error: Exception) -> str:
    """Spark names its errors by conditions."""
    condition = None
    with suppress(AttributeError):
        condition = error.getCondition()  # type: ignore[attr-defined]
    return condition or type(error).__name__


def _said(error: Exception) -> str:
    """Of a page of Spark's the last line that is no call; of others all, in a line and without colours."""
    text = str(error)
    if type(error).__module__.startswith(("pyspark", "py4j")):
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith((" ", "\t", "at "))]
        text = lines[-1].lstrip(": ") if lines else ""
    return (" ".join(_ORNAMENT.sub("", text).split()) or repr(error))[:_SAID_CHARS]

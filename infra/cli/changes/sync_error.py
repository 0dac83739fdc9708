"""The error of a sync's process, as a Penstock error. The parent process unpickles it by this module's name."""

from __future__ import annotations

import re
import signal
import traceback
from contextlib import suppress

from ....log.errors import InternalError, PenstockError, RetryError

_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)
_SAID_CHARS = 500
_ORNAMENT = re.compile(r"\x1b\[\d*m|↳")


class SyncFailed(RetryError):
    """Spark, the engine or the file system ended the sync; committed batches stand."""

    kind = "sync_failed"


def as_ours(error: Exception, into: str) -> PenstockError:
    """A picklable error of a sync, with the traceback as a note for ``--debug``. Penstock errors stay as they are."""
    if isinstance(error, PenstockError):
        return error
    observed = f"{_name(error)}: {_said(error)}"
    ours: PenstockError
    if isinstance(error, _BUGS):
        hint = "run it again with --debug (before the command) for the traceback"
        ours = InternalError("the sync failed in an unforeseen way; please report it", observed=observed, hint=hint)
    elif isinstance(error, MemoryError):
        hint = "give the process more memory, or leave the table of that event out (--table); the others go on from what their targets have"
        expected = "enough for the smallest batch, which is one event"
        ours = SyncFailed("the sync ran out of memory", operation="sync", object=into, expected=expected, hint=hint)
    else:
        hint = "run it again when that is mended: it goes on from what the targets have"
        ours = SyncFailed("the sync failed", operation="sync", object=into, observed=observed, hint=hint)
    ours.add_note("".join(traceback.format_exception(error)))
    return ours


def ended(code: int, tail: str, into: str) -> SyncFailed:
    """The error for a sync's process that ended without one. ``tail``: the last lines of its standard error."""
    how = f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
    last = tail.rpartition("\n")[2]
    ours = SyncFailed(
        "the sync's process ended before its work",
        operation="sync",
        object=into,
        observed=f"{how}: {last[:_SAID_CHARS]}" if last else how,
        hint="was the machine out of memory? Run it again: it goes on from what the targets have, with smaller batches (--max-bytes bounds them)",
    )
    ours.add_note(tail)
    return ours


def _name(error: Exception) -> str:
    condition = None
    with suppress(AttributeError):
        condition = error.getCondition()  # type: ignore[attr-defined]
    return condition or type(error).__name__


def _said(error: Exception) -> str:
    """An error's text in a line without colours; of Spark's pages the last line that is no call."""
    text = str(error)
    if type(error).__module__.startswith(("pyspark", "py4j")):
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith((" ", "\t", "at "))]
        text = lines[-1].lstrip(": ") if lines else ""
    return (" ".join(_ORNAMENT.sub("", text).split()) or repr(error))[:_SAID_CHARS]

"""How a command ends when it did not simply succeed: the exit code, and one message that says what to do."""

from __future__ import annotations

import json
import os
import signal
import traceback
from typing import TYPE_CHECKING

import click

from .session import Session, Stopped

if TYPE_CHECKING:
    from ...log.errors import PenstockError

OTHER, WRONG_CALL, RETRY, DAMAGED = 1, 2, 3, 4
EXIT_CODES = {
    0: "all is well",
    OTHER: "it failed, or a check found a problem",
    WRONG_CALL: "the call, the configuration or the input is wrong",
    RETRY: "the same call may succeed later",
    DAMAGED: "stored data is damaged",
    128 + signal.SIGINT: "ended by Ctrl-C",
    128 + signal.SIGTERM: "ended by SIGTERM",
}
_STDOUT = 1


def ending(error: BaseException, session: Session) -> int:
    """Say on stderr what went wrong; the exit code."""
    if session.debug and not isinstance(error, SystemExit | Stopped | click.exceptions.Exit):
        traceback.print_exception(error)
    if isinstance(error, BrokenPipeError):
        error = Stopped(signal.SIGPIPE)
    match error:
        case SystemExit(code=code):
            return code if isinstance(code, int) else OTHER
        case Stopped(exit_code=code):
            if code == 128 + signal.SIGPIPE:  # the interpreter must not complain when it flushes at the end
                os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
            return code
        case click.Abort():
            click.echo("Nothing was done.", err=True)
            return OTHER
        case click.UsageError():
            error.show()
            return WRONG_CALL
        case click.ClickException():
            error.show()
            return error.exit_code
    return _library_error(error, session)


def _library_error(error: BaseException, session: Session) -> int:
    from ...log.errors import CallError, DataDamaged, InternalError, PenstockError, RetryError

    if not isinstance(error, PenstockError):
        if isinstance(error, KeyboardInterrupt):
            return 128 + signal.SIGINT
        bug = InternalError("penstock failed in an unforeseen way; please report it", observed=f"{type(error).__name__}: {error}")
        bug.hint = None if session.debug else "run it again with --debug (before the command) for the traceback"
        error = bug
    _show(error, as_json=session.as_json)
    for kind, code in ((CallError, WRONG_CALL), (RetryError, RETRY), (DataDamaged, DAMAGED)):
        if isinstance(error, kind):
            return code
    return OTHER


def _show(error: PenstockError, *, as_json: bool) -> None:
    facts = {name: getattr(error, name) for name in ("operation", "object", "expected", "observed", "hint")}
    known = {name: _plain(value) for name, value in facts.items() if value is not None}
    if as_json:
        document = {"error": error.kind, "message": error.message, **known}
        click.echo(json.dumps(document, ensure_ascii=False), err=True)
        return
    click.echo(click.style("error: ", fg="red", bold=True) + error.message, err=True)
    for name, value in known.items():
        click.echo(click.style(f"  {name + ':':<11}", dim=True) + value, err=True)


def _plain(value: object) -> str:
    return ", ".join(f"{name} {fact}" for name, fact in value.items()) if isinstance(value, dict) else str(value)

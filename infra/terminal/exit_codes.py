"""The end of a failed command: the exit code, and one message with the remedy."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from .session import CommandSession, Interrupted, OutputFailed

if TYPE_CHECKING:
    from ...log.errors import PenstockError

OTHER, WRONG_CALL, RETRY, DAMAGED, REFUSED = 1, 2, 3, 4, 5
EXIT_CODES = {
    0: "all is well",
    OTHER: "it failed, a check found a problem, or with --exit-code nothing was found",
    WRONG_CALL: "the call, the configuration or the input is wrong",
    RETRY: "the same call may succeed later",
    DAMAGED: "stored data is damaged",
    REFUSED: "what was allowed before has been refused for minutes, by expired credentials for example",
    128 + signal.SIGINT: "ended by Ctrl-C",
    128 + signal.SIGPIPE: "the reader of its output had seen enough",
    128 + signal.SIGTERM: "ended by SIGTERM",
}
_STDOUT = 1
_OF_THE_LAKE = ("topic_not_found", "group_not_found")
"""Errors that often mean a wrong lake, so they name it."""


def report_error(error: BaseException, session: CommandSession) -> int:
    """Show an error on stderr. Returns the exit code."""
    if session.debug and not isinstance(error, SystemExit | Interrupted | click.exceptions.Exit):
        traceback.print_exception(error)
    if isinstance(error, BrokenPipeError):
        error = Interrupted(signal.SIGPIPE)
    match error:
        case SystemExit(code=code):
            return code if isinstance(code, int) else OTHER
        case Interrupted(exit_code=code):
            if code == 128 + signal.SIGPIPE:
                _abandon_output()
            return code
        case click.Abort():
            _tell("aborted", "Nothing was done.", as_json=session.as_json)
            return OTHER
        case click.ClickException():
            if session.as_json:
                _tell("usage", error.format_message(), as_json=True)
            else:
                error.show()
            return WRONG_CALL if isinstance(error, click.UsageError) else error.exit_code
        case OutputFailed():
            _abandon_output()
            _tell("output", str(error), as_json=session.as_json)
            return OTHER
    return _library_error(error, session)


def _abandon_output() -> None:
    """Discard standard output, so that the interpreter's last flush does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)


def _tell(kind: str, message: str, *, as_json: bool) -> None:
    click.echo(_json({"error": kind, "message": message}) if as_json else _lines(message), err=True)


def _json(document: Mapping[str, object]) -> str:
    from ...log.escapes import escaped_json  # imported here, as a command that ends well does not need it

    return escaped_json(json.dumps(document, ensure_ascii=False))


def _lines(text: str) -> str:
    """Foreign text for a terminal: further lines are indented, to differ from the command's own."""
    from ...log.escapes import escaped

    return "\n  ".join(map(escaped, text.split("\n")))


def _library_error(error: BaseException, session: CommandSession) -> int:
    from ...log.errors import InternalError, PenstockError

    if not isinstance(error, PenstockError):
        if isinstance(error, KeyboardInterrupt):
            return 128 + signal.SIGINT
        bug = InternalError("penstock failed in an unforeseen way; please report it", observed=f"{type(error).__name__}: {error}")
        bug.hint = None if session.debug else "run it again with --debug (before the command) for the traceback"
        error = bug
    show(error, as_json=session.as_json, lake=session.lake_shown if error.kind in _OF_THE_LAKE and session.url else None)
    return exit_code([error])


def exit_code(errors: Sequence[PenstockError]) -> int:
    """Damage counts most, then errors that need a change, then passing ones."""
    from ...log.errors import AccessLost, CallError, DataDamaged, RetryError

    for kind, code in ((DataDamaged, DAMAGED), (AccessLost, REFUSED), (CallError, WRONG_CALL), (RetryError, RETRY)):
        if any(isinstance(error, kind) for error in errors):
            return code
    return OTHER if errors else 0


def show(error: PenstockError, *, as_json: bool, lake: str | None = None) -> None:
    facts = {name: getattr(error, name) for name in ("operation", "object", "expected", "observed")}
    facts |= {"lake": lake, "hint": error.hint}
    known = {name: _plain(value) for name, value in facts.items() if value is not None}
    if error.hint is not None:
        from .wording import in_shell

        known["hint"] = in_shell(error.hint)
    if as_json:
        document = {"error": error.kind, "message": error.message, **known}
        click.echo(_json(document), err=True)
        return
    click.echo(click.style("error: ", fg="red", bold=True) + _lines(error.message), err=True)
    for name, value in known.items():
        click.echo(click.style(f"  {name + ':':<11}", dim=True) + _lines(value), err=True)


def _plain(value: object) -> str:
    return ", ".join(f"{name} {fact}" for name, fact in value.items()) if isinstance(value, dict) else str(value)

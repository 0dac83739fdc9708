"""`penstock doctor`."""

from __future__ import annotations

import click

from . import output
from .checks import Check, machine_checks, store_checks
from .endings import OTHER
from .session import Session, json_option

_COLOURS = {"ok": "green", "problem": "red", "note": "yellow"}


@click.command()
@click.argument("url", required=False)
@json_option
@click.pass_obj
def command(session: Session, url: str | None) -> int:
    """Check the store at URL (default: the lake) and this machine; for every problem, say what to do.

    Writes a few objects under .probe/ and .doctor/, and removes them. The exit code is 1 when there is a problem; notes are about
    what only some uses need.
    """
    checks = []
    for check in _all(url or session.lake_url):
        checks.append(check)
        _show(session, check)
    return OTHER if any(check.status == "problem" for check in checks) else 0


def _all(url: str) -> list[Check]:
    return [*store_checks(url), *machine_checks()]


def _show(session: Session, check: Check) -> None:
    if session.as_json:
        output.emit(output.fields(check))
        return
    status = click.style(f"{check.status:<8}", fg=_COLOURS[check.status])
    output.say(f"{status} {check.name:<20} {check.observed}")
    if check.fix:
        output.say(f"{'':<8} {'':<20} fix: {check.fix}")

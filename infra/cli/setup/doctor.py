"""`penstock doctor`."""

from __future__ import annotations

import click

from ...console import output
from ...console.endings import OTHER
from ...console.session import Session, command_options
from ...console.wording import in_shell
from .checks import Check, check_store, machine_checks

_COLOURS = {"ok": "green", "problem": "red", "note": "yellow"}


@click.command()
@click.argument("url", required=False)
@command_options
@click.pass_obj
def command(session: Session, url: str | None) -> int:
    """Check the store at URL (default: the lake) and this machine, and say what to do about every problem.

    Writes a few objects under .probe/ and .doctor/, and removes them. The exit code is 1 when there is a problem. Notes are about parts
    that only some uses need.
    """
    problems = 0

    def found(check: Check) -> None:
        nonlocal problems
        problems += check.status == "problem"
        _show(session, check)

    check_store(url or session.lake_url, found)
    for check in machine_checks():
        found(check)
    return OTHER if problems else 0


def _show(session: Session, check: Check) -> None:
    if session.as_json:
        output.emit(output.fields(check))
        return
    status = click.style(f"{check.status:<8}", fg=_COLOURS[check.status])
    output.say(f"{status} {check.name:<20} {check.observed}")
    if check.fix:
        output.say(f"{'':<8} {'':<20} fix: {in_shell(check.fix)}")

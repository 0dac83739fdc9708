"""What checks of gateways find, as they find it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from ...terminal import output
from ...terminal.session import CommandSession

if TYPE_CHECKING:
    from ....gateway.server.check_finding import CheckFinding


async def told(session: CommandSession, findings: AsyncIterator[CheckFinding]) -> bool:
    """Show each, and return whether all is well."""
    all_well = True
    async for found in findings:
        all_well = all_well and found.is_ok
        if session.as_json:
            output.emit({"check": found.name, "ok": found.is_ok, "observed": found.observed, "fix": found.fix or None})
            continue
        mark = click.style("ok     ", fg="green") if found.is_ok else click.style("problem", fg="red")
        output.say(f"{mark}  {found.name:<13} {output.printable(found.observed)}")
        if found.fix:
            output.say(f"{'':24}{found.fix}{'' if found.fix.endswith('?') else '.'}")
    return all_well

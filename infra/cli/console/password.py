"""`penstock console password`."""

from __future__ import annotations

from typing import TextIO

import click

from ...terminal import output
from ...terminal.session import CommandSession, json_option


@click.command()
@click.argument("name")
@click.option("--role", type=click.Choice(["viewer", "operator"]), required=True, help="viewer: may look; operator: may act, too.")
@click.option(
    "--password-from", type=click.File(encoding="utf-8"), help="Take the password from a file or - (stdin), and do not ask."
)
@json_option
@click.pass_obj
def password(session: CommandSession, name: str, role: str, password_from: TextIO | None) -> None:
    """Print a line for the console's password file: somebody's name, role, and the password as scrypt keeps it."""
    from ....log.runtime.runtime import Runtime
    from ...web.server.options import ConsoleRole
    from ...web.server.passwords import SALT_BYTES, line_of

    if password_from is None:
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = password_from.read().rstrip("\r\n")
    line = line_of(name, ConsoleRole(role), text, Runtime().random.randbytes(SALT_BYTES))
    if session.as_json:
        output.emit({"name": name, "role": role, "line": line})
    else:
        output.say(line)

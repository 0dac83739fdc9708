"""`penstock gateway rocketmq check`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TextIO

import click

from ....log.errors import MissingDependency, install_hint
from ...terminal.exit_codes import OTHER
from ...terminal.session import CommandSession, json_option
from .endpoints import endpoint_of
from .findings import told


@click.command()
@click.argument("place", metavar="HOST:PORT")
@click.option("--topic", help="Ask for the route to this topic, and connect to the places that it names.")
@click.option("--group", help="Announce a consumer of this group; otherwise a producer.")
@click.option("--namespace", default="", help="The namespace of both.")
@click.option("--send", is_flag=True, help="Send a message to --topic, and receive it in --group. Without it nothing is written.")
@click.option("--tls", is_flag=True, help="Connect by TLS.")
@click.option(
    "--tls-root", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Trust these certificates (PEM) alone."
)
@click.option("--access-key", default="", help="Sign as this principal.")
@click.option("--secret-file", type=click.File(encoding="utf-8"), help="Its secret, from a file or - (stdin).")
@json_option
@click.pass_obj
def check(
    session: CommandSession,
    place: str,
    topic: str | None,
    group: str | None,
    namespace: str,
    send: bool,
    tls: bool,
    tls_root: Path | None,
    access_key: str,
    secret_file: TextIO | None,
) -> int:
    """Check a gateway as a client would use it, without the lake. The exit code is 1 when a check finds a problem."""
    if send and (topic is None or group is None):
        raise click.UsageError("--send needs --topic and --group, which should be there for checks alone.")
    if bool(access_key) != (secret_file is not None):
        raise click.UsageError("--access-key and --secret-file go together.")
    try:
        from ....gateway.rocketmq.check import CheckTarget, GatewayChecker
        from ....log import Runtime
    except ImportError as error:
        raise MissingDependency(
            "the gateway needs gRPC", operation="gateway check", observed=str(error), hint=install_hint("gateway")
        ) from error
    target = CheckTarget(
        place=endpoint_of(place, "The place"),
        topic=topic,
        group=group,
        namespace=namespace,
        tls=tls or tls_root is not None,
        root=None if tls_root is None else tls_root.read_bytes(),
        access_key=access_key,
        secret="" if secret_file is None else secret_file.read().strip(),
    )
    return 0 if asyncio.run(told(session, GatewayChecker(target, Runtime()).run(send=send))) else OTHER

"""`penstock gateway kafka check`."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import TextIO

import click

from ....log.errors import MissingDependency, install_hint
from ...terminal.exit_codes import OTHER
from ...terminal.session import CommandSession, json_option
from .endpoints import endpoint_of
from .findings import told


@click.command("check")
@click.argument("place", metavar="HOST:PORT")
@click.option("--topic", help="Ask for this topic and its leaders, and fetch its last record.")
@click.option("--group", help="Ask for this group, and its coordinator for its members.")
@click.option("--send", is_flag=True, help="Send a record to --topic, and fetch it. Without it nothing is written.")
@click.option("--tls", is_flag=True, help="Connect by TLS.")
@click.option(
    "--tls-root", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Trust these certificates (PEM) alone."
)
@click.option("--access-key", default="", help="Prove to be this principal, by SCRAM-SHA-512.")
@click.option("--secret-file", type=click.File(encoding="utf-8"), help="Its secret, from a file or - (stdin).")
@json_option
@click.pass_obj
def kafka_check(
    session: CommandSession,
    place: str,
    topic: str | None,
    group: str | None,
    send: bool,
    tls: bool,
    tls_root: Path | None,
    access_key: str,
    secret_file: TextIO | None,
) -> int:
    """Check a gateway as a Kafka client would use it, without the lake: also each address that clients are told.

    The exit code is 1 when a check finds a problem.
    """
    if send and topic is None:
        raise click.UsageError("--send needs --topic, which should be there for checks alone.")
    if bool(access_key) != (secret_file is not None):
        raise click.UsageError("--access-key and --secret-file go together.")
    try:
        from ....gateway.kafka.check.checker import KafkaChecker, KafkaCheckTarget
        from ....log import Runtime
    except ImportError as error:
        raise MissingDependency(
            "the check needs Kafka's protocol", operation="gateway check", observed=str(error), hint=install_hint("kafka")
        ) from error
    target = KafkaCheckTarget(
        place=endpoint_of(place, "The place"),
        topic=topic,
        group=group,
        tls=ssl.create_default_context(cafile=tls_root) if tls or tls_root is not None else None,
        access_key=access_key,
        secret="" if secret_file is None else secret_file.read().strip(),
    )
    return 0 if asyncio.run(told(session, KafkaChecker(target, Runtime()).run(send=send))) else OTHER

"""`penstock infra`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ...terminal import output
from ...terminal.listing import CommandGroup
from ...terminal.session import CommandSession, command_options, group_options

if TYPE_CHECKING:
    from ...deploy.access import ProcessRole

_ROLES = ("reader", "producer", "transactions", "consumer", "gateway", "capture", "sync", "maintenance")


@click.group(cls=CommandGroup)
def command() -> None:
    """Files to run Penstock with (policies, Terraform, Docker, Kubernetes, Compose, Prometheus, Grafana), the coordination table, and S3 and
    DynamoDB on this machine.
    """


@command.command()
@click.argument("roles", nargs=-1, required=True, metavar="ROLE...", type=click.Choice(_ROLES))
@click.option("--topic", "topics", multiple=True, help="Only this topic; repeat it for more.")
@click.option("--group", "groups", multiple=True, help="Consumers: only this group's dead letters; repeat it for more.")
@click.option("--account", default="*", show_default=True, help="The AWS account of the DynamoDB table.")
@click.option("--kms-key", metavar="ARN", help="The key that the bucket's objects are encrypted with.")
@click.option("--principal", metavar="ARN", help="Make it a policy of the bucket, for this role or user.")
@click.option("--grants", is_flag=True, help="Print the SQL for a coordination table in PostgreSQL instead.")
@group_options
@click.pass_obj
def policy(session: CommandSession, /, roles: tuple[str, ...], grants: bool, **given: Any) -> None:  # noqa: ANN401 - as the library takes them
    """Print what IAM must allow a process that is ROLE, or several, on a lake on S3. The roles are reader, producer, transactions,
    consumer, gateway, capture, sync and maintenance.

    The policy allows what the code asks for, and nothing else. A consumer whose lake does upkeep in the background is also `maintenance`. A
    process that redrives dead letters is also `producer`. A gateway is also a `producer`, `transactions` and a `consumer`. Spark's ordered
    writes are a `producer`'s; its source is a `reader`'s, and with `group` a `consumer`'s. The folder of a sync's targets needs a policy of
    its own. A coordination table in PostgreSQL is granted by SQL, which --grants prints for the user in its URL.
    """
    from ...deploy.access import ProcessRole
    from ...deploy.policies import policy as made

    played = [ProcessRole(role) for role in roles]
    if grants:
        _say_grants(session, played)
        return
    document = made(played, session.lake_url, coordination=session.coordination, **given)
    output.say(json.dumps(document, indent=None if session.as_json else 2))
    if (session.coordination or "").startswith("postgresql:"):
        output.note("The coordination table needs GRANTs, too: the same with --grants prints them.")


def _say_grants(session: CommandSession, roles: list[ProcessRole]) -> None:
    from ...deploy.grants import grants

    statements = grants(roles, session.coordination)
    if session.as_json:
        output.emit({"statements": statements})
    else:
        output.say("\n".join(statements) or "-- These roles use no cells.")


def _add_writer(kind: str, text: str) -> None:
    @command.command(kind, help=f"{text} Files of these names are replaced.")
    @click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
    @command_options
    @click.pass_obj
    def write(session: CommandSession, folder: Path) -> None:
        from ...deploy.generated_files import KINDS

        _write(session, folder, KINDS[kind].files(), KINDS[kind].following)


for _kind, _text in {
    "terraform": "Write Terraform files to FOLDER: a policy for each role, and the DynamoDB table.",
    "kubernetes": "Write Kubernetes manifests to FOLDER: the lake, workers, upkeep, gateways, scaling on lag by KEDA, a PodMonitor.",
    "compose": "Write a Compose file to FOLDER: the same processes on one machine.",
    "prometheus": "Write Prometheus's alerts to FOLDER, each with what to do.",
    "grafana": "Write a Grafana dashboard to FOLDER, with all metrics.",
}.items():
    _add_writer(_kind, _text)


@command.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The wheel of a release, as `make release` builds it: it is laid beside the Dockerfile, which then knows its hash.",
)
@command_options
@click.pass_obj
def docker(session: CommandSession, folder: Path, wheel: Path | None) -> None:
    """Write a Dockerfile to FOLDER, for an image with Penstock from a wheel beside it. Files of these names are replaced."""
    from ...deploy.generated_files import KINDS
    from ...deploy.generated_files import docker as made

    if wheel is None:
        _write(session, folder, made(), KINDS["docker"].following)
        return
    content = wheel.read_bytes()
    files: dict[str, str | bytes] = {**made(wheel.name, hashlib.sha256(content).hexdigest()), wheel.name: content}
    _write(session, folder, files, "docker build -t penstock {folder}")


def _write(session: CommandSession, folder: Path, files: Mapping[str, str | bytes], following: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise click.ClickException(f"{error.filename} cannot be written: {error.strerror}.") from error
    if session.as_json:
        output.emit({"folder": str(folder), "files": sorted(files)})
    else:
        output.say(f"{', '.join(sorted(files))} in {folder}. Next: {following.format(folder=folder)}")


@command.group()
def table() -> None:
    """The table for cells in DynamoDB or PostgreSQL."""


@table.command()
@group_options
@click.pass_obj
def create(session: CommandSession) -> None:
    """Create the table and wait until it can be used; fine when it is there. In DynamoDB it is billed by request."""
    from ....coordinator.tables import create_table

    coordination = session.coordination
    if coordination is None:
        raise click.UsageError("Which table? Give --coordination dynamodb://… or postgresql://…, or set PENSTOCK_COORDINATION.")
    asyncio.run(create_table(coordination))
    if session.as_json:
        output.emit({"table": coordination, "ready": True})
    else:
        output.say(f"{coordination} can be used.")


@command.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port on 127.0.0.1; default: any that is free.")
@command_options
@click.pass_obj
def local(session: CommandSession, port: int) -> NoReturn:
    """Run S3 and DynamoDB on this machine, with a bucket and a table, until Ctrl-C.

    It prints the environment that makes Penstock use them. Their content is in memory, and gone at the end.
    """
    from ...local import local_servers

    with local_servers(port=port) as environment:
        if session.as_json:
            output.emit({"environment": environment})
        else:
            output.say("\n".join(f"export {name}={value}" for name, value in environment.items()))
            output.note("Ready. Set this in another shell; Ctrl-C ends it, with all that was stored.")
        while True:  # until a signal raises
            threading.Event().wait()

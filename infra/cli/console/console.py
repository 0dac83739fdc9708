"""`penstock console`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....log.errors import MissingDependency, install_hint
from ...terminal import output
from ...terminal.log_options import log_options
from ...terminal.session import CommandSession, group_options
from ...terminal.stopper import Stopper
from ...terminal.values import DurationParam
from .password import password

if TYPE_CHECKING:
    from ...web.server.options import ConsoleOptions

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(invoke_without_command=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8085, show_default=True, help="The port; 0: any free one.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen at. Another than loopback needs a log-in."
)
@click.option("--read-only", is_flag=True, help="Refuse every action, and open the lakes never to be written to.")
@click.option(
    "--config", "config", type=_FILE, help="Serve the lakes of this TOML file instead: [lakes.NAME] with url and coordination."
)
@click.option("--refresh", type=DurationParam(), help="How long a look at a lake is kept.  [default: 2s for folders, else 60s]")
@click.option(
    "--password-file", type=_FILE, help="Ask for a name and password of this file; `penstock console password` makes lines."
)
@click.option("--trust-header", metavar="HEADER", help="Believe a proxy in front, which names the viewer in this header.")
@click.option(
    "--operator",
    "operators",
    multiple=True,
    metavar="NAME",
    help="With --trust-header: an operator; * for all. Others are viewers.",
)
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="CIDR",
    help="A proxy in front, by address or network: its Forwarded or X-Forwarded-For says from where a call comes.  "
    "[default: with --trust-header 127.0.0.1 and ::1, else none]",
)
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name by which browsers reach a console on loopback."
)
@click.option("--tls-cert", type=_FILE, help="Serve TLS, by this certificate and its chain (PEM).")
@click.option("--tls-key", type=_FILE, help="Its private key (PEM).")
@log_options
@group_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:  # noqa: ANN401 - as click parsed them
    """Serve the console of a lake to browsers, until Ctrl-C or SIGTERM: what needs attention, topics, groups, and what to do.

    It keeps nothing itself, so any number may serve one lake. Actions are logged in the lake's topic penstock-audit.
    """
    if ctx.invoked_subcommand is not None:
        return
    session = ctx.ensure_object(CommandSession)
    try:
        from ...web.server.http_server import serve
    except ImportError as error:
        raise MissingDependency(
            "the console needs Starlette, Jinja2 and uvicorn",
            operation="console",
            observed=str(error),
            hint=install_hint("console"),
        ) from error
    from ....log.runtime.portal import Portal
    from ....log.runtime.runtime import Runtime

    options, stopper, portal = options_of(session, given), Stopper(), Portal()
    try:
        with session.signals.held(stopper.stop):
            portal.run(lambda: serve(options, Runtime(), stopper.attach(), started=lambda port: tell(session, options, port)))
    finally:
        portal.stop()


command.add_command(password)


def options_of(session: CommandSession, given: dict[str, Any]) -> ConsoleOptions:
    """The options, checked. Raises `InvalidArgument`, and a usage error for options that do not go together."""
    from ...web.lakes.lakes import DEFAULT_NAME, LakeOptions, lakes_of_file
    from ...web.server.login import check_header
    from ...web.server.options import ConsoleOptions, TrustedHeader

    refresh: timedelta | None = given["refresh"]
    if given["config"] is None:
        lake = LakeOptions(name=DEFAULT_NAME, url=session.lake_url, coordination=session.coordination, refresh=refresh)
        lakes: tuple[LakeOptions, ...] = (lake,)
    elif session.coordination is not None or (session.url is not None and not session.url_is_default):
        raise click.UsageError("--config names the lakes and their tables; leave --lake and --coordination out.")
    else:
        lakes = lakes_of_file(given["config"], refresh=refresh)
    trusted = None
    if given["trust_header"] is not None:
        trusted = TrustedHeader(header=check_header(given["trust_header"]), operators=frozenset(given["operators"]))
    elif given["operators"]:
        raise click.UsageError("--operator is about --trust-header; give that, too.")
    return ConsoleOptions(
        lakes=lakes,
        host=given["host"],
        port=given["port"],
        read_only=given["read_only"],
        hosts=tuple(given["hosts"]),
        password_file=given["password_file"],
        trusted=trusted,
        proxies=tuple(given["proxies"]),
        tls_cert=given["tls_cert"],
        tls_key=given["tls_key"],
    )


def tell(session: CommandSession, options: ConsoleOptions, port: int) -> None:
    """Say where the console is."""
    from ...web.server.options import is_loopback

    host = f"[{options.host}]" if ":" in options.host else options.host
    url = f"{'https' if options.is_tls else 'http'}://{host}:{port}/"
    if session.as_json:
        names = [one.name for one in options.lakes]
        output.emit({"url": url, "host": options.host, "port": port, "lakes": names, "read_only": options.read_only})
    else:
        if options.password_file is not None and not options.is_tls and not is_loopback(options.host):
            output.note("Passwords come in clear text: give --tls-cert and --tls-key, or let only a proxy with TLS reach it.")
        output.note(f"The console is at {url}{' (read-only)' if options.read_only else ''}. Ctrl-C or SIGTERM ends it.")

"""The options of each gateway's command: where it listens and for whom, principals and TLS, and what it tells of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...metrics import LOOPBACK
from ...pool.options import processes_options
from ...terminal.metrics_options import metrics_options
from ...terminal.session import F, options
from ...terminal.values import DurationParam
from .endpoints import endpoint_of

if TYPE_CHECKING:
    from ....gateway.server.options import AccessOptions, TlsOptions

_FILE = click.Path(dir_okay=False, path_type=Path)


def listening_options(port: int, *, topics: str) -> Callable[[F], F]:
    """The options that `options_of` reads. ``port``: the protocol's own; ``topics``: the kind that it makes."""
    return options(
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="The port to listen at; 0: any free one.",
        ),
        click.option("--host", default=LOOPBACK, show_default=True, help="The address to listen at; 0.0.0.0: all of the machine."),
        click.option(
            "--address",
            metavar="HOST",
            help="The host by which clients reach this gateway, if not --host. At 0.0.0.0 and :: clients must be told one.",
        ),
        click.option(
            "--create-topics", is_flag=True, help=f"Make a topic of type {topics} when a client names one that there is not."
        ),
        processes_options("The number of processes; several listen at the port together, and each at one of its own behind it."),
        click.option(
            "--drain",
            type=DurationParam(),
            default="5s",
            show_default=True,
            help="How long calls under way may last at the end.",
        ),
    )


create_groups_option = click.option(
    "--create-groups",
    type=click.Choice(["ORDERLY", "CONCURRENT"], case_sensitive=False),
    help="Make a consumer group of this order when a client names one that there is not.",
)
balanced_options = options(
    click.option(
        "--advertise",
        metavar="HOST:PORT",
        help="The one address of all gateways that clients are told, such as a load balancer's. Default: each gateway's own.",
    ),
    create_groups_option,
)
"""Options of protocols whose clients need not know each gateway, for `options_of` too."""

security_options = options(
    click.option(
        "--access-key-file",
        type=_FILE,
        envvar="PENSTOCK_ACCESS_KEY_FILE",
        show_envvar=True,
        help="Ask clients who they are, by the principals of `penstock access`; their secrets are sealed by this key file.",
    ),
    click.option(
        "--calls-per-second", type=click.FloatRange(min=0, min_open=True), help="The most of one principal at one process."
    ),
    click.option("--connections", type=click.IntRange(min=1), help="The most of one principal at one process."),
    click.option("--tls-cert", type=_FILE, help="Serve TLS too, by this certificate and its chain (PEM)."),
    click.option("--tls-key", type=_FILE, help="Its private key (PEM). Both files are read again when they change."),
    click.option(
        "--tls-port", type=click.IntRange(0, 65535), default=8443, show_default=True, help="The port with TLS; 0: any free."
    ),
    click.option("--tls-only", is_flag=True, help="Do not serve --port, which has no TLS."),
)
"""Principals and TLS, for `options_of` too."""

watching_options = options(
    metrics_options,
    click.option("--audit", is_flag=True, help="Log every call, with who made it; otherwise those that are refused or rare."),
)
"""``--metrics-port``, ``--metrics-host`` and ``--audit``."""


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `GatewayOptions`. Raises a usage error, and `InvalidArgument` for a key file that is none."""
    from ....coordinator import DeliveryOrder

    advertise, create_groups, seat = given.get("advertise"), given.get("create_groups"), given["worker"]
    return {
        **{name: given[name] for name in ("host", "port", "address", "create_topics", "drain", "audit")},
        "own_port": None if seat is None else given["port"] + seat.number,
        "advertise": None if advertise is None else endpoint_of(advertise, "--advertise"),
        "create_groups": None if create_groups is None else DeliveryOrder(create_groups),
        "access": access_of(given),
        "tls": tls_of(given),
        "plaintext": not given["tls_only"],
    }


def access_of(given: Mapping[str, Any]) -> AccessOptions | None:
    """The proofs that clients give of their names; None: not needed. Raises `InvalidArgument` for a bad key file."""
    from ....coordinator.access.sealing import SealingKeys
    from ....gateway.server.options import AccessOptions

    if given["access_key_file"] is None:
        only = {"calls_per_second": "--calls-per-second", "connections": "--connections"}
        if found := [option for name, option in only.items() if given[name]]:
            raise click.UsageError(f"{found[0]} is about principals; give --access-key-file, too.")
        return None
    return AccessOptions(
        keys=SealingKeys.load(given["access_key_file"]),
        calls_per_s=given["calls_per_second"],
        connections=given["connections"],
    )


def tls_of(given: Mapping[str, Any]) -> TlsOptions | None:
    """The port with TLS; None: there is none."""
    from ....gateway.server.options import TlsOptions

    certificate, key = given["tls_cert"], given["tls_key"]
    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    if certificate is None or key is None:
        if given["tls_only"]:
            raise click.UsageError("--tls-only needs --tls-cert and --tls-key.")
        return None
    port, seat = given["tls_port"], given["worker"]
    return TlsOptions(certificate=certificate, key=key, port=port, own_port=None if seat is None else port + seat.number)

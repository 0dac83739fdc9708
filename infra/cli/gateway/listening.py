"""The options of each gateway's command about where it listens, and for whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from ...terminal.session import F, options
from ...terminal.values import DurationParam
from .endpoints import endpoint_of
from .security import access_of, tls_of

_LOOPBACK = "127.0.0.1"


def listening_options(port: int) -> Callable[[F], F]:
    """The options that `options_of` reads. ``port``: the protocol's own."""
    return options(
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="The port to listen at; 0: any free one.",
        ),
        click.option("--host", default=_LOOPBACK, show_default=True, help="The address to listen at; 0.0.0.0: all of the machine."),
        click.option(
            "--advertise",
            metavar="HOST:PORT",
            help="The one address of all gateways that clients are told, such as a load balancer's. Default: each gateway's own.",
        ),
        click.option(
            "--address",
            metavar="HOST",
            help="The host by which clients reach this gateway, if not --host. At 0.0.0.0 and :: one must be given, or --advertise.",
        ),
        click.option(
            "--create-topics", is_flag=True, help="Make a topic of type NORMAL when a client names one that there is not."
        ),
        click.option(
            "--create-groups",
            type=click.Choice(["ORDERLY", "CONCURRENT"], case_sensitive=False),
            help="Make a consumer group of this order when a client names one that there is not.",
        ),
        click.option(
            "--processes",
            type=click.IntRange(1, 64),
            default=1,
            show_default=True,
            help="The number of processes; several listen at the port together, and each at one of its own behind it.",
        ),
        click.option("--own-port", type=click.IntRange(0, 65535), hidden=True, help="The second port of one of several processes."),
        click.option(
            "--drain",
            type=DurationParam(),
            default="5s",
            show_default=True,
            help="How long calls under way may last at the end.",
        ),
    )


def process_number(given: Mapping[str, Any]) -> int:
    """The number of this process among several; 0: the first, or alone."""
    return 0 if given["own_port"] is None else max(0, given["own_port"] - given["port"] - 1)


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `GatewayOptions`. Raises a usage error, and `InvalidArgument` for a key file that is none."""
    from ....coordinator import DeliveryOrder

    advertise, create_groups, own_port = given["advertise"], given["create_groups"], given["own_port"]
    return {
        **{name: given[name] for name in ("host", "port", "own_port", "address", "create_topics", "drain", "audit")},
        "advertise": None if advertise is None else endpoint_of(advertise, "--advertise"),
        "create_groups": None if create_groups is None else DeliveryOrder(create_groups),
        "access": access_of(given),
        "tls": tls_of(given, None if own_port is None else process_number(given)),
        "plaintext": not given["tls_only"],
    }

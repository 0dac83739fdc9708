"""The options of each gateway's command about principals and TLS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...terminal.session import options

if TYPE_CHECKING:
    from ....gateway.server.options import AccessOptions, TlsOptions

_FILE = click.Path(dir_okay=False, path_type=Path)


security_options = options(
    click.option(
        "--access-key-file",
        type=_FILE,
        envvar="PENSTOCK_ACCESS_KEY_FILE",
        show_envvar=True,
        help="Ask for signatures, by the principals of `penstock access`; their secrets are sealed by this key file.",
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
"""The options that `access_of` and `tls_of` read."""


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


def tls_of(given: Mapping[str, Any], at: int | None) -> TlsOptions | None:
    """The port with TLS; None: there is none. ``at`` is the number of this process among several that listen there."""
    from ....gateway.server.options import TlsOptions

    certificate, key = given["tls_cert"], given["tls_key"]
    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    if certificate is None or key is None:
        if given["tls_only"]:
            raise click.UsageError("--tls-only needs --tls-cert and --tls-key.")
        return None
    port = given["tls_port"]
    return TlsOptions(certificate=certificate, key=key, port=port, own_port=None if at is None else port + 1 + at)

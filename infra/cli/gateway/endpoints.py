"""Places on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ....gateway.server.options import Endpoint


def endpoint_of(text: str, option: str) -> Endpoint:
    """``HOST:PORT``, ``[::1]:8081``. Raises a usage error for anything else."""
    from ....gateway.server.options import Endpoint

    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise click.UsageError(f"{option} is HOST:PORT, not {text!r}.")
    return Endpoint(host.removeprefix("[").removesuffix("]"), int(port))

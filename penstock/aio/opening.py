"""Opening a lake on the running event loop."""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.coordinator import check_coordination
from penstock.log import InvalidArgument, ObjectStore, Runtime, open_store
from penstock.log.limits import REFUSAL_TIMEOUT, Duration, check_flag

from .lake import Lake


def connect(
    url: str | os.PathLike[str] | None = None,
    *,
    store: ObjectStore | None = None,
    read_only: bool = False,
    coordination: str | None = None,
    maintenance: bool = True,
    options: dict[str, str] | None = None,
    runtime: Runtime | None = None,
    refusal_timeout: Duration = REFUSAL_TIMEOUT,
) -> Lake:
    """Open a lake on the running event loop. The arguments are those of `penstock.connect`."""
    check_flag("read_only", read_only, operation="connect")
    check_flag("maintenance", maintenance, operation="connect")
    _check_kind("store", store, ObjectStore)
    _check_kind("runtime", runtime, Runtime)
    _check_kind("options", options, Mapping)
    if options is not None and not all(isinstance(part, str) for pair in options.items() for part in pair):
        raise InvalidArgument("options are texts by name", operation="connect", expected='such as {"region": "eu-west-1"}')
    runtime = runtime or Runtime()
    if store is None:
        store = open_store(url or "", runtime=runtime, options=options)
    elif url is not None or options is not None:
        raise InvalidArgument(
            "a store is given, so there is nothing for a URL or for options to say",
            operation="connect",
            expected="either a URL or a store",
            observed=f"both, and the URL is {os.fspath(url)}" if url is not None else "options beside a store",
        )
    check_coordination(coordination, store)
    return Lake(
        store,
        runtime=runtime,
        read_only=read_only,
        coordination=coordination,
        maintenance=maintenance,
        options=options,
        refusal_timeout=refusal_timeout,
    )


def _check_kind(name: str, given: object, kind: type) -> None:
    if given is not None and not isinstance(given, kind):
        raise InvalidArgument(
            f"{name} is of another kind", operation="connect", expected=kind.__name__, observed=type(given).__name__
        )

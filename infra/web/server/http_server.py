"""Serving the console by uvicorn."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

import uvicorn

from ....log.errors import InvalidArgument
from ....log.runtime.runtime import Runtime
from ..lakes.lakes import ServedLakes
from .app import KEY_BYTES, app_of, site_of
from .head_timeout import protocol_of
from .options import ConsoleOptions

DRAIN_S = 5
KEEP_ALIVE_S = 30
_CONNECTIONS_MAX = 2000


async def serve(options: ConsoleOptions, runtime: Runtime, stop: asyncio.Event, *, started: Callable[[int], None]) -> None:
    """Serve until ``stop`` is set. ``started`` gets the port once requests are taken."""
    listener = listen(options)
    try:
        lakes = ServedLakes.of(options.lakes, runtime, read_only=options.read_only)
        try:
            await _serve(options, lakes, runtime, listener, stop, started)
        finally:
            await lakes.close()
    finally:
        listener.close()


async def _serve(
    options: ConsoleOptions,
    lakes: ServedLakes,
    runtime: Runtime,
    listener: socket.socket,
    stop: asyncio.Event,
    started: Callable[[int], None],
) -> None:
    site = site_of(options, lakes, runtime, key=runtime.random.randbytes(KEY_BYTES))
    config = uvicorn.Config(
        app_of(site),
        http=protocol_of(options.trusted_proxies),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    load(config, options)
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        started(listener.getsockname()[1])  # who connects before the server has begun waits in the listener's queue
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        site.ending.set()
        server.should_exit = True
        stopping.cancel()
        await serving


def load(config: uvicorn.Config, options: ConsoleOptions) -> None:
    """Raises `InvalidArgument` for an invalid certificate or key."""
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgument(
            "the certificate and its key cannot be used",
            operation="console",
            object=f"{options.tls_cert}, {options.tls_key}",
            expected="PEM files that belong together",
            observed=str(error),
        ) from error


def listen(options: ConsoleOptions) -> socket.socket:
    """Raises `InvalidArgument` for an unavailable address."""
    host = options.host
    try:
        family = socket.getaddrinfo(host, options.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, options.port), family=family, backlog=1024)
    except OSError as error:
        raise InvalidArgument(
            "the console cannot listen there",
            operation="console",
            object=f"{host}:{options.port}",
            observed=error.strerror or str(error),
            hint="another process may have the port; --port 0 takes any free one",
        ) from error

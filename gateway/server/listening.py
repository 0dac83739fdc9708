"""The ports of one process."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from ...log.errors import InvalidArgument
from .options import Endpoint, GatewayOptions

_BACKLOG: Final = 1_024


class PortServer:
    """The ports that a gateway's options name: with TLS, without, or both; and where processes share one, each its own, too.

    The ports are 0 where there is none.
    """

    def __init__(self, options: GatewayOptions, tls: ssl.SSLContext | None, handshake_s: float) -> None:
        self.port = 0
        self.own_port = 0
        self.tls_port = 0
        self.own_tls_port = 0
        self._options = options
        self._tls = tls
        self._handshake_s = handshake_s
        self._listeners: list[asyncio.Server] = []

    async def listen(self, new_connection: Callable[[], asyncio.Protocol]) -> None:
        """Return once clients can connect. Raises `InvalidArgument` for an unavailable port."""
        options = self._options
        if options.plaintext:
            self.port = self.own_port = await self._listen(new_connection, options.port)
            if options.own_port is not None:
                self.own_port = await self._listen(new_connection, options.own_port)
        if options.tls is not None and self._tls is not None:
            self.tls_port = self.own_tls_port = await self._listen(new_connection, options.tls.port, self._tls)
            if options.tls.own_port is not None:
                self.own_tls_port = await self._listen(new_connection, options.tls.own_port, self._tls)

    def stop_listening(self) -> None:
        """Take no more connections."""
        for listener in self._listeners:
            listener.close()

    async def _listen(
        self, new_connection: Callable[[], asyncio.Protocol], port: int, context: ssl.SSLContext | None = None
    ) -> int:
        """The port, of the first address where the host has several."""
        loop, host = asyncio.get_running_loop(), self._options.host
        shares = self._options.own_port is not None
        handshake_s = None if context is None else self._handshake_s
        try:
            if host == "::" and socket.has_dualstack_ipv6():  # all addresses, not those of version 6 alone
                place = socket.create_server(
                    (host, port), family=socket.AF_INET6, backlog=_BACKLOG, reuse_port=shares, dualstack_ipv6=True
                )
                listener = await loop.create_server(
                    new_connection, sock=place, backlog=_BACKLOG, ssl=context, ssl_handshake_timeout=handshake_s
                )
            else:
                listener = await loop.create_server(
                    new_connection,
                    host,
                    port,
                    backlog=_BACKLOG,
                    reuse_port=shares or None,
                    ssl=context,
                    ssl_handshake_timeout=handshake_s,
                )
        except OSError as error:
            raise InvalidArgument(
                "the gateway cannot listen there",
                operation="start the gateway",
                object=str(Endpoint(host, port)),
                observed=str(error),
                hint="is another process using the port? choose another with --port, or another address with --host",
            ) from error
        self._listeners.append(listener)
        found: int = listener.sockets[0].getsockname()[1]
        return found

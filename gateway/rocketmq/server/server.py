"""The gRPC server of one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import grpc

from ....log.errors import InvalidArgument
from ....log.limits import MIB
from ...server.health import HealthService
from ...server.options import Endpoint, GatewayOptions
from ...server.tls import CertificatePair, ReloadedCertificate
from .calls import CallRunner, unknown
from .rpcs import SERVICE, Rpc

_ANSWER_BYTES_MAX = 130 * MIB
"""The largest answer, as of RocketMQ's proxy."""
STREAMS_OF_A_CONNECTION = 4_096
"""The limit of gRPC itself: further calls wait for the answers to earlier ones."""
_PENDING, _PENDING_MAX = 16_384, 32_768
"""The waiting calls of all connections. Beyond the first number gRPC ends some of them, and beyond the second all."""
_IDLE_MS = 120_000
"""A connection without calls is closed. SDKs send a heartbeat each 10 s."""
_PING_MS = 10_000
_TRANSPORT = (
    ("grpc.max_send_message_length", _ANSWER_BYTES_MAX),
    ("grpc.max_concurrent_streams", STREAMS_OF_A_CONNECTION),
    ("grpc.server.max_pending_requests", _PENDING),
    ("grpc.server.max_pending_requests_hard_limit", _PENDING_MAX),
    ("grpc.per_message_decompression", 0),  # a small frame may become a large one, before anybody knows whose it is
    ("grpc.max_connection_idle_ms", _IDLE_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", _PING_MS),
    ("grpc.http2.max_ping_strikes", 0),
)


class _Service(grpc.GenericRpcHandler):
    def __init__(self, calls: CallRunner, rpcs: Mapping[str, Rpc]) -> None:
        self._handlers = {f"/{SERVICE}/{name}": calls.handler(rpc) for name, rpc in rpcs.items()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        method = handler_call_details.method
        known = self._handlers.get(method)
        if known is None and method.startswith(f"/{SERVICE}/"):
            return grpc.stream_unary_rpc_method_handler(_unserved(method.rpartition("/")[2]))
        return known


def _unserved(name: str) -> Callable[[AsyncIterator[bytes], Any], Awaitable[bytes]]:
    async def answer(requests: AsyncIterator[bytes], context: Any) -> bytes:  # noqa: ANN401 - gRPC's
        return unknown(name)

    return answer


def _credentials(certificate: ReloadedCertificate) -> grpc.ServerCredentials:
    """Clients need no certificate: they sign their calls."""

    def changed() -> Any:  # noqa: ANN401 - gRPC takes None for "as before", and its stubs do not
        return None if (pair := certificate.changed()) is None else _configuration(pair)

    return grpc.dynamic_ssl_server_credentials(_configuration(certificate.first), changed, require_client_authentication=False)


def _configuration(pair: CertificatePair) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pair.key, pair.certificate)])


class RpcServer:
    """A port's RPCs, from `start` to `stop`."""

    def __init__(self, options: GatewayOptions, calls: CallRunner, rpcs: Mapping[str, Rpc]) -> None:
        self.health = HealthService()
        self._options = options
        transport = (
            *_TRANSPORT,
            # What is a little too large is answered with a status, and the rest ended by gRPC itself.
            ("grpc.max_receive_message_length", 2 * options.request_bytes_max),
            ("grpc.so_reuseport", int(options.own_port is not None)),
        )
        self._server = grpc.aio.server(options=transport)
        self._server.add_generic_rpc_handlers((_Service(calls, rpcs), self.health))
        self._tls = None if options.tls is None else ReloadedCertificate(options.tls)
        self.port = 0
        self.own_port = 0
        self.tls_port = 0
        """0: no port with TLS."""
        self.own_tls_port = 0

    async def start(self) -> None:
        """Return once clients can connect. Raises `InvalidArgument` for an unavailable port."""
        options = self._options
        if options.plaintext:
            self.port = self.own_port = self._listen(options.port)
            if options.own_port is not None:
                self.own_port = self._listen(options.own_port)
        if options.tls is not None and self._tls is not None:
            self.tls_port = self.own_tls_port = self._listen(options.tls.port, _credentials(self._tls))
            if options.tls.own_port is not None:
                self.own_tls_port = self._listen(options.tls.own_port, _credentials(self._tls))
        await self._server.start()
        self.health.is_ready = True

    def _listen(self, port: int, credentials: grpc.ServerCredentials | None = None) -> int:
        where = str(Endpoint(self._options.host, port))
        try:
            if credentials is not None:
                return self._server.add_secure_port(where, credentials)
            return self._server.add_insecure_port(where)
        except RuntimeError as error:
            raise InvalidArgument(
                "the gateway cannot listen there",
                operation="start the gateway",
                object=where,
                observed=str(error),
                hint="is another process using the port? choose another with --port, or another address with --host",
            ) from error

    async def stop(self) -> None:
        """Refuse new calls, and return when the others ended or their time is over."""
        self.health.is_ready = False
        await self._server.stop(self._options.drain.total_seconds())

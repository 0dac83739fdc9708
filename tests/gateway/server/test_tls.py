"""The port with TLS: beside the one without, and with a certificate that is renewed while the gateway runs."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from pathlib import Path

import grpc
import pytest

from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.options import RocketMQOptions
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.server.options import TlsOptions
from penstock.gateway.server.tls import ReloadedCertificate, handshake_text
from penstock.log.errors import InvalidArgument
from tests.gateway.certificates import write_certificate
from tests.gateway.stage import ask, gateway, route


def options(folder: Path, *, plaintext: bool = True) -> RocketMQOptions:
    return RocketMQOptions(
        port=0, plaintext=plaintext, tls=TlsOptions(certificate=folder / "cert.pem", key=folder / "key.pem", port=0)
    )


async def asked(port: int, trusted: bytes | None) -> pb.QueryRouteResponse:
    where = f"localhost:{port}"
    channel = (
        grpc.aio.insecure_channel(where)
        if trusted is None
        else grpc.aio.secure_channel(where, grpc.ssl_channel_credentials(trusted))
    )
    async with channel:
        answer: pb.QueryRouteResponse = await ask(channel, "QueryRoute", route())
        return answer


async def test_both_ports_answer(tmp_path: Path) -> None:
    trusted = write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with gateway(options(tmp_path)) as served:
        for port, by in ((served.server.tls_port, trusted), (served.port, None)):
            assert (await asked(port, by)).status.code == pb.OK
        with pytest.raises(grpc.aio.AioRpcError):
            await asyncio.wait_for(asked(served.server.tls_port, None), 30)


async def test_who_speaks_no_tls_at_its_port_is_told_in_the_log_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with gateway(options(tmp_path)) as served:
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.server.tls_port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(30):
                await reader.read()
            writer.close()
    lines = [one.message for one in caplog.records if one.levelno == logging.WARNING]
    assert [line[:40] for line in lines] == ["a client at the port with TLS does not s"]
    assert "HTTP_REQUEST" in lines[0]


def test_a_failed_handshake_is_told_by_its_reason() -> None:
    assert handshake_text(None) is None
    assert "may not trust the certificate" in (handshake_text("TLSV1_ALERT_UNKNOWN_CA") or "")
    assert "does not speak TLS" in (handshake_text("WRONG_VERSION_NUMBER") or "")


async def test_tls_alone(tmp_path: Path) -> None:
    trusted = write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with gateway(options(tmp_path, plaintext=False)) as served:
        assert served.port == 0
        assert (await asked(served.server.tls_port, trusted)).status.code == pb.OK


async def test_several_gateways_are_told_by_the_ports_that_a_client_uses(tmp_path: Path) -> None:
    trusted = write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with gateway(options(tmp_path)) as first, Gateway(first.lake, options(tmp_path, plaintext=False)) as second:
        ports = {first.port, first.server.tls_port, second.server.tls_port}
        assert len(ports) == 3
        for by, known in ((trusted, ports - {first.port}), (None, {first.port})):
            port = first.server.tls_port if by else first.port
            (told,) = {one.port for queue in (await asked(port, by)).message_queues for one in queue.broker.endpoints.addresses[:1]}
            assert told in known


def test_a_renewed_certificate_needs_no_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")

    async def main() -> None:
        async with gateway(options(tmp_path)) as served:
            port = served.server.tls_port
            assert (await asked(port, first)).status.code == pb.OK
            (tmp_path / "cert.pem").write_text("half of a change")
            assert (await asked(port, first)).status.code == pb.OK, "the former one stays while the files are no pair"
            second = write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
            assert (await asked(port, second)).status.code == pb.OK
            with pytest.raises(grpc.aio.AioRpcError):
                await asked(port, first)
            (tmp_path / "key.pem").unlink()
            assert (await asked(port, second)).status.code == pb.OK

    with caplog.at_level(logging.INFO, logger="penstock.gateway"):
        asyncio.run(main())
    assert "the former one stays" in caplog.text
    assert "the changed certificate" in caplog.text


async def test_http_2_is_chosen_in_the_handshake(tmp_path: Path) -> None:
    write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")

    def chosen(port: int) -> str | None:
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        context.set_alpn_protocols(["h2"])
        with (
            socket.create_connection(("localhost", port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            return secured.selected_alpn_protocol()

    async with gateway(options(tmp_path)) as served:
        assert await asyncio.to_thread(chosen, served.server.tls_port) == "h2"


def test_files_that_are_no_pair_are_refused_at_the_start(tmp_path: Path) -> None:
    tls = TlsOptions(certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    with pytest.raises(InvalidArgument, match="no certificate with its key"):
        ReloadedCertificate(tls)
    write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    ReloadedCertificate(tls)
    write_certificate(tmp_path / "other.pem", tmp_path / "key.pem")
    with pytest.raises(InvalidArgument, match="no certificate with its key"):
        ReloadedCertificate(tls)
    (tmp_path / "key.pem").write_text("no key")
    with pytest.raises(InvalidArgument, match="no certificate with its key"):
        ReloadedCertificate(tls)

"""RocketMQ's own unmodified SDKs at a gateway that asks for signatures: what they send is understood, and they understand what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from penstock import aio
from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.sealing import KEY_BYTES, SealingKeys, new_key
from tests.gateway.certificates import write_certificate
from tests.gateway.gateways import gateway
from tests.gateway.programs import ProgramError
from tests.gateway.sdk import JAVA, SDKS, Sdk, in_turns, sdk
from tests.lakes import read_all

pytestmark = [pytest.mark.processes, pytest.mark.slow]
KEY = new_key(bytes(KEY_BYTES))
SIGNED = {"access_key": "shop", "secret_key": "correct-horse-battery"}


def grant_shop(url: str) -> None:
    """Make the principal ``shop``, which may send to ``orders`` and nothing else."""

    async def main() -> None:
        async with aio.connect(url) as lake:
            access = lake.coordination.access
            if "shop" not in (await access.read()).principals:
                await access.add("shop", SIGNED["secret_key"], SealingKeys.parse(KEY, where="the test"))
                await access.grant("shop", [Grant(Verb.SEND, "orders")])

    asyncio.run(main())


@pytest.fixture(scope="module", params=in_turns(SDKS))
def client(request: pytest.FixtureRequest, lake: penstock.Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sdk]:
    language: str = request.param
    if not SDKS[language].exists():
        pytest.skip(f"`make sdks`, for Rust `make sdks-rust`, has not installed the SDK of {language}")
    lake.create_topic("orders", queues=1)
    lake.create_topic("secrets", queues=1)
    grant_shop(lake.url)
    folder = tmp_path_factory.mktemp(language)
    (folder / "key").write_text(KEY)
    with ExitStack() as stack:
        served = stack.enter_context(gateway(lake.url, folder / "gateway", "--access-key-file", str(folder / "key")))
        yield stack.enter_context(sdk(language, served.endpoints, folder))


def test_a_signed_client_does_what_it_is_granted(client: Sdk, lake: penstock.Lake) -> None:
    client.call("producer", name="signed", topics=["orders"], **SIGNED)
    client.call("send", name="signed", topic="orders", body=f"by {client.language}")
    assert f"by {client.language}".encode() in [one.body for one in read_all(lake, "orders")]
    with pytest.raises(ProgramError) as raised:
        client.call("send", name="signed", topic="secrets", body="no")
    assert raised.value.code in (40300, None)
    assert not read_all(lake, "secrets")


def test_a_wrong_secret_sends_nothing(client: Sdk, lake: penstock.Lake) -> None:
    before = len(read_all(lake, "orders"))

    def send_as_another() -> None:
        client.call("producer", name="wrong", topics=["orders"], access_key="shop", secret_key="wrong-horse-battery")
        client.call("send", name="wrong", topic="orders", body="no")

    with pytest.raises(ProgramError) as raised:
        send_as_another()
    assert raised.value.code in (40100, None)
    assert len(read_all(lake, "orders")) == before


def test_java_signs_over_tls_as_it_does_by_default(lake: penstock.Lake, tmp_path: Path) -> None:
    if not JAVA.exists():
        pytest.skip("`make sdks` has not installed the SDK of java")
    lake.create_topic("orders", queues=1)
    grant_shop(lake.url)
    (tmp_path / "key").write_text(KEY)
    write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    tls = ("--tls-only", "--tls-port", "0", "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with (
        gateway(lake.url, tmp_path / "gateway", "--access-key-file", str(tmp_path / "key"), *tls) as served,
        sdk("java", served.endpoints, tmp_path) as client,
    ):
        client.call("producer", name="tls", topics=["orders"], ssl=True, **SIGNED)
        client.call("send", name="tls", topic="orders", body="by TLS")
    assert b"by TLS" in [one.body for one in read_all(lake, "orders")]

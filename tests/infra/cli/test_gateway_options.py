"""The options of `penstock gateway rocketmq` about signatures and TLS, and the calls of both `check`s, as far as nothing is served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.coordinator.access.sealing import KEY_BYTES, new_key
from penstock.infra.cli.gateway.options import access_of, tls_of
from penstock.infra.pool.seat import Seat
from tests.infra.cli.conftest import Penstock

NOTHING = {
    "access_key_file": None,
    "calls_per_second": None,
    "connections": None,
    "tls_cert": None,
    "tls_key": None,
    "tls_port": 8443,
    "tls_only": False,
    "worker": None,
}


def test_without_options_everybody_may_do_everything_without_tls() -> None:
    assert access_of(NOTHING) is None
    assert tls_of(NOTHING) is None


def test_what_is_given_is_taken(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(new_key(bytes(KEY_BYTES)))
    given = {**NOTHING, "access_key_file": tmp_path / "key", "calls_per_second": 5.0, "connections": 3}
    access = access_of(given)
    assert access is not None
    assert (access.calls_per_s, access.connections) == (5.0, 3)
    by_tls = {**NOTHING, "tls_cert": Path("cert"), "tls_key": Path("key")}
    alone, second = tls_of(by_tls), tls_of({**by_tls, "worker": Seat(number=2, channel=0)})
    assert alone is not None
    assert second is not None
    assert (alone.port, alone.own_port, second.port, second.own_port) == (8443, None, 8443, 8445), "the second of several processes"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--connections", "3"], "--connections is about principals; give --access-key-file, too."),
        (["--calls-per-second", "3"], "--calls-per-second is about principals"),
        (["--utc-signatures"], "--utc-signatures is about principals"),
        (["--access-key-file", "absent"], "the key file cannot be read"),
        (["--tls-cert", "cert.pem"], "--tls-cert and --tls-key go together."),
        (["--tls-only"], "--tls-only needs --tls-cert and --tls-key."),
        (["--tls-cert", "absent.pem", "--tls-key", "absent.key", "--port", "0"], "this is no certificate with its key"),
        (["--advertise", "nowhere"], "--advertise is HOST:PORT, not 'nowhere'."),
        (["--host", "0.0.0.0"], "--address HOST, or for all gateways together --advertise HOST:PORT"),
        (["--host", "::", "--port", "0"], "clients cannot be told where this gateway is"),
        (["--host", "0.0.0.0", "--processes", "2"], "clients cannot be told where this gateway is"),
        (["--host", "0.0.0.0", "--address", "0.0.0.0"], "clients cannot be told where this gateway is"),
        (["--advertise", "[::]:80"], "clients cannot be told where this gateway is"),
        (["check", "nowhere"], "The place is HOST:PORT, not 'nowhere'."),
        (["check", "localhost:1", "--send"], "--send needs --topic and --group"),
        (["check", "localhost:1", "--access-key", "shop"], "--access-key and --secret-file go together."),
    ],
)
def test_wrong_calls(penstock: Penstock, args: list[str], said: str) -> None:
    assert said in " ".join(penstock("gateway", "rocketmq", *args, code=2).err.split())


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere"], "The place is HOST:PORT, not 'nowhere'."),
        (["localhost:1", "--send"], "--send needs --topic"),
        (["localhost:1", "--access-key", "shop"], "--access-key and --secret-file go together."),
    ],
)
def test_wrong_checks_of_kafkas_gateway(penstock: Penstock, args: list[str], said: str) -> None:
    assert said in " ".join(penstock("gateway", "kafka", "check", *args, code=2).err.split())


def test_a_check_where_nobody_is_ends_with_a_problem(penstock: Penstock) -> None:
    found = penstock("gateway", "kafka", "check", "localhost:1", "--json", code=1).out
    assert [(line["check"], line["ok"]) for line in map(json.loads, found.splitlines())] == [("connection", False)]

"""The calls of `penstock console`, as far as nothing is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.infra.cli.console.console import options_of, tell
from penstock.infra.terminal.session import CommandSession, Signals
from penstock.infra.web.lakes.lakes import lakes_of_file
from penstock.infra.web.server.passwords import parsed
from penstock.log.errors import InvalidArgument
from tests.infra.cli.conftest import Penstock, lake, penstock

__all__ = ["lake", "penstock"]

PASSWORD = "correct horse battery"
GIVEN = {
    "port": 8085,
    "host": "127.0.0.1",
    "read_only": False,
    "config": None,
    "refresh": None,
    "password_file": None,
    "trust_header": None,
    "operators": (),
    "proxies": (),
    "hosts": (),
    "tls_cert": None,
    "tls_key": None,
}


def test_a_proxy_s_header_comes_with_who_may_act() -> None:
    given = {**GIVEN, "trust_header": "X-User", "operators": ("ann",), "proxies": ("10.0.0.7",), "host": "0.0.0.0"}
    options = options_of(CommandSession(Signals(), url="memory://shop"), given)
    assert options.trusted is not None
    assert (options.trusted.header, options.trusted.operators) == ("X-User", frozenset({"ann"}))
    assert "10.0.0.7" in options.trusted_proxies
    assert "127.0.0.1" not in options.trusted_proxies
    here = options_of(CommandSession(Signals(), url="memory://shop"), {**GIVEN, "trust_header": "X-User"})
    assert "127.0.0.1" in here.trusted_proxies
    assert not options_of(CommandSession(Signals(), url="memory://shop"), GIVEN).trusted_proxies


@pytest.mark.parametrize(
    ("host", "tls", "warned"), [("0.0.0.0", None, True), ("127.0.0.1", None, False), ("0.0.0.0", "file", False)]
)
def test_passwords_in_clear_text_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str, tls: str | None, warned: bool
) -> None:
    files = None if tls is None else tmp_path / tls
    given = {**GIVEN, "host": host, "password_file": tmp_path / "passwords", "tls_cert": files, "tls_key": files}
    session = CommandSession(Signals(), url="memory://shop")
    tell(session, options_of(session, given), 8085)
    assert ("Passwords come in clear text" in capsys.readouterr().err) == warned


def test_a_line_of_the_password_file_is_printed(penstock: Penstock) -> None:
    line = penstock("console", "password", "ann", "--role", "operator", "--password-from", "-", stdin=f"{PASSWORD}\n").out
    (user,) = parsed(line, where="here").values()
    assert (user.name, user.role, user.hash.matches(PASSWORD), user.hash.matches("another one, too")) == (
        "ann",
        "operator",
        True,
        False,
    )
    assert PASSWORD not in line
    said = penstock("console", "password", "ann", "--role", "viewer", "--password-from", "-", stdin="short", code=2)
    assert "too short" in said.err


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("--host", "0.0.0.0"), "must know who they are"),
        (("--tls-cert", "cert.pem"), "go together"),
        (("--operator", "ann"), "give that, too"),
        (("--trust-header", "X User"), "no header's name"),
        (("--trust-header", "X-User", "--password-file", "passwords"), "two ways to log in"),
        (("--trusted-proxy", "10.0.0.1/33"), "takes addresses and networks"),
        (("--config", "lakes.toml", "--lake", "x"), "leave --lake and --coordination out"),
        (("--config", "no such file"), "cannot be read"),
        (("--refresh", "1ms"), "refresh is out of range"),
        (("--lake", "ftp://x"), "ftp"),
        (("--password-file", "no such file"), "cannot be read"),
    ],
)
def test_calls_that_must_not_be_are_refused_before_anything_is_served(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in penstock("console", "--port", "0", *call, code=2).err


def test_a_file_names_lakes(tmp_path: Path) -> None:
    path = tmp_path / "lakes.toml"
    path.write_text('[lakes.shop]\nurl = "s3://shop/prod"\ncoordination = "dynamodb://cells"\n[lakes.test]\nurl = "/srv/test"\n')
    shop, test = lakes_of_file(path)
    assert (shop.name, shop.url, shop.coordination, shop.looks_kept.total_seconds()) == (
        "shop",
        "s3://shop/prod",
        "dynamodb://cells",
        60,
    )
    assert (test.name, test.coordination, test.looks_kept.total_seconds()) == ("test", None, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[lakes]",
        "[lakes.a]",
        "[lakes.'a b']\nurl='x'",
        "[lakes.a]\nurl=1",
        "[lakes.a]\nurl='x'\nno=1",
        "[other.a]",
        "lakes = [",
    ],
)
def test_a_file_that_names_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lakes.toml"
    path.write_text(text)
    with pytest.raises(InvalidArgument):
        lakes_of_file(path)

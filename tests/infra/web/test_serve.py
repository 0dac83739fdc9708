"""`penstock console` as a process: it says where it is, serves, and ends in order."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.infra.cli import main
from penstock.infra.web.server import head_timeout
from penstock.infra.web.server.head_timeout import OF_ADDRESS_MAX
from tests.gateway.certificates import write_certificate
from tests.runner import cli_runner
from tests.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.processes]

MAIN = "from penstock.infra.cli import main; main(prog_name='penstock')"
IMPATIENT = f"import {head_timeout.__name__} as head_timeout; head_timeout.HEAD_S = 1.0; "
"""A console that gives the head of a request 1 s instead of 10."""
OPTIONS = ["console", "--json", "--port"]
END_S = 30.0


@contextmanager
def served(folder: Path, *options: str | Path, first: str = "") -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A console of the folder, and its line. ``first`` is run before it."""
    command = [sys.executable, "-c", first + MAIN, *OPTIONS, "0", "--lake", str(folder), *map(str, options)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


def test_a_console_ends_in_order_though_a_page_is_watched(folder: Path) -> None:
    with served(folder) as (process, said):
        assert (said["lakes"], said["read_only"], said["url"]) == (["lake"], False, f"http://127.0.0.1:{said['port']}/")
        with urllib.request.urlopen(f"{said['url']}api/l/lake/", timeout=END_S) as answer:
            assert json.load(answer)["topics"] == 2
        with urllib.request.urlopen(f"{said['url']}live/l/lake/", timeout=END_S) as events:
            assert events.readline() == b"retry: 2000\n"
            process.send_signal(signal.SIGTERM)
            assert b"event: values" in events.read()  # to its end
        _, errors = process.communicate(timeout=END_S)
        assert process.returncode == 128 + signal.SIGTERM
        assert "Traceback" not in errors


def test_who_asks_nothing_loses_the_connection(folder: Path) -> None:
    with served(folder, first=IMPATIENT) as (_, said):
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
            with socket.create_connection(("127.0.0.1", said["port"]), timeout=END_S) as caller:
                caller.sendall(sent)
                while caller.recv(1000):
                    pass


def test_one_address_does_not_take_all_connections(folder: Path) -> None:
    with served(folder) as (_, said), ExitStack() as ends:
        silent = [ends.enter_context(socket.create_connection(("127.0.0.1", said["port"]))) for _ in range(OF_ADDRESS_MAX + 20)]
        for one in silent[OF_ADDRESS_MAX:]:
            one.settimeout(END_S)
            with suppress(ConnectionResetError):
                assert one.recv(1) == b"", "it is one too many"
        with socket.create_connection(("127.0.0.1", said["port"]), timeout=END_S, source_address=("127.0.0.2", 0)) as other:
            other.sendall(b"GET /api/l/lake/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert other.recv(12) == b"HTTP/1.1 200"


def test_tls(folder: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    context = ssl.create_default_context(cadata=write_certificate(certificate, key).decode())
    with served(folder, "--tls-cert", certificate, "--tls-key", key) as (_, said):
        assert said["url"].startswith("https://")
        with urllib.request.urlopen(f"https://localhost:{said['port']}/l/lake/", context=context, timeout=END_S) as answer:
            assert f"__Host-penstock_session_{said['port']}=" in answer.headers["set-cookie"]


@pytest.mark.parametrize("taken", [True, False])
def test_a_call_that_cannot_be_served_says_why(folder: Path, tmp_path: Path, taken: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        broken = tmp_path / "cert.pem"
        broken.write_text("none")
        options = [str(other.getsockname()[1])] if taken else ["0", "--tls-cert", str(broken), "--tls-key", str(broken)]
        run = cli_runner().invoke(main, [*OPTIONS, *options, "--lake", str(folder)])
    assert run.exit_code == 2
    said = json.loads(run.stderr.splitlines()[-1])
    assert said["message"] == ("the console cannot listen there" if taken else "the certificate and its key cannot be used")

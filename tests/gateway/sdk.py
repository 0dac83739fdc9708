"""RocketMQ's official SDKs as processes: one program in five languages, driven by lines of JSON (`clients/commands.md`).

They are pointed at a gateway or at a real RocketMQ, and know no difference.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.programs import Program

_SDKS = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock") / "sdks"
_CLIENTS = Path(__file__).parent / "clients"


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


GO = _SDKS / f"go-5.1.3-{_digest(*(_CLIENTS / 'go' / name for name in ('client.go', 'go.mod', 'go.sum')))}"
"""The client program, compiled with the SDK by `make sdks`."""
JAVA = _SDKS / "java-5.2.0"
NODE = _SDKS / "node-1.0.8"
PYTHON = _SDKS / "python-5.1.2"
RUST = _SDKS / f"rust-5.0.0-{_digest(_CLIENTS / 'rust' / 'Cargo.toml', _CLIENTS / 'rust' / 'src' / 'main.rs')}"
"""The client program, compiled with the SDK by `make sdks-rust`."""
PUSHING = {"go": GO, "java": JAVA, "node": NODE, "python": PYTHON}
"""The SDKs that have all kinds of clients."""
SDKS = {**PUSHING, "rust": RUST}
THOROUGH = ("go", "node")
"""The SDKs whose tests one by one are left to `make test-all`; where all SDKs play at once they play too."""


def in_turns(languages: Iterable[str]) -> list[Any]:
    """The parameters of tests that each SDK plays by itself."""
    return [pytest.param(one, marks=pytest.mark.thorough if one in THOROUGH else ()) for one in languages]


class Sdk(Program):
    """A running client program of an SDK."""

    def __init__(self, language: str, command: list[str], folder: Path) -> None:
        self.language = language
        environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(PYTHON), "PYTHONWARNINGS": "ignore"}
        environment["rocketmq.client.logRoot"] = str(folder / "logs")  # Go's, which else writes into the root's folder
        super().__init__(language, command, folder, environment)


@contextlib.contextmanager
def sdk(language: str, endpoints: str, folder: Path) -> Iterator[Sdk]:
    """The client program in a language (``go``, ``java``, ``node``, ``python`` or ``rust``), for as long as the block."""
    folder.mkdir(parents=True, exist_ok=True)
    running = Sdk(language, _command(language, endpoints), folder)
    try:
        yield running
    finally:
        running.end()


def _command(language: str, endpoints: str) -> list[str]:
    if language == "java":
        class_path = os.pathsep.join([str(JAVA / "*"), str(_compiled())])
        # One core for its compiler and collector: the tests' machines are small, and the programs short.
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m"]
        return ["java", *flags, "-cp", class_path, "Client", endpoints]
    if language == "go":
        return [str(GO / "client"), endpoints]
    if language == "rust":
        return [str(RUST / "client"), endpoints]
    if language == "node":
        return ["node", str(_CLIENTS / "client.mjs"), endpoints, str(NODE)]
    return [sys.executable, "-S", str(_CLIENTS / "client.py"), endpoints]


def _compiled() -> Path:
    """The classes of Client.java, compiled once for each version of it."""
    source = _CLIENTS / "Client.java"
    target = _SDKS / f"classes-{_digest(source)}"
    if not target.exists():
        scratch = tempfile.mkdtemp(dir=_SDKS)
        subprocess.run(["javac", "-cp", str(JAVA / "*"), "-d", scratch, str(source)], check=True)
        try:
            os.rename(scratch, target)
        except OSError:  # another process was quicker
            shutil.rmtree(scratch)
    return target

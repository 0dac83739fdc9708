"""`penstock gateway` as a process on a free port of loopback, for as long as a `with` block."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.gateway.rocketmq.clients import settings
from penstock.gateway.rocketmq.consumers import receive_parameters

_MAIN = "from penstock.infra.cli import main; main(prog_name='penstock')"
_IN_A_HURRY = (
    f"import datetime, {settings.__name__} as settings, {receive_parameters.__name__} as received; "
    "settings.LONG_POLL = received.POLL_MAX = datetime.timedelta(seconds=2); "
    "received.INVISIBLE_DURATION = datetime.timedelta(seconds=20); "
)
"""Consumers poll for 2 s instead of 20, which their end waits for; what did not reach them comes again in 20 s instead of 60."""


@dataclass(frozen=True)
class RunningGateway:
    """A gateway that clients can connect to."""

    endpoints: str
    process: subprocess.Popen[str]

    def kill(self) -> None:
        """SIGKILL: it says goodbye to nobody."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def gateway(
    lake: str, folder: Path, *options: str, protocol: str = "rocketmq", in_a_hurry: bool = False
) -> Iterator[RunningGateway]:
    """A gateway of a lake; what it logs is in the folder. ``in_a_hurry``: with shorter durations for push consumers."""
    folder.mkdir(parents=True, exist_ok=True)
    main = f"{_IN_A_HURRY if in_a_hurry else ''}{_MAIN}"
    command = [sys.executable, "-c", main, "--lake", lake, "--json", "gateway", protocol, "--port", "0", *options]
    with (folder / "gateway.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the gateway did not start: {(folder / 'gateway.log').read_text()}")
            where = json.loads(line)
            yield RunningGateway(f"{where['host']}:{where['port'] or where['tls_port']}", process)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()

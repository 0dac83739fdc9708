"""`penstock gateway` as a process on a free port of loopback, for as long as a `with` block."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMMAND = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')"]


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
def gateway(lake: str, folder: Path, *options: str) -> Iterator[RunningGateway]:
    """A gateway of a lake; what it logs is in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [*_COMMAND, "--lake", lake, "--json", "gateway", "--port", "0", *options]
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

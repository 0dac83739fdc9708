"""Processes that measure, and print a JSON line whenever they begin or have measured something."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.run import OutOfTime, StepFailed

_SAID_CHARACTERS = 1_500


def documents(command: Sequence[str], *, left_s: float | None, folder: Path) -> Iterator[dict[str, Any]]:
    """The JSON lines of a process, as it prints them. Raises `OutOfTime` where it takes longer than ``left_s``, and `StepFailed` with the end
    of what it wrote to stderr where it fails. Its temporary files lie in ``folder``. It has ended when the iterator has, or is
    closed.
    """
    if left_s is not None and left_s <= 0:
        raise OutOfTime
    environment = {**os.environ, "TMPDIR": str(folder)}
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL, text=True, env=environment
        )
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(left_s, end) if left_s is not None else None
        if timer is not None:
            timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
            process.wait()
        finally:
            if timer is not None:
                timer.cancel()
            process.kill()
            process.communicate()
        if late.is_set():
            raise OutOfTime
        if process.returncode:
            stderr.seek(0)
            said = stderr.read().decode(errors="replace").strip()[-_SAID_CHARACTERS:]
            raise StepFailed(f"its process ended with exit code {process.returncode}:\n{said}")

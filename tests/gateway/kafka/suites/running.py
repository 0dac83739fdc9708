"""Tests of a suite as processes, each for as long as it may take."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SUITES = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock") / "kafka-suites"
"""What `infra/scripts/setup_kafka_suites.sh` builds."""

KAFKA_VERSION = "4.2.0"
"""The version that tests take a gateway for."""


@dataclass(frozen=True)
class Ended:
    """A process that has ended, or was killed when its time was over."""

    code: int | None
    """None: it was killed."""
    text: str
    took_s: float


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float) -> Ended:
    begun_s = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        text, _ = process.communicate(timeout=timeout_s)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
        code = None
    return Ended(code, text, time.monotonic() - begun_s)

"""Running `penstock` in this process, on a lake in a folder of the test's own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.infra.cli import main
from tests.runner import cli_runner


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The JSON lines of the output."""
        return [json.loads(line) for line in self.out.splitlines()]


Penstock = Callable[..., Outcome]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def penstock(lake: Path, monkeypatch: pytest.MonkeyPatch) -> Penstock:
    """Call it with arguments; ``code`` is the exit code expected, ``stdin`` what is piped in."""
    monkeypatch.setenv("PENSTOCK_LAKE", str(lake))
    monkeypatch.setenv("COLUMNS", "150")

    def call(*args: str | Path, code: int = 0, stdin: bytes | str | None = None) -> Outcome:
        result = cli_runner().invoke(main, [os.fspath(arg) for arg in args], input=stdin)
        outcome = Outcome(result.exit_code, result.stdout, result.stderr)
        assert outcome.code == code, f"{args}: {outcome}"
        assert "Traceback" not in outcome.err
        return outcome

    return call

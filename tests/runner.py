"""Runs commands in this process."""

from __future__ import annotations

from inspect import signature
from typing import Any

from click.testing import CliRunner

from penstock.infra.cli import main


def cli_runner() -> CliRunner:
    """A runner that keeps what a command says of errors apart, as all do from Click 8.2 on."""
    apart: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    return CliRunner(**apart)


def printed(*words: str, code: int = 0) -> str:
    """What `penstock` prints for these words, which ends with this exit code."""
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output

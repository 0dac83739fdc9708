"""Runs commands in this process."""

from __future__ import annotations

from inspect import signature
from typing import Any

from click.testing import CliRunner


def cli_runner() -> CliRunner:
    """A runner that keeps what a command says of errors apart, as all do from Click 8.2 on."""
    apart: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    return CliRunner(**apart)

"""The examples of docs/cli.md run, its programs too, and print what the page says; ``…`` stands for anything, alone on a line for any lines."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.infra.cli.main import COMMANDS, main
from tests.tree import ROOT

PAGE = ROOT / "docs" / "cli.md"


@dataclass(frozen=True)
class Example:
    command: str
    expected: list[str]
    is_program: bool = False

    @property
    def code(self) -> int:
        found = re.search(r"# exit (\d+)$", self.command)
        return int(found[1]) if found else 0

    @property
    def pattern(self) -> str:
        lines = [".*(?:\n.*)*?" if line == "…" else re.escape(line).replace("…", ".*") for line in self.expected]
        return "\n".join(lines)


def examples() -> list[Example]:
    found = []
    for language, block in re.findall(r"^```(console|python)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if language == "python":
            found.append(Example(block, [], is_program=True))
            continue
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *expected = example.splitlines()
            found.append(Example(command, expected))
    return found


def test_examples_run_and_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `penstock` runs in this process, as 30 of their own would take long; what stands before a pipe runs in a shell.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")
    for example in examples():
        if example.is_program:
            exec(compile(example.command, PAGE.name, "exec"), {})
            continue
        before, found, call = example.command.partition("penstock ")
        if before.startswith("export "):
            name, value = example.command.removeprefix("export ").split("=", 1)
            said = subprocess.run(["bash", "-c", f"printf %s {value}"], check=True, capture_output=True, text=True).stdout
            monkeypatch.setenv(name, said)
            continue
        shell = example.command if not found else before.rstrip("| ")
        printed = subprocess.run(["bash", "-c", shell], check=True, capture_output=True).stdout
        if not found:
            continue
        words, _, file = call.partition("  #")[0].partition(" > ")
        result = CliRunner().invoke(main, shlex.split(os.path.expandvars(words)), input=printed)
        assert result.exit_code == example.code, f"{example.command}\n{result.output}"
        if file:
            Path(file).write_text(result.stdout)
        elif example.expected:
            assert re.fullmatch(example.pattern, result.output.rstrip("\n")), f"{example.command} printed:\n{result.output}"


def test_the_page_knows_every_command() -> None:
    commands = " ".join(example.command for example in examples())
    assert not [name for name in COMMANDS if f"penstock {name} " not in commands + " "]

"""The examples of docs/cli.md run, its programs too, and print what the page says."""

from __future__ import annotations

from pathlib import Path

from penstock.infra.cli.main import COMMANDS
from tests.pages import Run, blocks, commands
from tests.tree import ROOT

PAGE = ROOT / "docs" / "cli.md"


def test_examples_run_and_print_what_the_page_says(tmp_path: Path) -> None:
    with Run(PAGE, tmp_path) as run:
        run.all()


def test_the_page_knows_every_command() -> None:
    shown = " ".join(command.text for block in blocks(PAGE) if block.language == "console" for command in commands(block))
    assert not [name for name in COMMANDS if f"penstock {name} " not in shown + " "]

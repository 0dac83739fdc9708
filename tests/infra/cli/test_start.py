"""A command loads only what it needs: help, completion and small commands answer at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.tree import ROOT

HEAVY = {
    "boto3",
    "botocore",
    "deltalake",
    "fsspec",
    "jinja2",
    "mcp",
    "numpy",
    "obstore",
    "pandas",
    "psycopg",
    "pyarrow",
    "pyspark",
    "starlette",
    "uvicorn",
    "penstock.aio",
    "penstock.blocking",
    "penstock.consumers.consumer",
    "penstock.coordinator.coordination",
    "penstock.log.lake",
}
"""Each takes a tenth of a second of processor time or more, or brings what does."""

LOADED = "import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
CALL = LOADED + "from penstock.infra.cli import main; main(prog_name='penstock')"
EVERY_COMMAND = (
    LOADED
    + """
import click
from penstock.infra.cli import main

def load(command, ctx):
    with ctx:
        command.get_help(ctx)
        for name in command.list_commands(ctx) if isinstance(command, click.Group) else ():
            one = command.get_command(ctx, name)
            load(one, click.Context(one, parent=ctx, info_name=name))

load(main, click.Context(main, info_name="penstock"))
"""
)


def loaded_by(program: str, words: Sequence[str] = (), **environment: str) -> set[str]:
    """The modules that a program has loaded when it ends."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK")} | environment
    run = subprocess.run([sys.executable, "-c", program, *words], cwd=ROOT, check=True, capture_output=True, text=True, env=env)
    return set(json.loads(run.stderr.splitlines()[-1]))


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "penstock"}


def test_the_help_of_every_command_loads_nothing_heavy() -> None:
    loaded = loaded_by(EVERY_COMMAND)
    assert not loaded & {*HEAVY, "rich"}
    assert {"penstock.infra.cli.lake.topics", "penstock.infra.cli.changes.verify_sync"} <= loaded
    # A command has modules of its own. That of a sync is made of the sync's options, whose checks know the types of change data.
    library = {name for name in ours(loaded) if not name.startswith(("penstock.infra", "penstock.cdc"))}
    assert len(library) <= 50
    assert not {
        name for name in ours(loaded) if name.startswith(("penstock.cdc.fold", "penstock.cdc.delta", "penstock.cdc.sync.run"))
    }


def test_the_programs_own_help_and_that_of_a_small_command_load_no_event_loop() -> None:
    for words in (["--help"], ["read", "--help"], ["group", "--help"]):
        assert "asyncio" not in loaded_by(CALL, words)


def test_listing_the_topics_of_a_folder_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = loaded_by(CALL, ["topic", "list", "--lake", str(tmp_path / "lake")])
    assert not loaded & HEAVY
    assert len(ours(loaded)) <= 46

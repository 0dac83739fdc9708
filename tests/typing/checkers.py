"""What type checkers find in programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.tree import ROOT


class Finding(NamedTuple):
    """One line, and what a checker says of it."""

    file: Path
    line: int
    text: str


def by_mypy(programs: Sequence[Path], folder: Path) -> list[Finding]:
    """Strict, with the cache of `make types`. ``folder`` is free for files."""
    said = _said("mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty", *map(str, programs))
    found = re.findall(r"^(.+?):(\d+): error: (.+)$", said, re.MULTILINE)
    assert found or "Success: no issues found" in said, said
    # What the cache has of a program that has not changed since is told at the path where it was then.
    given = {program.name: program for program in programs}
    return [Finding(given.get(Path(file).name, (ROOT / file).resolve()), int(line), text) for file, line, text in found]


def by_pyright(programs: Sequence[Path], folder: Path) -> list[Finding]:
    """Strict, but for what pyarrow, which has no types, leaves unknown. ``folder`` is free for files."""
    settings = {
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": False,
        "extraPaths": [str(ROOT)],
        "include": list(map(str, programs)),
        "reportMissingTypeStubs": False,
        **dict.fromkeys(_UNKNOWN, False),
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    said = json.loads(_said("basedpyright", "--project", str(folder), "--pythonpath", sys.executable, "--outputjson"))
    assert said["summary"]["filesAnalyzed"] == len(programs), said["summary"]
    return [
        Finding(Path(one["file"]).resolve(), one["range"]["start"]["line"] + 1, one["message"])
        for one in said["generalDiagnostics"]
    ]


_UNKNOWN = [f"reportUnknown{what}Type" for what in ("Argument", "Lambda", "Member", "Parameter", "Variable")]
CHECKERS: dict[str, Callable[[Sequence[Path], Path], list[Finding]]] = {"mypy": by_mypy, "pyright": by_pyright}


def _said(*command: str) -> str:
    program = Path(sys.executable).with_name(command[0])
    environment = {"MYPY_CACHE_DIR": str(ROOT / ".mypy_cache"), **os.environ}
    ran = subprocess.run([program, *command[1:]], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return ran.stdout

#!/usr/bin/env python3
"""Writes the indexes of the API's reference anew, `make reference`: each name with the first sentence of its docstring.

The site makes the pages from docstrings (`make docs`); a clone has the index.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

PAGES = ("api.md", "aio.md")
HEADING = "## All names"
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


def indexed(page: str) -> str:
    """The page with its index as the code has it."""
    above = page.partition(HEADING)[0].rstrip()
    rows = [f"| `{name}` | {summary(name)} |" for name in re.findall(r"^::: ([\w.]+)$", above, re.MULTILINE)]
    return "\n".join((above, "", HEADING, "", "| name | what it is |", "| --- | --- |", *rows, ""))


def summary(dotted: str) -> str:
    """The first sentence of a name's docstring, or what an alias stands for."""
    module, _, name = dotted.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    text = inspect.getdoc(found) if inspect.isclass(found) or inspect.isroutine(found) else None
    if text is None:
        return f"another name for `{found}`".replace("|", "\\|")
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:?]) (?=[A-Z`])", paragraph)[0].rstrip(":.")
    return sentence.replace("|", "\\|").replace("``", "`")


def main() -> None:
    for name in PAGES:
        page = FOLDER / name
        page.write_text(indexed(page.read_text()))


if __name__ == "__main__":
    sys.exit(main())

"""The repository's own files, for the tests that look at them."""

from __future__ import annotations

import ast
import functools
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CONFIG: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAPPING: dict[str, str] = CONFIG["tool"]["setuptools"]["package-dir"]
DOOR = MAPPING["penstock"]
AREAS = {folder for name, folder in MAPPING.items() if name != "penstock"}


@functools.cache
def files() -> tuple[Path, ...]:
    """Every file that is tracked, or would be, links left out."""
    listed = subprocess.check_output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
    paths = (ROOT / name for name in listed.decode().split("\0") if name)
    return tuple(sorted({path for path in paths if path.is_file() and not path.is_symlink()}))


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """The Python files below the folders (all of them when none is named), as (path from the root, syntax tree)."""
    for path in files():
        if path.suffix == ".py" and (not folders or path.relative_to(ROOT).parts[0] in folders):
            yield str(path.relative_to(ROOT)), _parsed(path)


@functools.cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def dotted(node: ast.expr) -> str:
    """A name as it is written, such as ``time.sleep``; empty for what is no dotted name."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, name):
            return f"{owner}.{name}" if (owner := dotted(value)) else ""
    return ""


def absolute_imports(tree: ast.Module) -> Iterator[str]:
    """The modules that a file imports by their full names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""

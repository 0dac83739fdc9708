"""How thorough a run of the tests is: `make test` fits into its minutes, `make test-all` (PENSTOCK_TESTS=all) leaves nothing out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

THOROUGH = os.environ.get("PENSTOCK_TESTS") == "all"
"""Whether nothing is left out. Only then a seed that notices a mutant is also played with every guard, as sweeps are in each run."""


def examples(count: int) -> int:
    """The number of examples of a property: ``count`` in a thorough run, a quarter of it, but at least 10, otherwise."""
    return count if THOROUGH else max(10, count // 4)


def thoroughly(everything: T, otherwise: T) -> T:
    """``everything`` in a thorough run, such as all seeds of a sweep; else what is enough to see that it works."""
    return everything if THOROUGH else otherwise


def unless_built(server: Path) -> list[pytest.MarkDecorator]:
    """The marks of a race on moto, which takes seconds of the processor: the real server, where it is built, stands for it."""
    return [pytest.mark.thorough] if server.exists() else []

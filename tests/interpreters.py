"""What a run starts its processes with: this Python, or in turns those of several versions of Penstock."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeAlias

Interpreters: TypeAlias = Sequence[Sequence[str]]
"""The words before the arguments of a Python, for each version."""
OWN: Interpreters = ((sys.executable,),)


def interpreter(of: Interpreters, place: int, start: int) -> list[str]:
    """The words for the ``start``-th process, from 0, of a numbered place: neighbours begin with different versions, and each start is
    another version than the one before.
    """
    return [*of[(place + start) % len(of)]]

"""Changes of cells that wait for a table's next transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy
from typing import NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from ...log.errors import PenstockError
from ...log.stores.protocol import Conflict
from .protocol import CellVersion

_TOGETHER_MAX = 64


class CellWrite(NamedTuple):
    """A put of a cell."""

    key: str
    version: int
    data: bytes
    expected: int | None
    """The version that it replaces; None for a missing cell."""


class Deletion(NamedTuple):
    """A removal of a cell."""

    key: str
    expected: int


Outcome: TypeAlias = bool | PenstockError
"""Whether a cell changed, or the error that leaves this unknown."""


class Change(Struct, eq=False):
    """A change that somebody waits for."""

    wanted: CellWrite | Deletion
    told: Callable[[Outcome], None]
    """Hears the outcome once."""


C = TypeVar("C", bound=Change)


def take_together(waiting: deque[C]) -> list[C]:
    """Take those that the next transaction carries out: puts of different cells, or one deletion."""
    if len(waiting) == 1:
        return [waiting.popleft()]
    together: dict[str, C] = {}
    for change in waiting:
        if isinstance(change.wanted, CellWrite) or not together:
            together.setdefault(change.wanted.key, change)
        if isinstance(change.wanted, Deletion) or len(together) == _TOGETHER_MAX:
            break
    for change in together.values():
        waiting.remove(change)
    return list(together.values())


def error_of(operation: str, expected: CellVersion | None, wanted: CellWrite | Deletion, outcome: Outcome) -> PenstockError:
    """What the caller of an operation gets that was not carried out."""
    if isinstance(outcome, PenstockError):
        error = copy(outcome)  # all changes of one transaction share it
        error.operation, error.__cause__ = operation, outcome
        return error
    return Conflict(
        "the cell is not as expected",
        operation=operation,
        object=wanted.key,
        expected=expected.token if expected else "no cell",
    )

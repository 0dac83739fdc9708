"""What checks of a gateway find, whatever protocol they speak."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of one check."""

    name: str
    is_ok: bool
    observed: str
    fix: str = ""


class CheckFailed(Exception):
    """A check finds a problem."""

    def __init__(self, observed: str, fix: str = "") -> None:
        super().__init__(observed)
        self.observed = observed
        self.fix = fix

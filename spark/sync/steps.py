"""The steps of a batch, as tests see them: they end the process before, in or after each."""

from __future__ import annotations

from typing import Literal, Protocol

Moment = Literal["before", "in", "after"]
STEPS = ("read", "fold", "create", "add columns", "merge", "progress")
"""The steps in order: choose the events, fold them, make a target, give it columns, merge into each target, keep the sync's progress."""


class Steps(Protocol):
    """Is told of every step. It travels to tasks, which report that they are in one."""

    def reached(self, step: str, moment: Moment, what: str = "") -> None: ...


class _NoSteps:
    """Does nothing."""

    def reached(self, step: str, moment: Moment, what: str = "") -> None:
        pass


NO_STEPS: Steps = _NoSteps()

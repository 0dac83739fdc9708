"""Listeners that return None."""

from __future__ import annotations

import inspect
import logging
from functools import partial
from types import NoneType

from .results import NO_ANSWER

log = logging.getLogger("penstock.consumers")

REMEDY = "end it with `return penstock.ConsumeResult.SUCCESS`"


def is_annotated_to_return_none(listener: object) -> bool:
    """Whether a listener is annotated to return None. A decorator is not judged, as `functools.wraps` copies annotations."""
    while isinstance(listener, partial):
        listener = listener.func
    if inspect.isclass(listener):
        return False
    function = listener if inspect.isroutine(listener) else type(listener).__call__
    function = getattr(function, "__func__", function)
    if hasattr(function, "__wrapped__"):
        return False
    annotations = getattr(function, "__annotations__", None)
    if not isinstance(annotations, dict) or "return" not in annotations:
        return False
    returns = annotations["return"]
    return returns is None or returns is NoneType or (isinstance(returns, str) and returns.strip() == "None")


def name_of(listener: object) -> str:
    while isinstance(listener, partial):
        listener = listener.func
    return str(getattr(listener, "__qualname__", None) or type(listener).__qualname__)


class MissingResultLog:
    """Logs once that a listener returned None."""

    def __init__(self, group: str, listener: object, *, then: str) -> None:
        self._group, self._listener, self._then = group, listener, then
        self._told = False

    def note(self, reason: str) -> None:
        if reason == NO_ANSWER and not self._told:
            self._told = True
            log.error(
                "the listener %s of group %s returned None, which counts as a failure: %s; %s",
                name_of(self._listener),
                self._group,
                self._then,
                REMEDY,
            )

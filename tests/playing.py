"""Tests that are scripts, each played on a stage of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar


class Stage(Protocol):
    """What plays scripts, in virtual time as a rule."""

    def play(self, script: Callable[[], Coroutine[Any, Any, None]], /) -> object: ...


Given = ParamSpec("Given")
Parameters = ParamSpec("Parameters")
S = TypeVar("S", bound=Stage)


def played_on(
    made: Callable[Given, S], *arguments: Given.args, **options: Given.kwargs
) -> Callable[[Callable[Concatenate[S, Parameters], Coroutine[Any, Any, None]]], Callable[Parameters, None]]:
    """Make a test of a script: its first argument is the stage that it is played on, a new one each time; pytest gives it the others."""

    def as_test(script: Callable[Concatenate[S, Parameters], Coroutine[Any, Any, None]]) -> Callable[Parameters, None]:
        @functools.wraps(script)
        def test(*positional: Parameters.args, **named: Parameters.kwargs) -> None:
            stage = made(*arguments, **options)
            stage.play(lambda: script(stage, *positional, **named))

        signature = inspect.signature(script)
        test.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
        return test

    return as_test

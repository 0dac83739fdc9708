"""The user's code that a command names as ``module:name``: found, imported, and called around the work."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import penstock

from ....blocking.face import portal_of
from ....consumers.handlers.executor import is_coroutine_function
from ....log import CallError, PenstockError, RetryError

if TYPE_CHECKING:
    from ....lake import Lake


class ProgramNotLoaded(CallError):
    """The module with the user's code cannot be imported."""

    kind = "program_not_loaded"


class LifespanFailed(RetryError):
    """What ``--setup`` or ``--teardown`` names has raised."""

    kind = "lifespan_failed"


def import_function(name: str) -> Callable[..., Any]:
    """The function of ``module:function``, also from the working directory. Raises a usage error, and as `import_object`."""
    found = import_object(name, "function")
    if not callable(found):
        raise click.UsageError(f"{name!r} is no function.")
    return found


def import_object(name: str, kind: str) -> Any:  # noqa: ANN401 - whatever it names
    """The object of ``module:name``; None: the module has none. Raises a usage error, which calls it a ``kind``, and `ProgramNotLoaded` for a module
    that fails.
    """
    module, colon, path = name.partition(":")
    if not (module and colon and path):
        raise click.UsageError(f"{name!r} names no {kind}; write module:{kind}.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module + ".").startswith(error.name + "."):
            raise click.UsageError(f"There is no module {error.name!r}, here or installed.") from None
        raise _not_loaded(module, error) from error
    except PenstockError as error:
        error.hint = f"{error.hint}: {_place(error)}" if error.hint else f"see {_place(error)}"
        raise
    except Exception as error:
        raise _not_loaded(module, error) from error
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


@contextmanager
def lifespan(lake: Lake, setup: str | None, teardown: str | None) -> Iterator[None]:
    """Call the functions of these names before the block and behind it. Coroutine functions run on the lake's event loop, as async listeners do.

    Raises as `import_function`, and `LifespanFailed`. The second function is not called when the first one fails.
    """
    begin, end = (None if name is None else import_function(name) for name in (setup, teardown))
    if begin is not None:
        _call(lake, begin, str(setup), "the set-up failed")
    try:
        yield
    finally:
        if end is not None:
            _call(lake, end, str(teardown), "the teardown failed")


def _call(lake: Lake, function: Callable[..., Any], name: str, failed: str) -> None:
    try:
        if is_coroutine_function(function):
            portal_of(lake).run(function)
        else:
            function()
    except PenstockError:
        raise
    except Exception as error:
        raise LifespanFailed(failed, operation="work", object=name, observed=_shown(error), hint=_HINT) from error


_HINT = "penstock --debug (before the command) shows the traceback"


def _not_loaded(module: str, error: Exception) -> ProgramNotLoaded:
    return ProgramNotLoaded("the module cannot be imported", operation="load", object=module, observed=_shown(error), hint=_HINT)


def _shown(error: Exception) -> str:
    """The error, and where it was raised. A syntax error names its place itself."""
    text = f"{type(error).__name__}: {error}"
    return text if isinstance(error, SyntaxError) else f"{text} ({_place(error)})"


def _place(error: Exception) -> str:
    """The last line of a traceback that is neither of this library nor of Python's import."""
    ours = str(Path(penstock.__file__).parent)
    last = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith((ours, "<frozen"))][-1]
    return f"{os.path.relpath(last.filename)}, line {last.lineno}"

"""Public names of a package that are imported at their first use (PEP 562), so that a program pays for what it uses."""

import ast
import sys
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from inspect import getsource


def lazy_names(
    package: str, *, modules: Collection[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` for a package that imports its names for type checkers: each as itself.

    ``modules`` are public themselves.
    """
    defined_in = {name: module for name, module in _imported(package) if name not in modules}

    def getattribute(name: str) -> object:
        if name in modules:
            return import_module(f".{name}", package)
        if name not in defined_in:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        value = getattr(import_module(defined_in[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def directory() -> list[str]:
        return sorted({*sys.modules[package].__all__, *modules})

    return getattribute, directory, sorted(defined_in)


def _imported(package: str) -> Iterator[tuple[str, str]]:
    """The names that a type checker sees a package import, each with its module."""
    for statement in ast.parse(getsource(sys.modules[package])).body:
        if isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING":
            for node in statement.body:
                if isinstance(node, ast.ImportFrom):
                    yield from ((alias.name, "." * node.level + (node.module or "")) for alias in node.names)

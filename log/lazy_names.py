"""Imports a package's public names at their first use (PEP 562)."""

import builtins
import sys
from collections.abc import Callable, Collection
from importlib import import_module
from types import CodeType, FunctionType, SimpleNamespace


def lazy_names(
    package: str, *, modules: Collection[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` for a package that imports its names for type checkers: each as itself.

    ``modules`` are public themselves.
    """
    code = sys._getframe(1).f_code  # noqa: SLF001 - `inspect` names it publicly, and costs a quarter of `import penstock`
    defined_in = {name: module for name, module in _imported(package, code).items() if name not in modules}

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


def _imported(package: str, code: CodeType) -> dict[str, str]:
    """The names that a type checker sees a package import, with their modules, by running its code with a noting importer."""
    found: dict[str, str] = {}

    def note(module: str, given: object, own: object, names: Collection[str] | None, level: int) -> object:
        if not names:
            return import_module(module.partition(".")[0])
        found.update(dict.fromkeys(names, "." * level + module))
        return SimpleNamespace(**dict.fromkeys(names, True))  # TYPE_CHECKING among them

    FunctionType(code, {"__name__": package, "__builtins__": {**vars(builtins), "__import__": note}})()
    return {name: module for name, module in found.items() if name not in ("TYPE_CHECKING", lazy_names.__name__)}

"""Public names of a package that are imported at their first use (PEP 562), so that a program pays for what it uses."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def lazy_names(
    package: str, places: Mapping[str, Collection[str]], *, modules: Collection[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package. ``places`` has names by the defining module; ``modules`` are public
    themselves.
    """
    defined_in = {name: module for module, names in places.items() for name in names}

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

    return getattribute, directory

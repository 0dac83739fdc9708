"""Lakes and clocks for users' tests. Each needs nothing but this package; `s3_server` needs ``penstock[testing]``.

With pytest they come as fixtures, without an import: `penstock_memory_lake`, `penstock_local_lake`, `penstock_s3_lake`,
`penstock_clock`; see `penstock.testing.plugin`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .clock import HandClock
    from .lakes import memory_lake
    from .s3 import S3Server, s3_server

__all__ = ["HandClock", "S3Server", "memory_lake", "s3_server"]

_PLACES = {"HandClock": ".clock", "S3Server": ".s3", "memory_lake": ".lakes", "s3_server": ".s3"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a name when it is first used: every run of pytest in the environment loads the plugin, and with it this package."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_PLACES[name], __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)

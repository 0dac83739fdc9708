"""The command line `penstock`, without anything heavy: `penstock --help` answers at once."""

from .main import main

__all__ = ["main"]

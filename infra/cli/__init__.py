"""The command line `penstock`. This module loads nothing heavy, so that `penstock --help` answers at once."""

from .main import main

__all__ = ["main"]

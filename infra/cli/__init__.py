"""The command line `penstock`. What is here loads nothing heavy, so that `penstock --help` answers at once."""

from .main import main

__all__ = ["main"]

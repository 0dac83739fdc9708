"""`penstock demo`."""

from ..demo.main import command

__all__ = ["command"]

"""Conditions on properties, in the language of RocketMQ's SQL92 filters; compiled to Arrow compute (docs/0012)."""

from .evaluate import SqlFilter

__all__ = ["SqlFilter"]

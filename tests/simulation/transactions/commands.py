"""The long runs with transactions, from the command line: ``python -m tests.simulation.campaign … --world transactions``."""

from __future__ import annotations

from tests.simulation.sweeping import main as sweep


def main(arguments: list[str]) -> int:
    return sweep("transactions", arguments)

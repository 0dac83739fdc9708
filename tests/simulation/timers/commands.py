"""The long runs with timed messages, from the command line: ``python -m tests.simulation.campaign … --world timers``."""

from __future__ import annotations

from tests.simulation.sweeping import main as sweep


def main(arguments: list[str]) -> int:
    return sweep("timers", arguments)

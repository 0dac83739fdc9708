"""The long runs with gateways, from the command line: ``python -m tests.simulation.campaign … --world gateways``."""

from __future__ import annotations

from tests.simulation.sweeping import main as sweep


def main(arguments: list[str]) -> int:
    return sweep("gateways", arguments)

"""``python -m examples.demo``: the demo as a command of the command line, with its options, output and exit codes."""

import sys

from penstock.infra.cli import main

from .command import command

__all__ = ["main"]

main.add_command(command, "demo")

if __name__ == "__main__":
    main(["demo", *sys.argv[1:]], prog_name="make")

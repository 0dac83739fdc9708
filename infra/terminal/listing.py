"""Groups of commands, whose listings are whole sentences."""

from __future__ import annotations

import click

_ANY_LENGTH = 1000


class CommandGroup(click.Group):
    """Lists its commands with their first sentences, which click would cut at the end of a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(_ANY_LENGTH)) for name, one in commands if one is not None])

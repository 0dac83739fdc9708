"""`penstock completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ...terminal import output

_SHELLS = ("bash", "zsh", "fish")


_HELP = """Print the completion script of a shell.

\b
bash   eval "$(penstock completion bash)"    in ~/.bashrc
zsh    eval "$(penstock completion zsh)"     in ~/.zshrc
fish   penstock completion fish > ~/.config/fish/completions/penstock.fish
"""


@click.command(help=_HELP)
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print a shell's completion script."""
    from ..main import main

    kind = get_completion_class(shell)
    assert kind is not None, "click knows the three"
    script = kind(main, {}, "penstock", "_PENSTOCK_COMPLETE")
    output.say(script.source_template % script.source_vars())

"""The progress of the comparison on stderr: lines as things happen and, on a terminal, a bar below them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tests.benchmarks.figures import Figure, short


class Screen:
    """Shows what is done now and each result as it comes. Plain lines without a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """One step, shown as long as it runs. Call the yielded function with what it does now."""
        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        terminal = self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=not terminal) as bar:
            task = bar.add_task(name, total=None)

            def doing(text: str) -> None:
                bar.update(task, description=f"{name}: {text}")
                if not terminal:
                    self.say(f"{name}: {text}")

            yield doing

    def measured(self, figure: Figure) -> None:
        self.say(f"  {figure.name}: {short(figure.median)} {figure.unit}", mark="[green]✓[/]")

    def say(self, line: str, *, mark: str = "") -> None:
        """Print a line. ``mark`` may hold rich's markup; the line is plain."""
        self._console.print(mark, end="")
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

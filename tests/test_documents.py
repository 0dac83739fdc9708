"""What the documents show runs."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO

from tests.tree import ROOT


def example(number: int, *, count: int = 3) -> str:
    """One of the README's examples."""
    examples: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(examples) == count
    assert len(examples[number].splitlines()) <= 20
    return examples[number]


def readme(number: int, *, here: str = "./") -> str:
    """What one of the README's examples prints."""
    shown = StringIO()
    with redirect_stdout(shown):
        exec(compile(example(number).replace('"./', f'"{here}'), "README.md", "exec"), {})
    return shown.getvalue()


def test_the_readme_s_producer_and_reader_run() -> None:
    steps = [line.split(" ", 2) for line in readme(0).splitlines()]
    assert [offset for _, offset, _ in steps] == ["0", "1", "2"]
    assert [text for *_, text in steps] == [f"{{'order': 7, 'step': '{step}'}}" for step in ("created", "paid", "shipped")]


def test_the_readme_s_consumer_runs_in_order() -> None:
    assert readme(1) == "[('created', 1), ('paid', 1), ('paid', 2), ('shipped', 1)]\n"

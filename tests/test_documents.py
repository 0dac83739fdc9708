"""What the documents show runs."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO

from tests.tree import ROOT


def test_the_readme_s_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(example.splitlines()) <= 10
    shown = StringIO()
    with redirect_stdout(shown):
        exec(compile(example, "README.md", "exec"), {})
    steps = [line.split(" ", 2) for line in shown.getvalue().splitlines()]
    assert [offset for _, offset, _ in steps] == ["0", "1", "2"]
    assert [text for *_, text in steps] == [f"{{'order': 7, 'step': '{step}'}}" for step in ("created", "paid", "shipped")]

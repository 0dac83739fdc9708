"""What the documents show runs, and what they point at is there."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.tree import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def test_the_readme_s_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(example.splitlines()) <= 10
    shown = StringIO()
    with redirect_stdout(shown):
        exec(compile(example, "README.md", "exec"), {})
    steps = [line.split(" ", 2) for line in shown.getvalue().splitlines()]
    assert [offset for _, offset, _ in steps] == ["0", "1", "2"]
    assert [text for *_, text in steps] == [f"{{'order': 7, 'step': '{step}'}}" for step in ("created", "paid", "shipped")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing

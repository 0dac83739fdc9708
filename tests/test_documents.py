"""What the documents show runs, and prints what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import Run, blocks, user_pages
from tests.tree import ROOT

README = ROOT / "README.md"
FEATURES = ROOT / "docs" / "features.md"
"""Its examples are run one by one, as only some need Spark."""
RUN_ELSEWHERE = re.compile(r"pyspark|penstock\.spark|^def test_", re.MULTILINE)
"""Pages that use Spark (tests/spark/test_pages.py) or are tests themselves (tests/testing/test_plugin.py)."""


def quick_pages() -> list[Path]:
    return [
        page for page in user_pages() if not any(RUN_ELSEWHERE.search(block.code) for block in blocks(page) if not block.is_file)
    ]


@pytest.mark.parametrize("page", quick_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_s_code_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    with Run(page, tmp_path) as run:
        run.all()


def printed(page: Path, number: int, folder: Path, *, base: str = "./") -> str:
    """What one of a page's examples prints, run by itself."""
    example = [block for block in blocks(page) if block.language == "python"][number]
    assert len(example.code.splitlines()) <= 20
    with Run(page, folder, base=base) as run:
        return run.python(example)


def shown(page: Path, number: int) -> str:
    """What the page says that the example prints."""
    return [block for block in blocks(page) if block.language == "text"][number].code


def test_the_readme_is_short() -> None:
    assert len(README.read_text().split()) <= 700


def test_the_consumer_of_the_features_runs_in_order(tmp_path: Path) -> None:
    assert printed(FEATURES, 0, tmp_path) == shown(FEATURES, 0)


PAGE = """
# A page

```python title="job.py"
print("in a file")
```

```python
name = "ann"
print("hello", name)
```

It prints:

```text
hello …
```

```console
$ python job.py
in a file
$ export PENSTOCK_LAKE=./lake
$ penstock topic create orders
…
$ penstock topic describe nothing  # exit 2
…
```

```python title="Kafka"
producer.send("not run")
```
"""


def ran(page: str, folder: Path) -> None:
    (folder / "page.md").write_text(page)
    with Run(folder / "page.md", folder) as run:
        run.all()


def test_a_page_is_run_from_top_to_bottom(tmp_path: Path) -> None:
    ran(PAGE, tmp_path)
    assert (tmp_path / "lake").is_dir()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("hello …", "hello ben"), "page.md:9 printed:\nhello ann"),
        (("```text\nhello …\n```", ""), "page.md:9 printed:\nhello ann"),
        (("in a file\n$", "elsewhere\n$"), "python job.py printed:\nin a file"),
        (("  # exit 2", ""), "topic describe nothing"),
        (('title="Kafka"', 'title="Elsewhere"'), "which system is Elsewhere"),
        (('title="Kafka"', "not run"), "only a title may stand there"),
    ],
)
def test_a_page_that_says_otherwise_is_found(change: tuple[str, str], told: str, tmp_path: Path) -> None:
    words = r"\s+".join(map(re.escape, told.split()))  # pytest indents what an assertion says, where it has rewritten it
    with pytest.raises(AssertionError, match=words):
        ran(PAGE.replace(*change), tmp_path)

"""The site of the documents is built strictly: a dead link, a dead anchor or a page that nobody is led to fails it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT

SITE = ROOT / "mkdocs.yml"
HOME = "# Home\n\n[A page](page.md#a-part), `code`, [another](other.md).\n"
PAGE = "# A page\n\n## A part\n\n- One\n  - inside of it\n"
SMALL = f"""
INHERIT: {SITE}
docs_dir: docs
site_dir: site
hooks: [{ROOT / "infra" / "scripts" / "site_hooks.py"}]
plugins: []
nav: [index.md, page.md, other.md]
"""


def build(configuration: Path, to: Path) -> subprocess.CompletedProcess[str]:
    """Not with ``--quiet``, which makes warnings no failures, strictly or not."""
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(configuration), "--site-dir", str(to)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def small_site(folder: Path, **pages: str) -> subprocess.CompletedProcess[str]:
    """A site of few pages, built as the whole one is."""
    (folder / "docs").mkdir()
    (folder / "mkdocs.yml").write_text(SMALL)
    for name, text in ({"index": HOME, "page": PAGE, "other": "# Other\n"} | pages).items():
        (folder / "docs" / f"{name}.md").write_text(text)
    return build(folder / "mkdocs.yml", folder / "site")


@pytest.mark.thorough
@pytest.mark.slow
def test_the_site_is_built(tmp_path: Path) -> None:
    built = build(SITE, tmp_path)
    assert built.returncode == 0, built.stderr
    home = (tmp_path / "index.html").read_text()
    assert "Penstock" in home
    assert "googleapis" not in home


@pytest.mark.slow
def test_lists_nest_by_two_spaces(tmp_path: Path) -> None:
    built = small_site(tmp_path)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "page.html").read_text().count("<ul>\n<li>inside of it") == 1


@pytest.mark.slow
def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    dead = "[Gone](gone.md), [no part](page.md#no-part), [not of the repository](/page.md), [none](#none)"
    built = small_site(tmp_path, index=f"{HOME}\n{dead}\n")
    assert built.returncode != 0
    assert "Aborted with 4 warnings in strict mode" in built.stdout, built.stderr
    assert all(target in built.stderr for target in ("gone.md", "page.md#no-part", "/page.md", "#none"))


@pytest.mark.slow
def test_a_page_that_no_menu_names_fails_the_build(tmp_path: Path) -> None:
    built = small_site(tmp_path, unnamed="# Nobody is led here\n")
    assert built.returncode != 0
    assert "unnamed.md" in built.stderr

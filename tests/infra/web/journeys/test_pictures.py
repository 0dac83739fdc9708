"""The pictures of the guide. ``PENSTOCK_PICTURES=docs/images`` takes them anew, into that folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.infra.web.journeys.conftest import Open
from tests.tree import ROOT

PICTURES = {"console-overview": "/", "console-group": "/groups/warehouse", "console-dead-letters": "/dead-letters/mailer"}
SHOWN = {"width": 1100, "height": 640}
BYTES_MAX = 150_000
GUIDE = ROOT / "docs" / "guides" / "console.md"


@pytest.mark.slow
@pytest.mark.chromium
@pytest.mark.thorough
def test_the_pictures_can_be_taken(look: Open, tmp_path: Path) -> None:
    folder = Path(os.environ.get("PENSTOCK_PICTURES") or tmp_path)
    seen = look(viewport=SHOWN)
    for name, path in PICTURES.items():
        seen.go(path)
        seen.page.screenshot(path=folder / f"{name}.png")
        assert (folder / f"{name}.png").stat().st_size < BYTES_MAX


def test_the_guide_shows_the_pictures_that_are_there() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(\.\./images/([\w-]+)\.png\)", GUIDE.read_text())
    assert shown == list(PICTURES)
    for name in shown:
        assert (ROOT / "docs" / "images" / f"{name}.png").stat().st_size < BYTES_MAX

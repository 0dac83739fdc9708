"""Where Chromium is. Apart from what drives it, as the rules of all tests ask for it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MISSING = (
    "the journeys need Chromium, which `make setup` installs where it may: `sudo apt-get install chromium` (Debian), "
    "`sudo dnf install chromium` (Fedora), or PENSTOCK_CHROMIUM set to its program"
)
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> Path:
    """The program, or the name of one that is not there."""
    named = os.environ.get("PENSTOCK_CHROMIUM")
    return Path(named or next((path for name in NAMES if (path := shutil.which(name))), "chromium-is-missing"))


CHROMIUM = find_chromium()

"""The build backend: setuptools, with its scratch files outside of the source folder.

setuptools builds in ``build/`` beside the sources, leaves that there, and packs whatever it finds in it the next time: `pip install .` after
a `git pull` could install modules that are gone.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest import mock

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(
    wheel_directory: str, config_settings: dict[str, str | list[str] | None] | None = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel in a temporary folder. Returns its name."""
    with tempfile.TemporaryDirectory(prefix="penstock-build-") as scratch:
        options = Path(scratch) / "options.cfg"
        options.write_text(f"[build]\nbuild_base = {scratch}/build\n")
        with mock.patch.dict(os.environ, DIST_EXTRA_CONFIG=str(options)):
            return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)

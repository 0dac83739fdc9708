"""The build backend: setuptools with the found packages, and its scratch files outside of the source folder.

Every folder with Python files below the library's (`package-dir` in pyproject.toml) is a package. setuptools alone packs whatever is left in
``build/``: `pip install .` after a `git pull` could install modules that are gone.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from setuptools import build_meta
from setuptools.build_meta import get_requires_for_build_editable, get_requires_for_build_sdist, get_requires_for_build_wheel

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

_Settings = dict[str, str | list[str] | None] | None


def packages(root: Path) -> list[str]:
    """The library's packages, in whose folders it is at the top."""
    mapping = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    found = set[str]()
    for name, folder in mapping.items():
        for path in (root / folder).rglob("__init__.py"):
            found.add(".".join((name, *path.parent.relative_to(root / folder).parts)))
    return sorted(found)


def build_wheel(directory: str, settings: _Settings = None, metadata_directory: str | None = None) -> str:
    """Build a wheel. Returns its name."""
    with _configured():
        return build_meta.build_wheel(directory, settings, metadata_directory)


def build_editable(directory: str, settings: _Settings = None, metadata_directory: str | None = None) -> str:
    """Build a wheel that leads to the sources. Returns its name."""
    with _configured():
        return build_meta.build_editable(directory, settings, metadata_directory)


def prepare_metadata_for_build_wheel(directory: str, settings: _Settings = None) -> str:
    """Write a wheel's metadata. Returns the name of their folder."""
    with _configured():
        return build_meta.prepare_metadata_for_build_wheel(directory, settings)


def prepare_metadata_for_build_editable(directory: str, settings: _Settings = None) -> str:
    """Write the metadata of a wheel that leads to the sources. Returns the name of their folder."""
    with _configured():
        return build_meta.prepare_metadata_for_build_editable(directory, settings)


def build_sdist(directory: str, settings: _Settings = None) -> str:
    """Pack the sources, with all that tests and documents need. Returns the archive's name."""
    with tempfile.TemporaryDirectory(prefix="penstock-build-") as scratch:
        metadata = Path(scratch) / prepare_metadata_for_build_wheel(scratch, settings)
        name = metadata.name.removesuffix(".dist-info")
        with (
            (Path(directory) / f"{name}.tar.gz").open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=_epoch()) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(metadata / "METADATA", f"{name}/PKG-INFO", filter=_plain)
            for path in _sources():
                archive.add(path, f"{name}/{path}", filter=_plain)
    return f"{name}.tar.gz"


def _epoch() -> int | None:
    """The time that is written down in place of all others, where one is given: the same sources are the same bytes then."""
    return int(given) if (given := os.environ.get("SOURCE_DATE_EPOCH")) else None


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without what is the machine's: who owns the file, and what others may do with it; its time, where there is another to be written."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    if (epoch := _epoch()) is not None:
        member.mtime = epoch
    return member


def _sources() -> Iterator[Path]:
    if Path(".git").exists():
        paths = map(Path, subprocess.check_output(["git", "ls-files", "-z"], text=True).split("\0")[:-1])
    else:
        paths = (path for path in Path().rglob("*") if path.suffix != ".pyc" and path.name != "PKG-INFO")
    return (path for path in sorted(paths) if path.is_file() and not path.is_symlink())


@contextmanager
def _configured() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="penstock-build-") as scratch:
        options = Path(scratch) / "options.cfg"
        options.write_text(f"[build]\nbuild_base = {scratch}/build\n[options]\npackages = {', '.join(packages(Path()))}\n")
        with mock.patch.dict(os.environ, DIST_EXTRA_CONFIG=str(options)):
            yield

"""The JARs for Delta and S3 by version of Spark, pinned one by one and kept in Penstock's own cache.

Spark's own packages ask Ivy in every session, and pull in 87 MB that are never loaded. So the lists (``jars_*.xml``) are resolved once. A warm cache
needs no network.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from ..log.errors import MissingDependency
from . import versions
from .java import find_java

_HERE = Path(__file__).parent
_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact of Maven Central."""

    group: str
    name: str
    version: str

    @property
    def file_name(self) -> str:
        return f"{self.group}_{self.name}-{self.version}.jar"


def cache_folder() -> Path:
    """``$PENSTOCK_CACHE``, or ``~/.cache/penstock``."""
    return Path(os.environ.get("PENSTOCK_CACHE") or "~/.cache/penstock").expanduser()


def jar_list(*, s3: bool = False) -> list[Jar]:
    """4 JARs for Delta, some 40 together with S3A."""
    return [jar for path in _lists(s3) for jar in _read_list(path)]


def missing_jars(*, s3: bool = False) -> list[Jar]:
    """The JARs that are not whole in the cache, as after a copy to a full disk."""
    return [jar for jar in jar_list(s3=s3) if not _is_there(jar)]


def ensure(*, s3: bool = False) -> list[Path]:
    """The files of `jar_list`, fetched from Maven Central when they are not whole in the cache.

    A file appears whole or not at all. Raises `MissingDependency` without Java, PySpark, or a network when one is needed.
    """
    for path in _lists(s3):
        if not all(map(_is_there, _read_list(path))):
            _fetch(path)
    return [_jar_folder() / jar.file_name for jar in jar_list(s3=s3)]


def _lists(s3: bool) -> list[Path]:
    delta, s3a = (_HERE / name for name in versions.installed_version().jar_lists)
    return [delta, s3a] if s3 else [delta]


def _read_list(path: Path) -> list[Jar]:
    return [
        Jar(dependency.attrib["org"], dependency.attrib["name"], dependency.attrib["rev"])
        for dependency in ET.parse(path).getroot().iter("dependency")  # noqa: S314
    ]


def _is_there(jar: Jar) -> bool:
    return zipfile.is_zipfile(_jar_folder() / jar.file_name)


def _jar_folder() -> Path:
    return cache_folder() / "jars"


def _fetch(list_path: Path) -> None:
    target = _jar_folder()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        complaint = _run_ivy(list_path, scratch)
        if complaint is not None:
            raise MissingDependency(
                "The JARs for Spark could not be fetched",
                operation="fetch JARs",
                object=list_path.name,
                expected="an answer of Maven Central",
                observed=complaint,
                hint="Run `python -m penstock.spark.prefetch` once with a network; it fills the folder "
                f"{target}, which may be copied to machines without one (set PENSTOCK_CACHE there)",
            )
        for jar in _read_list(list_path):
            os.replace(f"{scratch}/{jar.file_name}", target / jar.file_name)


def _run_ivy(list_path: Path, scratch: str) -> str | None:
    import pyspark

    command: list[str | Path] = [
        find_java().program,
        *("-cp", str(Path(pyspark.__file__).parent / "jars" / "*"), "org.apache.ivy.Main"),
        *("-settings", _HERE / "ivysettings.xml", "-ivy", list_path, "-cache", f"{scratch}/ivy"),
        *("-retrieve", f"{scratch}/[organisation]_[artifact]-[revision].[ext]"),
    ]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"nothing within {_TIMEOUT_S} s"
    return None if answer.returncode == 0 else _complaint(answer.stdout + answer.stderr)


def _complaint(report: str) -> str:
    lines = [line.strip() for line in report.splitlines()] or ["nothing"]
    return next((line for line in lines if "Exception" in line or "not found" in line or "FAILED" in line), lines[-1])

"""Finds a Java for Spark, which fails without one with a longer message."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..log.errors import MissingDependency
from . import versions

_COMMON_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


@dataclass(frozen=True, slots=True)
class Java:
    """One Java installation."""

    home: Path
    major: int

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java that fits the installed Spark: ``JAVA_HOME``, then ``PATH``, then the usual folders. Raises `MissingDependency`, naming those
    that do not fit.
    """
    return choose_java(
        candidate_homes(os.environ if environment is None else environment), major_version, versions.installed_version()
    )


def candidate_homes(environment: Mapping[str, str]) -> Iterator[Path]:
    """The user's choice first."""
    if chosen := environment.get("JAVA_HOME"):
        yield Path(chosen)
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path).resolve().parent.parent
    for pattern in _COMMON_FOLDERS:
        yield from map(Path, sorted(glob.glob(os.path.expanduser(pattern))))  # pathlib cannot glob absolute patterns


def choose_java(homes: Iterable[Path], major_of: Callable[[Path], int | None], spark: versions.SparkVersion) -> Java:
    """Raises `MissingDependency` if none fits ``spark``."""
    unfit: dict[Path, int] = {}
    for home in homes:
        major = major_of(home)
        if major in spark.java:
            return Java(home, major)
        if major is not None:
            unfit[home] = major
    raise MissingDependency(
        f"Spark {spark.minor} needs Java, and none that fits was found",
        operation="find Java",
        expected="Java " + ", ".join(map(str, spark.java)),
        observed=", ".join(f"Java {major} in {home}" for home, major in unfit.items()) or "no Java",
        hint="Install one (for instance `apt-get install openjdk-17-jre-headless` or `brew install openjdk@17`), "
        "or set JAVA_HOME to its folder",
    )


def major_version(home: Path) -> int | None:
    """The version by the output of the Java in ``home``, if it runs."""
    program = home / "bin" / "java"
    if not program.is_file():
        return None
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_major(answer.stderr)


def parse_major(version_text: str) -> int | None:
    """Old versions call 8 ``1.8``."""
    found = re.search(r'version "(?:1\.)?(\d+)', version_text)
    return int(found[1]) if found else None

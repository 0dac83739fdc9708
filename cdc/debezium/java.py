"""The Java to load into this process."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...log.errors import MissingDependency

JAVA_MIN = 17
_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
_LIBRARIES = ("lib/server/libjvm.so", "lib/server/libjvm.dylib", "bin/server/jvm.dll")


def find_jvm(environment: Mapping[str, str] | None = None) -> Path:
    """The library of a Java 17 or newer: ``JAVA_HOME``, then ``PATH``, then the usual folders. Raises `MissingDependency`."""
    unfit = []
    for home in _homes(os.environ if environment is None else environment):
        library = next((home / name for name in _LIBRARIES if (home / name).is_file()), None)
        if library is None:
            continue
        if (version := java_version(home)) is not None and version >= JAVA_MIN:
            return library
        unfit.append(f"Java {version or 'of an unknown version'} in {home}")
    raise MissingDependency(
        "Debezium's engine needs Java, and none that fits was found",
        operation="find Java",
        expected=f"Java {JAVA_MIN} or newer",
        observed=", ".join(unfit) or "no Java",
        hint="Install one (for instance `apt-get install openjdk-17-jre-headless` or `brew install openjdk@17`), or set JAVA_HOME to its folder",
    )


def _homes(environment: Mapping[str, str]) -> Iterator[Path]:
    if chosen := environment.get("JAVA_HOME"):
        yield Path(chosen)
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path).resolve().parent.parent
    for pattern in _FOLDERS:
        yield from map(Path, sorted(glob.glob(os.path.expanduser(pattern))))  # pathlib cannot glob absolute patterns


def java_version(home: Path) -> int | None:
    try:
        release = (home / "release").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', release)
    return int(found[1]) if found else None

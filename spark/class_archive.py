"""A driver that starts quickly: the JVM's first compiler alone, and an archive of the classes that each session loads.

Most of a short job's processor time goes to loading some 20,000 classes and to compiling. A training job makes a class-data archive (JEP 350) for
each combination of Java, PySpark and JARs; the JVM ignores one that does not fit.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..log.errors import MissingDependency
from . import jars
from .java import Java, find_java

FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
"""The options of a JVM that works for minutes.

The first compiler alone gets 48 MB for code by default, which some five batches of a sync fill. The metaspace's size saves full collections while
classes are loaded.
"""

_KEPT = 3
"""The other installations' archives that stay in the cache, some 200 MB each."""
_TIMEOUT_S = 600


def driver_settings(java: Java, delta_jars: Sequence[Path]) -> dict[str, str]:
    options = FIRST_COMPILER
    archive = archive_file(java, delta_jars)
    if archive.is_file():
        # An archive that does not fit is not used, and that is no reason for the JVM to complain.
        options += f" -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:class+path=off"
    # Only classes of the class path can be archived; those of `spark.jars` have a class loader of their own.
    return {"spark.driver.defaultJavaOptions": options, "spark.driver.extraClassPath": os.pathsep.join(map(str, delta_jars))}


def archive_file(java: Java, delta_jars: Sequence[Path]) -> Path:
    import pyspark

    spark_jars = Path(pyspark.__file__).parent / "jars"
    release = java.home / "release"
    # As the JVM compares: paths, sizes and times of what was on the class path.
    files = [(str(path), path.stat().st_mtime_ns) for path in (spark_jars, *delta_jars, *([release] if release.is_file() else []))]
    key = hashlib.sha256(json.dumps([str(java.home), java.major, files]).encode()).hexdigest()[:16]
    return jars.cache_folder() / "classes" / f"{key}.jsa"


def make_archive() -> Path:
    """Make the archive for this installation unless it is there; some 40 s of the processor.

    The file appears whole or not at all. Raises `MissingDependency` without Java, PySpark or the JARs, and when the training job fails.
    """
    delta_jars = jars.ensure()
    archive = archive_file(find_java(), delta_jars)
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        made = Path(scratch) / archive.name
        command = [sys.executable, "-m", f"{__package__}.warm_up", str(made)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, map(str, sys.path)))}
        try:
            # The JVM writes the archive at its end, after Python's. It holds the pipe until then, so this waits for both.
            ran = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment, check=False
            )
            complaint = None if made.is_file() else ran.stderr.strip().rpartition("\n")[2]
        except subprocess.TimeoutExpired:
            complaint = f"no end within {_TIMEOUT_S} s"
        if complaint is not None:
            raise MissingDependency(
                "The archive of Spark's classes could not be made",
                operation="make class-data archive",
                object=str(archive),
                expected="a training job that ends",
                observed=complaint,
                hint="Sessions work without it, and start more slowly",
            )
        os.replace(made, archive)
    _remove_oldest(archive)
    return archive


def _remove_oldest(newest: Path) -> None:
    """An archive mapped by a running JVM stays readable."""
    others = [path for path in newest.parent.glob("*.jsa") if path != newest]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]:
        path.unlink(missing_ok=True)

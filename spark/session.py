"""A Spark session that reads and writes Delta tables, on local files and on S3."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import jars
from .class_archive import driver_settings
from .java import Java, find_java
from .source.register import register, ship
from .versions import check_versions

ARROW_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Arrow's own checks take a fifth of what reading costs the JVM. Spark asks for NULL itself, and stays within the vectors that it was given."""

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class S3:
    """The place of S3. Credentials come from the environment of AWS's own tools, or from the machine's role."""

    endpoint: str | None = None
    """URL of a server other than AWS; default ``$AWS_ENDPOINT_URL_S3``, then ``$AWS_ENDPOINT_URL``."""
    region: str | None = None
    """Default ``$AWS_REGION``, then ``$AWS_DEFAULT_REGION``, then us-east-1."""
    path_style: bool = False
    """Bucket names in the path, not in the host name. Always so with an endpoint."""


def session(
    app_name: str = "penstock",
    *,
    master: str = "local[*]",
    s3: S3 | None = None,
    conf: Mapping[str, str] | None = None,
    quick_start: bool = True,
    source: bool = True,
) -> SparkSession:
    """A session with Delta, with S3 when ``s3`` is given, and with ``format("penstock")``; or the running session.

    ``quick_start`` halves the processor time until the first results, for jobs of some minutes: the JVM has its first compiler alone, and the class
    archive of ``python -m penstock.spark.prefetch``. Turn it off for long computing under a ``local`` master: the second compiler makes hot code up
    to three times as fast.

    ``source`` makes ``format("penstock")`` known, for which Spark starts a Python process: 2 s of the processor. Without it, Spark finds no editable
    install. `sync` does not need it.

    Sets ``PYSPARK_PYTHON`` (unless set) and ``JAVA_HOME`` of this process. ``conf`` overrides Penstock's settings. The first session on a machine
    fetches the JARs (12 MB, with S3 25 MB); no later one needs a network.

    Raises `MissingDependency` before Spark starts: when Java, PySpark or Delta is missing or of a version that does not fit, or the JARs are not to
    be had.
    """
    check_versions()
    from pyspark.sql import SparkSession

    java = find_java()
    builder = SparkSession.builder.appName(app_name).master(master)
    log4j = Path(__file__).parent / "log4j2.xml"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()} {ARROW_OPTIONS}",
    }
    if cores := local_cores(master):
        settings["spark.sql.shuffle.partitions"] = str(cores)
        # A laptop's host name may lead nowhere, or to an address that a VPN removes.
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if quick_start:
        settings |= driver_settings(java, jars.ensure())
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = _configure(builder, java, s3, conf).getOrCreate()
    if source:
        register(spark)
    else:
        ship(spark)
    return spark


def configure(
    builder: SparkSession.Builder, *, s3: S3 | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession.Builder:
    """Complete a builder of your own with the settings for Delta and S3; ``conf`` overrides them. Sets and raises the same as
    `session`.

    Its session knows ``format("penstock")`` where Penstock is installed in a folder of Python's path; `register` makes it known
    anywhere. ``spark.jars`` is taken: name your own JARs after Penstock's in ``conf``, or use ``spark.jars.packages``.
    """
    check_versions()
    return _configure(builder, find_java(), s3, conf)


def _configure(builder: SparkSession.Builder, java: Java, s3: S3 | None, conf: Mapping[str, str] | None) -> SparkSession.Builder:
    os.environ["JAVA_HOME"] = str(java.home)
    # Workers would run the first python3 of the PATH, which need not have pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.jars": ",".join(map(str, jars.ensure(s3=s3 is not None))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Two partitions hold the file list of a table of this size; Delta's 50 cost a second a commit.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # Files of a typed topic from before a decimal was widened: Spark makes bytes of the number that a filter names, as many as the file
        # has, and fails where they are too few.
        "spark.sql.parquet.filterPushdown.decimal": "false",
        **(s3_settings(s3, os.environ) if s3 else {}),
        **(conf or {}),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def s3_settings(s3: S3, environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of S3A, for ``s3://`` too, without secrets: S3A reads credentials from the environment."""
    endpoint = s3.endpoint or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = s3.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    settings = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.endpoint.region": region,
        "spark.hadoop.fs.s3a.path.style.access": str(s3.path_style or endpoint is not None).lower(),
    }
    return settings | ({"spark.hadoop.fs.s3a.endpoint": endpoint} if endpoint else {})


def local_cores(master: str) -> int | None:
    """The cores of a ``local[n]`` master; None for a cluster's."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if not found:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)

"""The versions of Spark that Penstock runs on, and features that older ones lack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from ..log.errors import MissingDependency, install_hint

DELTA = "4.4.0"
"""The version of delta-spark: its Python files and its JAR must be of one version."""

_PACKAGES = ("pyspark", "delta-spark")


@dataclass(frozen=True, slots=True)
class SparkVersion:
    """A minor version of Spark, and what fits it."""

    minor: str
    first: str
    last: str | None
    """The last one that Delta takes, where it names one."""
    hadoop: str
    """S3A must have the same version."""
    java: tuple[int, ...]
    """Its major versions of Java."""

    @property
    def releases(self) -> str:
        """The fitting releases, for people."""
        return self.first if self.first == self.last else f"{self.first} or a newer {self.minor}"

    @property
    def jar_lists(self) -> tuple[str, str]:
        """The lists of its JARs: Delta's, and those of S3A."""
        return f"jars_delta_spark_{self.minor}.xml", f"jars_s3a_hadoop_{self.hadoop}.xml"

    def takes(self, release: str) -> bool:
        number = _numbers(release)
        return (
            number[:2] == _numbers(self.minor)[:2]
            and number >= _numbers(self.first)
            and (self.last is None or number <= _numbers(self.last))
        )


SPARKS = (
    SparkVersion("4.0", first="4.0.1", last=None, hadoop="3.4.1", java=(17, 21)),
    SparkVersion("4.1", first="4.1.0", last=None, hadoop="3.4.2", java=(17, 21)),
    SparkVersion("4.2", first="4.2.0", last="4.2.0", hadoop="3.5.0", java=(17, 21, 25)),
)
"""The versions of `make spark-matrix`, the oldest first."""
NEWEST = SPARKS[-1]


@dataclass(frozen=True, slots=True)
class Feature:
    """A part of Spark that older versions lack."""

    what: str
    since: str
    instead: str
    """The way without it."""


STREAM_LIMITS = Feature(
    "the options maxOffsetsPerTrigger and maxBytesPerTrigger",
    since="4.2",
    instead="Leave them out: a trigger takes all that is stored",
)
"""An older Spark does not pass the begin of the batch whose end it asks for."""
STREAM_TRIGGER = Feature(
    "a stream with a new checkpoint and no startingOffsets",
    since="4.2",
    instead='Name the start: .option("startingOffsets", "earliest"), or "latest" for what comes from now on',
)
"""The default depends on the trigger, which an older Spark does not pass to a source."""
STREAM_SINK = Feature(
    'writeStream.format("penstock")',
    since="4.1",
    instead="Write by foreachBatch(penstock.spark.ordered_writer(lake, topic, …)), which keeps the order of message groups too",
)
TIMES_IN_JSON = Feature("a column of type TIME in a body of JSON", since="4.2", instead="Cast it to a string")
REPARTITION_BY_ID = Feature("DataFrame.repartitionById", since="4.1", instead="Repartition by a value whose hash is known")


def supported_version(release: str) -> SparkVersion | None:
    return next((spark for spark in SPARKS if spark.takes(release)), None)


def installed_version() -> SparkVersion:
    """The installed version, or the newest one if it does not fit."""
    release = installed_release("pyspark")
    return (supported_version(release) if release else None) or NEWEST


def has(feature: Feature, release: str | None = None) -> bool:
    """Releases newer than `SPARKS` have all features."""
    return _numbers(release or _running())[:2] >= _numbers(feature.since)[:2]


def require(feature: Feature, operation: str, release: str | None = None) -> None:
    """Raise `MissingDependency` without the feature."""
    if not has(feature, release):
        raise MissingDependency(
            f"{feature.what}: this needs a newer Spark",
            operation=operation,
            expected=f"pyspark {feature.since} or newer",
            observed=f"pyspark {release or _running()}",
            hint=feature.instead,
        )


def check_versions(found: Mapping[str, str | None] | None = None) -> SparkVersion:
    """Raise `MissingDependency` unless fitting versions of PySpark and Delta are installed."""
    found = {name: installed_release(name) for name in _PACKAGES} if found is None else found
    release = found["pyspark"]
    spark = supported_version(release) if release else None
    expected = {}
    if spark is None:
        expected["pyspark"] = f"pyspark {', '.join(one.releases for one in SPARKS)}"
    if found["delta-spark"] != DELTA:
        expected["delta-spark"] = f"delta-spark {DELTA}"
    if spark is None or expected:
        raise MissingDependency(
            "Spark's packages are missing or do not fit together",
            operation="start Spark",
            expected="; ".join(expected.values()),
            observed=", ".join(f"{name} {found[name] or 'missing'}" for name in expected),
            hint=f"{install_hint('spark')}, for an older Spark also 'pyspark==4.0.*'",
        )
    return spark


def _running() -> str:
    import pyspark  # a distribution of Spark on the path has no metadata

    return pyspark.__version__


def installed_release(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    found = [int(number) for number in re.findall(r"\d+", version)[:3]]
    return (*found, *[0] * (3 - len(found)))

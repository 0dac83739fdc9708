from __future__ import annotations

import pytest

from penstock.log.errors import MissingDependency
from penstock.spark.versions import (
    DELTA,
    NEWEST,
    SPARKS,
    STREAM_LIMITS,
    STREAM_SINK,
    check_versions,
    has,
    require,
    supported_version,
)
from tests.tree import CONFIG


@pytest.mark.parametrize(
    ("release", "minor"),
    [
        ("4.0.1", "4.0"),
        ("4.0.12", "4.0"),
        ("4.1.0", "4.1"),
        ("4.2.0", "4.2"),
        ("4.2.0+vendor.1", "4.2"),
        ("3.5.9", None),
        ("4.0.0", None),  # Delta takes 4.0.1 and newer ones,
        ("4.2.1", None),  # and none above 4.2.0
        ("4.3.0", None),
    ],
)
def test_a_release_belongs_to_a_version_that_was_tried(release: str, minor: str | None) -> None:
    spark = supported_version(release)
    assert (spark and spark.minor) == minor


def test_each_version_fits_with_the_one_delta() -> None:
    for spark in SPARKS:
        assert check_versions({"pyspark": spark.first, "delta-spark": DELTA}) is spark


def test_missing_or_other_versions_say_what_to_install() -> None:
    with pytest.raises(
        MissingDependency,
        match=r"expected: pyspark 4.0.1 or a newer 4.0, 4.1.0 or a newer 4.1, 4.2.0; observed: pyspark missing.*'\.\[spark\]'",
    ):
        check_versions({"pyspark": None, "delta-spark": "4.4.0"})
    with pytest.raises(MissingDependency, match=r"expected: delta-spark 4.4.0; observed: delta-spark 4.0.1"):
        check_versions({"pyspark": "4.0.5", "delta-spark": "4.0.1"})
    with pytest.raises(MissingDependency, match=r"observed: pyspark 4.3.0, delta-spark missing.*'pyspark==4.0.\*'"):
        check_versions({"pyspark": "4.3.0", "delta-spark": None})


def test_what_an_older_spark_lacks_is_refused_by_name() -> None:
    assert not has(STREAM_SINK, "4.0.5")
    with pytest.raises(
        MissingDependency,
        match=r"maxOffsetsPerTrigger and maxBytesPerTrigger: .*newer Spark \(operation: read a stream; expected: pyspark 4.2 or newer; "
        r"observed: pyspark 4.1.4.*Leave them out",
    ):
        require(STREAM_LIMITS, "read a stream", "4.1.4")
    for release in ("4.2.0", "4.3.0", "5.0.0"):
        require(STREAM_LIMITS, "read a stream", release)


def test_pip_is_told_the_same() -> None:
    wanted = CONFIG["project"]["optional-dependencies"]["spark"]
    assert f"delta-spark=={DELTA}" in wanted
    assert f"pyspark>={SPARKS[0].first},<={NEWEST.last}" in wanted

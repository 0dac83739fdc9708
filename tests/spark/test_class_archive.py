from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.log.errors import MissingDependency
from penstock.log.limits import MIB
from penstock.spark import jars
from penstock.spark.class_archive import archive_file, driver_settings, make_archive
from penstock.spark.java import Java
from tests.spark import quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = Java(Path("/opt/java/17"), 17)


@pytest.fixture
def delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """One JAR in a cache of its own."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    jar = tmp_path / "delta.jar"
    jar.touch()
    return [jar]


def test_an_archive_is_for_one_java_and_for_jars_as_they_are(delta: list[Path]) -> None:
    archive = archive_file(JAVA, delta)
    assert archive == archive_file(JAVA, delta)
    assert archive != archive_file(Java(Path("/opt/java/21"), 21), delta)
    os.utime(delta[0], (0, 0))
    assert archive != archive_file(JAVA, delta)


def test_a_driver_names_an_archive_only_where_there_is_one(delta: list[Path]) -> None:
    without = driver_settings(JAVA, delta)
    assert without == {"spark.driver.defaultJavaOptions": quick.JVM, "spark.driver.extraClassPath": str(delta[0])}
    archive = archive_file(JAVA, delta)
    archive.parent.mkdir()
    archive.touch()
    assert f"{quick.JVM} -XX:SharedArchiveFile={archive} " in driver_settings(JAVA, delta)["spark.driver.defaultJavaOptions"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_training_job_that_fails_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").symlink_to(jars.cache_folder() / "jars")
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--no-such-option pyspark-shell")
    with pytest.raises(MissingDependency, match=r"could not be made.*expected: a training job that ends.*work without it"):
        make_archive()
    assert list((tmp_path / "classes").iterdir()) == []


@pytest.mark.spark
def test_a_session_s_classes_come_from_the_archive(spark: SparkSession, java: Java) -> None:
    archive = archive_file(java, jars.ensure())
    maps = Path("/proc/self/maps")
    if not archive.is_file() or not maps.exists():
        pytest.skip("no archive, or no way to see what a process has mapped: run make setup on Linux")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    # The JVM unmaps an archive that does not fit.
    assert str(archive) in Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/maps").read_text()


@pytest.mark.spark
def test_the_first_compiler_has_room_for_all_code_of_a_driver(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    code_bytes = sum(pool.getUsage().getMax() for pool in pools if "Code" in pool.getName())
    # With its default of 48 MB the JVM removes code that a sync's next batch compiles again.
    assert code_bytes >= 240 * MIB

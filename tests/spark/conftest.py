from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from penstock.log.errors import MissingDependency
from penstock.spark import S3, session
from penstock.spark.java import Java, find_java
from tests.servers import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def java() -> Java:
    try:
        return find_java()
    except MissingDependency as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark(java: Java) -> Iterator[SparkSession]:
    """One session for all tests. It can speak S3, to the endpoint that a test sets: the JVM takes only credentials at its start."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in S3Server("").environment.items():
            if "ENDPOINT" not in name:
                environment.setenv(name, value)
        # No test is long enough for the second compiler to pay off: without it they take half the time.
        quick_start = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        running = session("penstock-tests", master="local[2]", s3=S3(path_style=True), conf=quick_start)
    yield running
    running.stop()

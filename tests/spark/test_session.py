from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import penstock
from penstock.spark import S3, jars, prefetch, versions
from penstock.spark.session import local_cores, s3_settings
from penstock.spark.source.register import register
from tests.tree import ROOT


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[4, 2]", 4),
        ("yarn", None),
        ("spark://host:7077", None),
        ("local-cluster[1,1,1]", None),
    ],
)
def test_the_cores_of_a_master(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


def test_s3_takes_its_endpoint_from_the_environment_and_no_secret_with_it() -> None:
    environment = {"AWS_ENDPOINT_URL": "http://one", "AWS_ENDPOINT_URL_S3": "http://two", "AWS_SECRET_ACCESS_KEY": "secret"}
    settings = s3_settings(S3(), environment)
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://two"
    assert settings["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert not any("secret" in value for value in settings.values())


def test_s3_of_aws_needs_no_endpoint() -> None:
    settings = s3_settings(S3(region="eu-west-1"), {})
    assert "spark.hadoop.fs.s3a.endpoint" not in settings
    assert settings["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"
    assert settings["spark.hadoop.fs.s3a.path.style.access"] == "false"


@pytest.mark.parametrize(("minor", "jars_with_s3"), [("4.0", 38), ("4.1", 39), ("4.2", 40)])
def test_the_lists_are_the_few_jars_that_were_tried(minor: str, jars_with_s3: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (spark,) = (one for one in versions.SPARKS if one.minor == minor)
    monkeypatch.setattr(versions, "installed_version", lambda: spark)
    assert (len(jars.jar_list()), len(jars.jar_list(s3=True))) == (4, jars_with_s3)
    names = {jar.file_name for jar in jars.jar_list(s3=True)}
    assert {f"io.delta_delta-spark_{minor}_2.13-{versions.DELTA}.jar", f"org.apache.hadoop_hadoop-aws-{spark.hadoop}.jar"} <= names


def test_what_other_programs_left_in_maven_s_folder_is_never_asked() -> None:
    # Half-filled ones are common: a POM without its JAR there ends Ivy's search, if the folder is one of its resolvers.
    settings = ET.parse(Path(jars.__file__).parent / "ivysettings.xml").getroot()
    resolvers = settings.findall("resolvers//*")
    assert [(one.tag, one.attrib) for one in resolvers] == [("ibiblio", {"name": "central", "m2compatible": "true"})]


def fill(cache: Path, names: list[str]) -> None:
    (cache / "jars").mkdir(parents=True)
    for name in names:
        zipfile.ZipFile(cache / "jars" / name, "w").close()


def test_a_warm_cache_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", None)
    fill(tmp_path, [jar.file_name for jar in jars.jar_list()])
    assert all(file.is_file() for file in jars.ensure())
    assert jars.missing_jars() == []
    assert len(jars.missing_jars(s3=True)) == len(jars.jar_list(s3=True)) - 4
    cut = jars.ensure()[0]
    cut.write_bytes(cut.read_bytes()[:-1])
    assert [jar.file_name for jar in jars.missing_jars()] == [cut.name]


@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_without_a_network_a_cold_cache_is_an_error_that_says_how_to_fill_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    # A proxy that nobody listens on is as good as no network.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    fill(tmp_path, [])
    assert prefetch.main(["--no-s3"]) == 1
    message = capsys.readouterr().err
    assert "could not be fetched" in message
    assert "python -m penstock.spark.prefetch" in message
    assert list((tmp_path / "jars").iterdir()) == []


@pytest.mark.parametrize("condition", ["DATA_SOURCE_ALREADY_EXISTS", "UNSUPPORTED_FEATURE"])
def test_a_source_that_spark_has_found_by_itself_is_registered_already(condition: str) -> None:
    pytest.importorskip("pyspark")
    from pyspark.errors import AnalysisException

    class Refused(AnalysisException):
        def getCondition(self) -> str:  # noqa: N802 - Spark's name
            return condition

    def refuse(_source: object) -> None:
        raise Refused("refused")

    session: Any = SimpleNamespace(dataSource=SimpleNamespace(register=refuse))
    with nullcontext() if condition == "DATA_SOURCE_ALREADY_EXISTS" else pytest.raises(Refused):
        register(session)


_JOB = """
import sys
sys.path.insert(0, sys.argv[1])
import penstock.spark
spark = penstock.spark.session(master="local[1]")
print("ROWS", spark.read.format("penstock").option("lake", sys.argv[2]).load("orders").count())
penstock.spark.session().stop()
"""


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_session_knows_the_source_wherever_it_is_started(tmp_path: Path) -> None:
    # Spark's own search sees the folders of Python's path, among them the current one, but no editable install.
    with penstock.connect(tmp_path / "lake", maintenance=False) as lake:
        lake.create_topic("orders", queues=1)
        with lake.producer("orders") as producer:
            producer.send(penstock.Message(b"1"))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", _JOB, str(ROOT), str(tmp_path / "lake")]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout.splitlines() == ["ROWS 1"], ran.stderr


_SYNC_JOB = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import penstock.spark
from penstock.spark.warm_up import train
spark = penstock.spark.session(master="local[1]", source=False)
train(spark, Path(sys.argv[2]))
spark.stop()
"""


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_a_sync_needs_no_python_process_of_a_session_without_the_source(tmp_path: Path) -> None:
    python, started = tmp_path / "python", tmp_path / "started"
    python.write_text(f'#!/bin/sh\necho "$@" >> {started}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    environment = {**os.environ, "PYSPARK_PYTHON": str(python)}
    command = [sys.executable, "-c", _SYNC_JOB, str(ROOT), str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, started.exists()) == (0, False), ran.stderr
    assert (tmp_path / "tables" / "training" / "_delta_log").is_dir()

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from penstock.log.errors import MissingDependency
from penstock.spark.java import candidate_homes, choose_java, find_java, major_version, parse_major
from penstock.spark.versions import NEWEST, SPARKS
from tests.tree import ROOT


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("The operation couldn’t be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_a_version_is_read_as_java_prints_it(text: str, major: int | None) -> None:
    assert parse_major(text) == major


def test_the_first_java_that_fits_is_taken() -> None:
    versions = {Path("/old"): 11, Path("/none"): None, Path("/fits"): 17, Path("/also"): 21}
    assert choose_java(versions, versions.get, NEWEST).home == Path("/fits")


def test_an_older_spark_takes_no_newer_java() -> None:
    versions = {Path("/newest"): 25, Path("/fits"): 21}
    assert choose_java(versions, versions.get, SPARKS[0]).home == Path("/fits")
    with pytest.raises(MissingDependency, match=r"Spark 4.0 needs Java.*expected: Java 17, 21; observed: Java 25 in /newest"):
        choose_java([Path("/newest")], versions.get, SPARKS[0])


def test_without_a_fitting_java_the_error_says_what_was_found_and_what_to_install() -> None:
    with pytest.raises(MissingDependency, match=r"Java 17, 21, 25.*Java 11 in /old.*apt-get install openjdk-17.*JAVA_HOME"):
        choose_java([Path("/old")], lambda _: 11, NEWEST)
    with pytest.raises(MissingDependency, match="observed: no Java"):
        choose_java([], lambda _: None, NEWEST)


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    chosen, on_path = fake_java(tmp_path / "chosen", "21.0.1"), fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(chosen), "PATH": str(on_path / "bin")}
    assert list(candidate_homes(environment))[:2] == [chosen, on_path]
    assert find_java(environment).home == chosen
    assert find_java({**environment, "JAVA_HOME": str(tmp_path / "absent")}).home == on_path


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    broken = fake_java(tmp_path / "broken", "17")
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert major_version(broken) is None
    assert major_version(tmp_path / "absent") is None


def test_set_up_accepts_what_spark_runs_on() -> None:
    found = re.search(r'^supported="([\d ]+)"', (ROOT / "infra" / "scripts" / "setup_java.sh").read_text(), re.MULTILINE)
    assert found is not None
    assert tuple(map(int, found[1].split())) == NEWEST.java

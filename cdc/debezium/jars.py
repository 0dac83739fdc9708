"""The JARs of Debezium's engine and of one connector: pinned, each with its digest and a permissive licence.

They come from Maven Central, by PySpark's Ivy or by Maven. Users bring the database's driver: those of MySQL and MariaDB are
under the GPL and the LGPL.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...log.errors import InvalidArgument, MissingDependency
from .configuration import Connector

_LIST = Path(__file__).with_name("jars.txt")
_CONNECTORS = "debezium-connector-"
_SHARED = ("debezium-connector-common", "debezium-connector-binlog")
_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class EngineJar:
    """One artifact of Maven Central."""

    group: str
    name: str
    version: str
    licence: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.group}_{self.name}-{self.version}.jar"


def jar_list(connector: Connector) -> list[EngineJar]:
    lines = [line.split() for line in _LIST.read_text().splitlines() if line and not line.startswith("#")]
    jars = [EngineJar(*line) for line in lines]
    wanted = {*_SHARED, f"{_CONNECTORS}{connector.name}"}
    return [jar for jar in jars if not jar.name.startswith(_CONNECTORS) or jar.name in wanted]


def jar_folder() -> Path:
    """The cache: ``$PENSTOCK_CACHE/debezium``, or ``~/.cache/penstock/debezium``."""
    return Path(os.environ.get("PENSTOCK_CACHE") or "~/.cache/penstock").expanduser() / "debezium"


def ensure(connector: Connector) -> list[Path]:
    """The files of `jar_list`, fetched unless whole in the cache. A file appears whole or not at all. Raises `MissingDependency`."""
    folder = jar_folder()
    jars = jar_list(connector)
    missing = [jar for jar in jars if not _is_there(folder, jar)]
    if missing:
        _fetch(missing, folder)
    return [folder / jar.file_name for jar in jars]


def _is_there(folder: Path, jar: EngineJar) -> bool:
    path, stamp = folder / jar.file_name, folder / f"{jar.file_name}.{jar.sha256[:16]}"
    if not path.is_file():
        return False
    if stamp.is_file() and stamp.read_text() == str(path.stat().st_size):
        return True
    if digest(path) != jar.sha256:
        return False
    stamp.write_text(str(path.stat().st_size))
    return True


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(jars: Sequence[EngineJar], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        complaint = _by_ivy(jars, scratch) if _ivy() is not None else _by_maven(jars, scratch)
        for jar in jars if complaint is None else ():
            found = scratch / jar.file_name
            if not found.is_file():
                complaint = f"{jar.file_name} did not come"
            elif digest(found) != jar.sha256:
                complaint = f"{jar.file_name} has another content than was pinned"
        if complaint is not None:
            raise MissingDependency(
                "the JARs of Debezium's engine could not be fetched",
                operation="fetch JARs",
                object=", ".join(jar.name for jar in jars[:3]) + (f" and {len(jars) - 3} more" if len(jars) > 3 else ""),
                expected="an answer of Maven Central, asked by Maven, or by the Ivy that penstock[spark] brings",
                observed=complaint,
                hint=f"Run `penstock capture jars` once with a network; it fills the folder {folder}, which may be copied to machines without "
                "one (set PENSTOCK_CACHE there)",
            )
        for jar in jars:
            os.replace(scratch / jar.file_name, folder / jar.file_name)


def _ivy() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "jars"
    return folder if any(folder.glob("ivy-*.jar")) else None


def _by_ivy(jars: Sequence[EngineJar], scratch: Path) -> str | None:
    wanted = "".join(f'<dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}" transitive="false"/>' for jar in jars)
    (scratch / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="penstock" module="debezium"/><configurations><conf name="default"/></configurations>'
        f'<dependencies defaultconf="default->default">{wanted}</dependencies></ivy-module>'
    )
    (scratch / "settings.xml").write_text(
        '<ivysettings><settings defaultResolver="central"/><resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>'
    )
    return _run(
        [
            shutil.which("java") or "java",
            *("-cp", f"{_ivy()}/*", "org.apache.ivy.Main"),
            *("-settings", str(scratch / "settings.xml"), "-ivy", str(scratch / "ivy.xml"), "-cache", str(scratch / "cache")),
            *("-retrieve", f"{scratch}/[organisation]_[artifact]-[revision].[ext]"),
        ]
    )


def _by_maven(jars: Sequence[EngineJar], scratch: Path) -> str | None:
    if shutil.which("mvn") is None:
        return "neither Maven nor PySpark's Ivy is here"
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    wanted = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.name}</artifactId><version>{jar.version}</version>{alone}</dependency>"
        for jar in jars
    )
    (scratch / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>penstock</groupId>'
        f"<artifactId>debezium</artifactId><version>1</version><packaging>pom</packaging><dependencies>{wanted}</dependencies></project>"
    )
    out = scratch / "out"
    complaint = _run(
        ["mvn", "-B", "-q", "-f", str(scratch / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={out}"]
    )
    for jar in jars:
        if (found := out / f"{jar.name}-{jar.version}.jar").is_file():
            found.rename(scratch / jar.file_name)
    return complaint


def _run(command: Sequence[str]) -> str | None:
    """None, or the failure."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"nothing within {_TIMEOUT_S} s"
    except OSError as error:
        return str(error)
    if answer.returncode == 0:
        return None
    lines = [line.strip() for line in (answer.stdout + answer.stderr).splitlines() if line.strip()] or ["nothing"]
    return next((line for line in lines if "ERROR" in line or "not found" in line or "Exception" in line), lines[-1])[:500]


def find_driver(connector: Connector, named: str | None, places: Iterable[str] | None = None) -> Path:
    """The JAR of the database's driver: the named one, or a system package's. Raises `InvalidArgument` for a name without a
    file, and `MissingDependency`.
    """
    if named is not None:
        if not Path(named).is_file():
            raise InvalidArgument("there is no such driver", operation="capture", object=named, expected="the JAR of a JDBC driver")
        return Path(named)
    for place in connector.driver_places if places is None else places:
        if Path(place).is_file():
            return Path(place)
    raise MissingDependency(
        f"the driver of {connector.title} is missing: it is under the {connector.driver_licence}, so Penstock never fetches it",
        operation="capture",
        object=connector.driver_name,
        expected=f"--driver-jar, or one of {', '.join(connector.driver_places)}",
        observed="none of them",
        hint=connector.driver_hint,
    )

"""A job that brings Penstock along as a wheel, on a cluster whose Python has everything but Penstock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from penstock.spark.java import Java
from penstock.spark.source.register import wheel_of
from tests.spark.source.topics import topic_folder
from tests.tree import AREAS, DOOR, ROOT, files


def test_a_wheel_is_told_from_a_folder(tmp_path: Path) -> None:
    wheel = tmp_path / "penstock-1-py3-none-any.whl"
    assert wheel_of(wheel / "penstock" / "spark" / "x.py") is None
    wheel.write_bytes(b"")
    assert wheel_of(wheel / "penstock" / "spark" / "x.py") == wheel
    assert wheel_of(Path(__file__)) is None


AT_THE_TOP = ("pyproject.toml", "README.md", "LICENSE", "pyspark_penstock.py")


def build_wheel(folder: Path) -> Path:
    source = folder / "source"
    parts = [path for path in files() if path.relative_to(ROOT).parts[0] in AREAS | {DOOR}]
    for path in [*parts, *(ROOT / name for name in AT_THE_TOP)]:
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def python_without_penstock(folder: Path) -> Path:
    """This Python with all that is installed in it, but Penstock, which a path file of the environment itself brings in."""
    venv.create(folder, with_pip=False)
    paths = {"base": str(folder), "platbase": str(folder)}
    (Path(sysconfig.get_path("purelib", "venv", paths)) / "packages.pth").write_text(sysconfig.get_path("purelib"))
    python = folder / "bin" / "python"
    # Elsewhere, as the repository itself is importable from its root.
    assert subprocess.run([python, "-c", "import pyarrow, penstock"], cwd=folder, capture_output=True, check=False).returncode == 1
    return python


def python_errors(log: str) -> str:
    """What of a job's log is not Spark's own chatter."""
    return "\n".join(line for line in log.splitlines() if not line.startswith(("\tat ", "\t...")) and " INFO " not in line)[:6000]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.thorough
def test_a_submitted_job_brings_penstock_to_the_executors(java: Java, tmp_path: Path) -> None:
    import pyspark

    with topic_folder(tmp_path / "lake") as topic:
        topic.send(100)
    # A home of links: executors of a local cluster work below it, whatever SPARK_WORKER_DIR says.
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYSPARK_DRIVER_PYTHON"}}
    environment |= {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(python_without_penstock(tmp_path / "venv")),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    options = ["--master", "local-cluster[1,1,1024]", "--conf", "spark.ui.enabled=false", "--py-files", str(build_wheel(tmp_path))]
    job = Path(__file__).parent / "jobs" / "read_orders.py"
    command = [str(home / "bin" / "spark-submit"), *options, str(job), topic.url]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=360, check=False)
    assert run.returncode == 0, python_errors(run.stdout + run.stderr)
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("FOUND ")]
    found = json.loads(line.removeprefix("FOUND "))
    assert found["without"] == "ModuleNotFoundError: No module named 'penstock'"
    assert found["unwritten"].startswith("Spark's executors have no Penstock")
    assert "penstock.spark.register(spark)" in found["unwritten"]
    assert sum(task["rows"] for task in found["tasks"]) == 100
    assert all(".zip/penstock/" in task["penstock"] for task in found["tasks"])

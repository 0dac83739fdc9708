"""Executors in processes of their own: one is killed amid a task, and a slow task runs twice at once; every row is there once, in order."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

import penstock
from penstock.spark.java import Java
from tests.servers import free_port
from tests.spark import quick
from tests.spark.produce.cluster import GROUPS, KILLED, QUEUES, ROWS, SLOW, TOPIC
from tests.spark.source.test_submit import python_errors
from tests.tree import ROOT
from tests.waiting import wait_until

pytestmark = [pytest.mark.thorough, pytest.mark.spark, pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(600)]

HOSTS = ("127.0.0.1", "localhost")
"""By their names; Spark runs no task twice on one host, so a ``local-cluster`` would not do."""


@contextmanager
def cluster(java: Java, folder: Path) -> Iterator[str]:
    """A standalone cluster of two workers, of one core each; its URL."""
    import pyspark

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{quick.JVM} -Dspark.master.rest.enabled=false",
    }
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    daemons = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for host in HOSTS:
        options = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / host)]
        daemons.append(["worker.Worker", *options, master])
    with ExitStack() as ending:
        for name, *arguments in daemons:
            command = [str(spark_class), f"org.apache.spark.deploy.{name}", *arguments]
            ending.enter_context(ended(command, environment))
            if name == "master.Master":
                wait_until(lambda: answers(port), "the cluster's master", timeout_s=120.0)
        yield master


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def ended(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone afterwards, with all that it has started."""
    child = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield child
    finally:
        below = psutil.Process(child.pid).children(recursive=True)
        child.terminate()
        child.wait(60)
        _, left = psutil.wait_procs(below, timeout=120)
        assert not left


def test_every_row_is_there_once_and_in_order(java: Java, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with penstock.connect(tmp_path / "lake", maintenance=False) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=QUEUES)
        with cluster(java, tmp_path) as master:
            command = [sys.executable, "-m", "tests.spark.produce.cluster", master, str(tmp_path / "lake"), str(marks)]
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
            run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False)
        assert run.returncode == 0, python_errors(run.stderr)
        for kind in (KILLED, SLOW):  # two processes had uploaded a part of the task
            task = (marks / f"{kind}-fate").read_text()
            assert len([*marks.glob(f"{kind}-{task}-0-*")]) > 1
        found = defaultdict(list)
        for message in lake.reader(TOPIC).messages():
            found[message.message_group].append(message.json()["seq"])
    assert found == {f"user-{user}": list(range(user, 2 * ROWS, GROUPS)) for user in range(GROUPS)}

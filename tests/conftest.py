"""What holds for all tests: what is skipped without its tool, and that CI does not skip what it could run."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from penstock.log.errors import MissingDependency
from penstock.spark.java import Java, find_java
from tests.figures import Figures
from tests.garbage import SET_ASIDE
from tests.gateway.kafka.clients import families as kafka
from tests.gateway.sdk import GO, JAVA, NODE, PYTHON
from tests.infra.web.journeys.found import CHROMIUM, MISSING
from tests.mariadb_server import find_mariadb_and_driver
from tests.mongodb_server import find_mongod
from tests.postgres_server import PostgresServer, find_postgres, postgres_server
from tests.racing import Racers
from tests.servers import DYNOXIDE, VERSITYGW, S3Server, moto_server, versitygw_server
from tests.signals import take_own_dispositions
from tests.spark import quick
from tests.stalls import Stalls
from tests.thorough import THOROUGH, examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The tool that builds or runs what tests with a mark need. In CI a skip is a failure where the tool is installed.
TOOLS = {
    "versitygw": "go",
    "dynoxide": "cargo",
    "spark": "java",
    "postgres": "initdb",
    "mariadb": "mariadbd",
    "go_sdk": "go",
    "java_sdk": "mvn",
    "node_sdk": "npm",
    "python_sdk": "python3",
    "go_kafka": "go",
    "java_kafka": "mvn",
    "node_kafka": "npm",
    "kafka_connect": "mvn",
}
# The server that tests with a mark need, and the name of what it comes with. `make setup` finds it, or builds it with its compiler.
SERVERS = {
    "versitygw": (VERSITYGW, "Go"),
    "dynoxide": (DYNOXIDE, "Rust"),
    "postgres": (find_postgres(), "PostgreSQL"),
    "mariadb": (find_mariadb_and_driver(), "MariaDB and its JDBC driver"),
    "mongodb": (find_mongod(), "MongoDB"),
    "go_sdk": (GO, "Go"),
    "java_sdk": (JAVA, "Maven and a JDK"),
    "node_sdk": (NODE, "npm"),
    "python_sdk": (PYTHON, "Python"),
    "go_kafka": (kafka.GO, "Go"),
    "java_kafka": (kafka.JAVA, "Maven and a JDK"),
    "node_kafka": (kafka.NODE, "npm"),
    "kafka_connect": (kafka.SPARK, "Maven"),
}


def pytest_configure(config: pytest.Config) -> None:
    take_own_dispositions()
    # The machine is shared, so the time that an example takes says nothing.
    settings.register_profile("shared machine", deadline=None, max_examples=examples(100))
    settings.load_profile("shared machine")
    config.pluginmanager.register(SkipsInCI(), "penstock-skips")
    config.pluginmanager.register(Figures(), "penstock-figures")
    config.pluginmanager.register(Stalls(), "penstock-stalls")


OF_SYNC = ("test_goes_on", "targets/test_names", "backends/test_sizes", "targets/test_takeover")
SPARK = ("tests/spark/", *(f"tests/cdc/sync/{name}.py" for name in OF_SYNC))
"""Where the tests are that share one Spark session. Others of change data do not wait for it."""
WHOLE_TREE = ("tests/test_layout.py", "tests/test_reference.py", "tests/test_tidy.py")
"""Tests that parse every file of the repository, which one worker does once."""

# Marks of tests that take long. Their files run first, so that no worker is left alone with them at the end.
LONG = ("slow", "spark", "processes", "simulation")

# Marks of tests that wait for other processes. These take many times as long on a machine that is busy with other things.
OF_MANY_PROCESSES = ("spark", "mariadb", "mongodb", "postgres", "processes", "chromium")
PATIENCE_S = 600


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not THOROUGH:
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    marks = {item: frozenset(mark.name for mark in item.iter_markers()) for item in items}
    items.sort(key=lambda item: (not item.nodeid.startswith(SPARK), marks[item].isdisjoint(LONG)))
    for item in items:
        if not marks[item].isdisjoint(OF_MANY_PROCESSES) and "timeout" not in marks[item]:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))
    for mark, (binary, compiler) in SERVERS.items():
        if binary.exists():
            continue
        for item in items:
            if mark in marks[item]:
                item.add_marker(pytest.mark.skip(reason=f"{mark} is not built: install {compiler}, then `make setup`"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Journeys without a browser are skipped, and fail in CI, where nobody reads of skips: set-up could have installed it."""
    if item.get_closest_marker("chromium") and not CHROMIUM.exists():
        if os.environ.get("CI"):
            pytest.fail(MISSING, pytrace=False)
        pytest.skip(MISSING)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine has an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_runtest_teardown() -> None:
    """A process that has started Java keeps it, and is ended or held up by what later tests do: deep recursion, forks."""
    jpype = sys.modules.get("jpype")
    if jpype is not None and jpype.isJVMStarted():
        pytest.fail(
            "this test, or one before it, started Java in the process of the tests: have a child process do it", pytrace=False
        )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules stay to the end: the garbage collector need not look at them while they come, nor thousands of times later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        SET_ASIDE.now()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """What is left after a file's tests stays too: libraries, servers' clients, Spark. Simulated runs collect thousands of times."""
    result = yield
    if nextitem is not None and nextitem.path != item.path:
        SET_ASIDE.now()
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Workers take file after file; one of them takes all of Spark's, as a session starts, and gets warm, in a minute of the processor.

    Another one takes those that read the whole repository.
    """
    from tests.scheduling import Scheduling

    together = (SPARK, WHOLE_TREE)
    return Scheduling(config, log, lambda test, file: next((them[0] for them in together if test.startswith(them)), file))


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with moto_server() as server:
        yield server


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if not VERSITYGW.exists():
        pytest.skip(f"{VERSITYGW} is missing: run make setup where Go is installed")
    with versitygw_server(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


@pytest.fixture(scope="session")
def racers() -> Iterator[Racers]:
    """Four processes, which may bring four threads each."""
    running = Racers(processes=4, threads=4)
    yield running
    running.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for many tests, which each use a database of their own."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def java() -> Java:
    try:
        return find_java()
    except MissingDependency as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark(java: Java) -> Iterator[SparkSession]:
    """One session for all tests. It can speak S3, to the endpoint that a test sets: the JVM takes only credentials at its start."""
    from penstock.spark import S3, session

    with pytest.MonkeyPatch.context() as environment:
        for name, value in S3Server("").environment.items():
            if "ENDPOINT" not in name:
                environment.setenv(name, value)
        running = session("penstock-tests", master="local[2]", s3=S3(path_style=True), conf=quick.QUERIES)
    yield running
    running.stop()


class SkipsInCI:
    """Fails a run in CI that skipped a test although the tool for it is there."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
            tools = [tool for mark, tool in TOOLS.items() if mark in report.keywords and shutil.which(tool)]
            if tools:
                self.skipped.append(f"{report.nodeid} (there is {', '.join(tools)})")

    # With xdist the process that prints the summary hears of every worker's reports.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        yield
        if self.skipped:
            terminalreporter.section("skipped in CI, which fails the run", red=True)
            for line in self.skipped:
                terminalreporter.line(line)

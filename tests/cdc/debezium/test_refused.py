"""What a capture by Debezium's engine refuses, and in which words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cdc.capture.errors import SourceUnavailable
from penstock.cdc.debezium import configuration, errors, jars
from penstock.cdc.debezium.errors import ConnectorStopped, engine_error
from penstock.infra.cli import main
from penstock.log.errors import InvalidArgument, MissingDependency, PermissionDenied
from tests.cdc.debezium.conftest import TOPIC, Capturing, counted
from tests.mariadb_server import PASSWORD
from tests.servers import die_with_parent
from tests.waiting import wait_until

real = [pytest.mark.mariadb, pytest.mark.slow]
THINGS = ("CREATE TABLE things (id INT PRIMARY KEY)", "INSERT INTO things VALUES (1), (2)")


def _configured(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "config.properties"
    path.write_text(text)
    lake = str(tmp_path / "lake")
    result = CliRunner().invoke(main, ["capture", "debezium", str(path), "--topic", "t", "--lake", lake, "--json"])
    assert result.exit_code == 2, result.output
    said: dict[str, str] = json.loads(result.output.splitlines()[-1])
    return said


def test_an_unknown_connector(tmp_path: Path) -> None:
    said = _configured(tmp_path, "connector.class = io.debezium.connector.mongodb.MongoDbConnector\n")
    assert said["error"] == "not_supported"
    assert said["observed"] == "io.debezium.connector.mongodb.MongoDbConnector"
    assert "MariaDbConnector" in said["expected"]


def test_no_connector_and_no_property(tmp_path: Path) -> None:
    assert _configured(tmp_path, "# nothing\n")["object"] == "connector.class"
    assert _configured(tmp_path, "database.hostname\n")["message"] == "this is no property"


def test_what_only_the_capture_may_set(tmp_path: Path) -> None:
    text = f"connector.class={configuration.MARIADB.class_name}\nsnapshot.mode=initial\ntransforms.x.type=y\n"
    assert _configured(tmp_path, text)["object"] == "snapshot.mode, transforms.x.type"


def test_a_configuration_of_kafka_connect_s() -> None:
    with pytest.raises(InvalidArgument, match="Kafka Connect JSON"):
        configuration.parse_properties('{\n"config": {}}', "shop.json")


def test_properties_as_java_writes_them() -> None:
    text = "# a remark\n\n a.b = c = d \n! another\nlist=one,\\\n   two\ncolon: yes\nback=a\\\\b\n"
    assert configuration.parse_properties(text, "x") == {"a.b": "c = d", "list": "one,two", "colon": "yes", "back": "a\\b"}


def test_jars_that_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "_ivy", lambda: None)
    monkeypatch.setattr("penstock.cdc.debezium.jars.shutil.which", lambda program: None)
    with pytest.raises(MissingDependency, match="could not be fetched") as caught:
        jars.ensure(configuration.MARIADB)
    assert caught.value.observed == "neither Maven nor PySpark's Ivy is here"
    assert str(tmp_path / "debezium") in str(caught.value.hint)


def test_a_jar_of_another_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "_ivy", lambda: None)

    def forged(wanted: list[jars.EngineJar], scratch: Path) -> None:
        for jar in wanted:
            (scratch / jar.file_name).write_bytes(b"no such thing")

    monkeypatch.setattr(jars, "_by_maven", forged)
    with pytest.raises(MissingDependency, match="another content than was pinned"):
        jars.ensure(configuration.MARIADB)
    assert not list((tmp_path / "debezium").glob("*.jar"))


def test_only_permissive_licences_and_one_connector() -> None:
    listed = jars.jar_list(configuration.MARIADB)
    assert {jar.licence for jar in listed} <= {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT"}
    assert "debezium-connector-mysql" not in {jar.name for jar in listed}
    assert not [jar for jar in listed if jar.name in {"mysql-connector-j", "mariadb-java-client"}]


def test_a_driver_that_is_not_there() -> None:
    with pytest.raises(MissingDependency, match="the driver of MariaDB is missing: it is under the LGPL") as caught:
        jars.find_driver(configuration.MARIADB, None, places=())
    assert "--driver-jar" in str(caught.value.expected)
    with pytest.raises(InvalidArgument, match="no such driver"):
        jars.find_driver(configuration.MARIADB, "/nonexistent.jar")


def test_no_password_on_the_command_line(tmp_path: Path) -> None:
    arguments = ["capture", "mariadb", "mariadb://ann:secret@127.0.0.1/shop", "--topic", "t", "--lake", str(tmp_path / "lake")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "No password on the command line" in result.output


def test_no_password_among_the_settings(tmp_path: Path) -> None:
    arguments = ["capture", "mariadb", "mariadb://ann@127.0.0.1/shop", "--topic", "t", "--lake", str(tmp_path / "lake")]
    result = CliRunner().invoke(main, [*arguments, "--set", "database.password=secret"])
    assert result.exit_code == 2
    assert "No password on the command line: set PENSTOCK_DATABASE_PASSWORD" in result.output
    assert "secret" not in result.output


def test_a_gap_in_the_gtids_says_what_to_do() -> None:
    found = engine_error(
        "Error: connecting slave requested to start from GTID 0-7-9, which is not in the master's binlog", "db:3306"
    )
    assert "(a gap in its GTIDs)" in str(found)
    assert "0-7-9" in str(found.observed)
    assert str(found.hint).startswith("capture into a new topic")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Could not find first log file name in binary log index file Error code: 1236", errors.BinlogLost),
        ("Error: connecting slave requested to start from GTID 0-7-9, which is not in the master's binlog", errors.BinlogLost),
        ("Replica has more GTIDs than the source has, using the source's SERVER_UUID.", errors.BinlogLost),
        ("Slave has more GTIDs than the master has, using the master's SERVER_UUID.", errors.BinlogLost),
        ("Client requested source to start replication from position > file size", errors.BinlogLost),
        ("Access denied for user 'ann'@'localhost'", PermissionDenied),
        ("Connector configuration is not valid. The 'x' value is invalid", InvalidArgument),
        ("Socket fail to connect to host:127.0.0.1", SourceUnavailable),
        ("The db history topic or its content is fully or partially missing.", errors.HistoryLost),
        ("Error processing binlog event", errors.EventUnreadable),
        ("Error while deserializing binlog data of datetimeV2: Invalid date 'FEBRUARY 31'", errors.DateUnreadable),
        ("Error while deserializing binlog data of date: Read timed out", ConnectorStopped),
        ("it completed, though nobody told it to", ConnectorStopped),
    ],
)
def test_what_the_engine_says_when_it_ends(words: str, kind: type[Exception]) -> None:
    found = engine_error(f"ConnectException: the connector will be stopped\nDebeziumException: {words}", "db:3306")
    assert type(found) is kind
    assert found.object == "db:3306"


@pytest.mark.parametrize(
    ("words", "table"),
    [
        ("Encountered change event for table shop.a b whose schema isn't known to this connector", "shop.a b"),
        ("Error processing row in w, internal schema size 2, but row size 4 , restart connector with schema recovery mode.", "w"),
        ("Error processing row in a.b c, internal schema size 2, but row size 4 , restart connector", "a.b c"),
        (
            "Error processing UPDATE of row in w because it's different column size with internal schema size 2, but after size 4",
            "w",
        ),
    ],
)
def test_an_event_of_a_table_whose_columns_are_others_names_it(words: str, table: str) -> None:
    found = engine_error(f"DebeziumException: Error processing binlog event\nDebeziumException: {words}", "db:3306")
    assert isinstance(found, errors.TableUnfollowed)
    assert found.object == table


def _purged(capture: Capturing) -> bool:
    """Whether all logs but the last are gone. The server keeps one for as long as a replica seems to read it."""
    logs = [row[0] for row in capture.server.ask("SHOW BINARY LOGS")]
    capture.run(f"PURGE BINARY LOGS TO '{logs[-1]}'")
    return len(capture.server.ask("SHOW BINARY LOGS")) == 1


def _reads_on(capture: Capturing) -> bool:
    """Whether a capture has a place in the log, and all rows are in the topic."""
    states = [json.loads(path.read_text()) for path in Path(capture.lake).glob("captures/*/debezium/penstock/state")]
    return any(state["offset"] is not None and not state["pending"] for state in states)


class TestOnAServer:
    pytestmark = real

    def test_a_binlog_that_is_purged_and_a_new_beginning(self, capture: Capturing) -> None:
        capture.run(*THINGS)
        capture()
        capture.run("INSERT INTO things VALUES (3)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        wait_until(lambda: _purged(capture), "the server lets go of its old logs")
        said = capture.error()
        assert said["error"] == "binlog_lost"
        assert "--snapshot again" in said["hint"]
        capture("--snapshot", "again")

    def test_a_log_that_has_begun_anew(self, capture: Capturing) -> None:
        capture.run(*THINGS, "FLUSH BINARY LOGS")
        capture()
        capture.run("INSERT INTO things VALUES (3)")
        capture()
        capture.run("RESET MASTER")
        assert capture.error()["error"] == "source_replaced"
        assert capture.error("--snapshot", "again")["error"] == "source_replaced"

    def test_what_a_capture_kept_does_not_fit(self, capture: Capturing) -> None:
        """Another capture's, another server's, a gap in the GTIDs, and a history that is lost; one capture that has begun does for all."""
        capture.run(*THINGS)
        capture()
        found = capture.error("--name", "other")
        assert found["message"] == "another capture sends changes of these tables to this topic"
        assert "--name penstock" in found["hint"]

        state = capture.folder() / "state"
        said = json.loads(state.read_text())
        state.write_text(json.dumps({**said, "server": "8 another"}))
        assert capture.error()["error"] == "source_replaced"

        offset = json.loads(said["offset"])
        offset["gtids"] = offset["gtids"].rpartition("-")[0] + "-99999999"
        state.write_text(json.dumps({**said, "offset": json.dumps(offset)}))
        found = capture.error()
        assert found["error"] == "binlog_lost", found
        assert found["message"].startswith("the binlog is lost")
        assert "--snapshot again" in found["hint"]

        state.write_text(json.dumps(said))
        (capture.folder() / "history" / "00000000").unlink()
        found = capture.error()
        assert (found["error"], found["observed"]) == ("history_lost", "this one is missing")

    def test_a_server_without_a_row_binlog(self, capture: Capturing) -> None:
        capture.run(*THINGS, "SET GLOBAL binlog_format = 'STATEMENT'")
        try:
            said = capture.error()
        finally:
            capture.run("SET GLOBAL binlog_format = 'ROW'")
        assert (said["expected"], said["observed"]) == ("binlog_format = ROW", "binlog_format = STATEMENT")
        assert not Path(capture.lake, "captures").exists()

    def test_a_user_who_may_not(self, capture: Capturing) -> None:
        capture.run(*THINGS)
        capture.server.make_user("poor", "SELECT")
        said = capture.error(user="poor")
        assert said["error"] == "permission_denied"
        assert "no RELOAD" in said["observed"]
        assert capture.error(user="nobody")["error"] == "permission_denied"

    def test_a_table_without_a_key(self, capture: Capturing) -> None:
        capture.run("CREATE TABLE things (id INT)", "INSERT INTO things VALUES (1)")
        assert "no primary key" in capture.error()["message"]

    def test_no_table(self, capture: Capturing) -> None:
        assert "names no table" in capture.error()["message"]

    @pytest.mark.thorough  # the sender of a capture that another one fences: `test_parts.py`
    def test_two_captures_of_one_name(self, capture: Capturing, tmp_path: Path) -> None:
        """The later one takes over; the earlier one ends as soon as it has something to send."""
        capture.run(*THINGS)
        url = f"mariadb://penstock@127.0.0.1:{capture.server.port}/{capture.database}"
        program = [str(Path(sys.executable).with_name("penstock")), "capture", "mariadb", url]
        said = tmp_path / "said"
        with said.open("wb") as output:
            first = subprocess.Popen(
                [*die_with_parent(), *program, "--lake", capture.lake, "--topic", TOPIC, "--json"],
                stdout=output,
                stderr=output,
                env={**os.environ, "PENSTOCK_DATABASE_PASSWORD": PASSWORD},
            )
        try:
            wait_until(lambda: first.poll() is not None or _reads_on(capture), "the first capture has read the rows", timeout_s=120)
            capture()
            capture.run("INSERT INTO things VALUES (3)")
            assert first.wait(120) not in (0, -9)
        finally:
            first.kill()
            first.wait()
        assert json.loads(said.read_text().splitlines()[-1])["error"] == "fenced", said.read_text()
        capture()
        assert counted(capture.events()) == {"r": 2, "c": 1}

    def test_another_choice_of_tables(self, capture: Capturing) -> None:
        things, others = f"{capture.database}.things", f"{capture.database}.others"
        capture.run(*THINGS, "CREATE TABLE others (id INT PRIMARY KEY)", "INSERT INTO others VALUES (1)")
        capture("--table", things)
        said = capture.error("--table", things, "--table", others)
        assert said["message"].startswith("the capture has begun with another choice of tables")
        assert "--snapshot again" in said["hint"]
        capture("--table", others, "--name", "others")
        capture("--table", things)
        assert counted(capture.events()) == {"r": 3}

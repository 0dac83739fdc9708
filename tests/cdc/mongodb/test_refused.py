"""What keeps a capture of a MongoDB from going on: each says what it is, and what to do."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cdc.capture.errors import SourceUnavailable
from penstock.cdc.mongodb.errors import OplogLost, translation
from penstock.infra.cli import main
from penstock.log.errors import InternalError, InvalidArgument, LimitExceeded, PermissionDenied
from tests.cdc.mongodb.conftest import Capturing
from tests.cdc.mongodb.test_capture import ids, synced
from tests.mongodb_server import mongodb_server

pytestmark = [pytest.mark.mongodb, pytest.mark.timeout(300)]


def test_a_server_in_no_replica_set(capture: Capturing) -> None:
    with mongodb_server(is_set=False) as alone:
        said = capture.error(url=alone.url("shop"))
    assert (said["error"], said["expected"]) == ("invalid_argument", "a replica set; one server may be a set of its own")
    assert "rs.initiate()" in said["hint"]


def test_a_sharded_cluster(capture: Capturing, monkeypatch: pytest.MonkeyPatch) -> None:
    from pymongo.database import Database

    really = Database.command
    said = {"msg": "isdbgrid", "isWritablePrimary": True}
    monkeypatch.setattr(Database, "command", lambda db, *words, **more: said if words == ("hello",) else really(db, *words, **more))
    found = capture.error()
    assert (found["error"], found["observed"]) == ("not_supported", "a sharded cluster")


def test_a_url_without_a_database(capture: Capturing) -> None:
    said = capture.error(url=f"mongodb://127.0.0.1:{capture.server.port}/")
    assert said["message"] == "the URL names no database"


def test_the_server_s_own_database(capture: Capturing) -> None:
    assert capture.error(url=capture.server.url("local"))["message"] == "the database is the server's own"


def test_time_series_are_left_out_with_a_word_and_refused_by_name(capture: Capturing, caplog: pytest.LogCaptureFixture) -> None:
    capture.db.create_collection("measured", timeseries={"timeField": "at"})
    capture.db.orders.insert_one({"_id": 1})
    capture()
    assert "measured is left out: it is a collection of time series" in caplog.text
    said = capture.error("--table", "measured", "--table", "orders", "--snapshot", "again")
    assert said["message"].startswith("a collection of time series cannot be captured")
    assert said["hint"] == "leave it out of --table"


def test_a_user_without_a_password(capture: Capturing) -> None:
    said = capture.error(url=f"mongodb://me@127.0.0.1:{capture.server.port}/shop")
    assert (said["error"], said["observed"]) == ("invalid_argument", "A password is required")
    assert "PENSTOCK_DATABASE_PASSWORD" in said["hint"]


def test_no_url(capture: Capturing) -> None:
    assert capture.error(url="nosql://shop")["error"] == "invalid_argument"


def test_a_password_on_the_command_line(capture: Capturing) -> None:
    result = CliRunner().invoke(
        main, ["capture", "mongodb", "mongodb://me:secret@127.0.0.1/shop", "--topic", "t", "--lake", capture.lake]
    )
    assert result.exit_code == 2
    assert "PENSTOCK_DATABASE_PASSWORD" in result.output
    assert "secret" not in result.output


@pytest.mark.parametrize("database", ["sqlserver", "oracle"])
def test_a_database_that_is_not_captured(database: str) -> None:
    result = CliRunner().invoke(main, ["capture", database, "somewhere", "--topic", "t"])
    assert result.exit_code == 2
    assert f"No capture of {database}" in result.output
    assert "Debezium Server" in result.output


def test_no_such_collection(capture: Capturing) -> None:
    said = capture.error("--table", "orders")
    assert said["message"] == "there is no such collection"
    assert said["object"].endswith(": orders")


def test_a_log_without_the_last_change(capture: Capturing) -> None:
    capture.db.a.insert_one({"_id": 1})
    capture()
    capture.db.a.insert_one({"_id": 2})
    capture()
    state = json.loads(capture.state().read_text())
    offset = json.loads(state["offset"])
    offset["token"] = f"826B000000{offset['token'][10:]}"  # an event that the log does not have
    capture.state().write_text(json.dumps({**state, "offset": json.dumps(offset)}))
    said = capture.error()
    assert said["error"] == "source_replaced"
    assert "--snapshot again" in said["hint"]
    capture("--snapshot", "again")
    assert [one.op for one in capture.events() if one.identity == "1"] == ["r", "r"]


@pytest.mark.thorough  # a log without the last change, and another server of the same name
def test_a_server_whose_log_has_another_history(tmp_path: Path) -> None:
    """As where a backup was put back. The time of its log goes on with the clock, so it tells nothing."""
    with mongodb_server() as server, server.client() as client:
        capture = Capturing(server, client.shop, str(tmp_path / "lake"))
        capture.db.a.insert_one({"_id": 1})
        capture("--heartbeat")
        server.stop(signal.SIGTERM)
        shutil.copytree(server.folder, tmp_path / "backup")
        server.start()
        capture.db.a.insert_one({"_id": 2})
        capture("--heartbeat")
        client.elsewhere.a.insert_one({"_id": 1})
        capture("--heartbeat")  # it rests at a time at which the log has nothing of its database
        server.stop(signal.SIGTERM)
        shutil.rmtree(server.folder)
        shutil.move(tmp_path / "backup", server.folder)
        server.start()
        capture.db.a.insert_one({"_id": 3})
        said = capture.error()
        capture("--snapshot", "again", "--heartbeat")
    assert (said["error"], said["hint"]) == ("source_replaced", "begin again by reading all collections: --snapshot again")
    assert ids(synced(capture, tmp_path / "into")) == {"a": ["1", "3"]}


def test_another_server_of_the_same_name(capture: Capturing) -> None:
    capture.db.a.insert_one({"_id": 1})
    capture("--heartbeat")
    with mongodb_server() as other, other.client() as client:
        client[capture.db.name].a.insert_one({"_id": 2})
        said = capture.error(url=other.url(capture.db.name))
    assert said["error"] == "source_replaced"
    assert "into a new topic" in said["hint"]


def test_a_server_that_still_behaves_as_an_earlier_version(tmp_path: Path) -> None:
    """It has no post-images, so documents are looked up."""
    with mongodb_server() as server, server.client() as client:
        client.admin.command("setFeatureCompatibilityVersion", "5.0")
        capture = Capturing(server, client.shop, str(tmp_path / "lake"))
        capture.db.a.insert_one({"_id": 1})
        capture()
        capture.db.a.update_one({"_id": 1}, {"$set": {"x": 1}})
        assert json.loads(capture())["events"] == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (286, OplogLost),
        (280, OplogLost),
        (10334, LimitExceeded),
        (13, PermissionDenied),
        (18, PermissionDenied),
        (43, SourceUnavailable),
        (50, SourceUnavailable),
        (237, SourceUnavailable),
        (11600000, InternalError),
    ],
)
def test_what_the_driver_says(code: int, kind: type[Exception]) -> None:
    from pymongo.errors import OperationFailure

    error = translation(OperationFailure("not allowed", code), "db:27017/shop")
    assert type(error) is kind
    assert "not allowed" in str(error)


@pytest.mark.parametrize(
    ("said", "kind"),
    [("Sessions are not supported by this MongoDB deployment", SourceUnavailable), ("unknown option", InvalidArgument)],
)
def test_a_server_that_begins_is_no_wrong_url(said: str, kind: type[Exception]) -> None:
    from pymongo.errors import ConfigurationError

    assert type(translation(ConfigurationError(said), "db:27017/shop")) is kind


def test_two_captures_of_one_source_and_another_choice(capture: Capturing) -> None:
    capture.db.a.insert_one({"_id": 1})
    capture.db.b.insert_one({"_id": 1})
    capture("--table", "a")
    assert capture.error("--name", "other")["message"] == "another capture sends changes of these tables to this topic"
    assert "another choice of tables" in capture.error("--table", "a", "--table", "b")["message"]
    capture("--table", "b", "--name", "other")
    capture("--snapshot", "again", "--table", "a")

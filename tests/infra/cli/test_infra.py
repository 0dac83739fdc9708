"""`penstock infra`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.infra.deploy.access import ProcessRole
from penstock.infra.deploy.generated_files import KINDS
from penstock.infra.deploy.grants import grants
from penstock.infra.deploy.policies import policy
from tests.infra.cli.conftest import Penstock
from tests.lakes import TIMEOUT_S

URL = "s3://lakes/prod?region=eu-west-1"


@pytest.mark.parametrize("role", list(ProcessRole))
def test_policy_prints_what_the_module_says(penstock: Penstock, role: ProcessRole) -> None:
    said = penstock("infra", "policy", role.value, "--lake", URL)
    assert json.loads(said.out) == policy([role], URL)
    assert len(said.out.splitlines()) > 10  # for people
    assert penstock("infra", "policy", role.value, "--lake", URL, "--json").rows == [policy([role], URL)]


def test_policy_takes_every_option(penstock: Penstock) -> None:
    options = {
        "coordination": "dynamodb://cells/prod?region=eu-west-1",
        "account": "123456789012",
        "kms_key": "arn:aws:kms:eu-west-1:123456789012:key/1",
    }
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    limits = ["--topic", "orders", "--topic", "audit", "--group", "billing"]
    said = penstock("infra", "policy", "consumer", "maintenance", "--lake", URL, *words, *limits, "--json")
    assert said.rows == [
        policy([ProcessRole.CONSUMER, ProcessRole.MAINTENANCE], URL, **options, topics=["orders", "audit"], groups=["billing"])
    ]
    who = "arn:aws:iam::123456789012:role/worker"
    said = penstock("infra", "policy", "reader", "--lake", URL, "--principal", who, "--json")
    assert said.rows == [policy([ProcessRole.READER], URL, principal=who)]


def test_policy_reads_where_cells_lie_from_the_environment(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_COORDINATION", "dynamodb://cells")
    said = penstock("infra", "policy", "consumer", "--lake", URL, "--json")
    assert said.rows == [policy([ProcessRole.CONSUMER], URL, coordination="dynamodb://cells")]


def test_policy_prints_the_grants_of_a_table_in_postgresql(penstock: Penstock) -> None:
    place = "postgresql://worker@db/shop"
    words = ["infra", "policy", "consumer", "--lake", URL, "--coordination", place]
    beside = penstock(*words)
    assert json.loads(beside.out) == policy([ProcessRole.CONSUMER], URL, coordination=place)
    assert "--grants prints them" in beside.err
    statements = grants([ProcessRole.CONSUMER], place)
    assert penstock(*words, "--grants").out.splitlines() == statements
    assert penstock(*words, "--grants", "--json").rows == [{"statements": statements}]
    assert penstock("infra", "policy", "capture", "--grants", "--coordination", place).out == "-- These roles use no cells.\n"
    assert "only a table in PostgreSQL has GRANTs" in penstock("infra", "policy", "consumer", "--grants", code=2).err


def test_policy_says_what_is_wrong(penstock: Penstock) -> None:
    assert "policies are there for lakes on S3" in penstock("infra", "policy", "reader", code=2).err  # the lake is a folder
    assert "'nobody' is not one of 'reader'" in penstock("infra", "policy", "nobody", code=2).err
    assert "bad topic name" in penstock("infra", "policy", "reader", "--lake", URL, "--topic", "a/b", code=2).err


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_files_are_written_and_those_of_the_same_names_replaced(penstock: Penstock, tmp_path: Path, kind: str) -> None:
    folder, files = tmp_path / "new" / kind, KINDS[kind].files()
    folder.mkdir(parents=True)
    (folder / "mine").write_text("kept")
    (folder / min(files)).write_text("of an older version")
    said = penstock("infra", kind, folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {**files, "mine": "kept"}
    assert str(folder) in said.out
    assert "Next: " in said.out
    assert penstock("infra", kind, folder, "--json").rows == [{"folder": str(folder), "files": sorted(files)}]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_it_is_said_where_files_cannot_be_written(penstock: Penstock, tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in penstock("infra", kind, tmp_path / "file", code=2).err
    assert "cannot be written: Not a directory" in penstock("infra", kind, tmp_path / "file" / "below", code=1).err
    assert "Missing argument 'FOLDER'" in penstock("infra", kind, code=2).err


def test_table_create_wants_a_table(penstock: Penstock) -> None:
    assert "Which table?" in penstock("infra", "table", "create", code=2).err
    refused = penstock("infra", "table", "create", "--coordination", "sqlite:///tmp/cells", code=2)
    assert "only a table in DynamoDB or PostgreSQL is made by hand" in refused.err


def test_local_without_moto_names_the_extra(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moto", None)
    monkeypatch.setitem(sys.modules, "moto.server", None)
    assert "pip install '.[testing]'" in penstock("infra", "local", code=2).err


@pytest.mark.s3
def test_local_names_a_port_that_is_taken(penstock: Penstock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = penstock("infra", "local", "--port", str(port), code=2)
    assert "no server can listen here" in refused.err
    assert f"127.0.0.1:{port}" in refused.err


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_local_serves_until_it_is_told_to_end(number: signal.Signals) -> None:
    called = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PENSTOCK_"))}
    serving = subprocess.Popen([*called, "infra", "local", "--json"], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert serving.stdout is not None
        said = json.loads(serving.stdout.readline())["environment"]
        used = subprocess.run(
            [*called, "infra", "table", "create"], check=False, capture_output=True, text=True, env={**environment, **said}
        )
        assert used.stdout == "dynamodb://penstock can be used.\n", used.stderr
    finally:
        serving.send_signal(number)
        ended = serving.wait(timeout=TIMEOUT_S)
        assert serving.stdout is not None
        serving.stdout.close()
    assert ended == 128 + number

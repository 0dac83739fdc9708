"""Cuts of a lake and of targets on S3: by the library and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import penstock
from penstock import NoCut, SyncOptions, sync
from penstock.infra.cli import main
from tests.cdc.cuts.topics import TOPIC, rows, shop
from tests.servers import S3Server

pytestmark = [pytest.mark.versitygw, pytest.mark.slow]


def test_cuts_on_s3_are_recorded_listed_read_and_exported(
    tmp_path: Path, versitygw: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, setting in versitygw.environment.items():
        if name.startswith("AWS_ENDPOINT"):
            monkeypatch.delenv(name, raising=False)  # the URLs have it
        else:
            monkeypatch.setenv(name, setting)
    lake, into = versitygw.url("cuts-lake"), versitygw.url("cuts-targets")
    with shop(tmp_path, lake_url=lake) as source:
        for value in (10, 11):
            source.send(("a", 1, value), ("b", 1, value))
            run = sync(lake, TOPIC, SyncOptions(into=into, cuts=True))
            assert run.await_termination()
    for number, value in ((1, 10), (2, 11)):
        found = penstock.at_cut(into, number)
        assert {table: rows(found, table) for table in found} == {"a": {1: value}, "b": {1: value}}
    listed = CliRunner().invoke(main, ["cuts", "list", into, "--json"], catch_exceptions=False)
    assert [json.loads(line)["number"] for line in listed.output.splitlines()] == [1, 2]
    exported = CliRunner().invoke(main, ["cuts", "export", into, str(tmp_path / "day"), "--cut", "1"], catch_exceptions=False)
    assert exported.exit_code == 0, exported.output
    with pytest.raises(NoCut):
        penstock.at_cut(versitygw.url("elsewhere"))

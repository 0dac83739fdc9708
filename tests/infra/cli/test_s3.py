"""The command line on an S3 server: lakes, imports and exports there."""

from __future__ import annotations

import json

import obstore
import pytest
from obstore.store import S3Store

from penstock import Lake
from penstock.testing import S3Server
from tests.infra.cli.conftest import Penstock

pytestmark = pytest.mark.s3


def test_lake_import_and_export_on_s3(
    penstock: Penstock, penstock_s3_lake: Lake, penstock_s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = penstock_s3_lake.url
    bucket = url.removeprefix("s3://").partition("/")[0]
    monkeypatch.setenv("PENSTOCK_LAKE", url)
    files = S3Store(bucket, endpoint=penstock_s3_server.endpoint, client_options={"allow_http": True})
    checks = penstock("doctor", url, "--json").rows
    assert not [check for check in checks if check["status"] == "problem"]
    assert not [info for infos in obstore.list(files) for info in infos]
    obstore.put(files, "in/day.jsonl", b'{"n": 1}\n{"n": 2}\n')
    penstock("topic", "create", "orders", "--queues", "1")
    assert "2 messages" in penstock("produce", "orders", f"s3://{bucket}/in/day.jsonl").out
    penstock("read", "orders", "-o", f"s3://{bucket}/out/day.jsonl")
    exported = obstore.get(files, "out/day.jsonl").bytes().to_bytes().splitlines()
    assert [json.loads(json.loads(line)["body"])["n"] for line in exported] == [1, 2]
    assert penstock("verify", "--json").rows[0]["ok"]
    assert "there is no such file" in penstock("produce", "orders", f"s3://{bucket}/in/night.jsonl", code=2).err


def test_a_missing_bucket_is_told(penstock: Penstock, penstock_s3_lake: Lake, penstock_s3_server: S3Server) -> None:
    elsewhere = penstock_s3_server.url("no-such-bucket")
    assert "no such bucket" in penstock("--lake", elsewhere, "topic", "create", "orders", code=2).err
    checks = {row["name"]: row for row in penstock("doctor", elsewhere, "--json", code=1).rows}
    assert checks["write"]["status"] == "problem"
    assert "Create s3://no-such-bucket" in checks["write"]["fix"]

"""The Terraform files that `penstock infra terraform` writes: just what the code says, in the form that Terraform wants."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.coordinator.tables.dynamodb import DynamoDBTable
from penstock.infra.deploy.access import ProcessRole
from penstock.infra.deploy.hcl import GENERATED, files, policies
from penstock.infra.deploy.policies import policy
from penstock.log import Runtime
from penstock.log.paths import TopicPaths
from tests.infra.deploy.iam import matches
from tests.tree import ROOT

FOLDER = ROOT / "infra" / "deploy" / "terraform"


@pytest.mark.parametrize("role", list(ProcessRole))
@pytest.mark.parametrize("table", ["", "cells"])
def test_terraform_allows_what_the_policies_allow(role: ProcessRole, table: str) -> None:
    """Reads the file as Terraform would: chooses the statements that are needed, and puts in what its names stand for."""
    prefix, arn = "prod/", "arn:aws:dynamodb:*:*:table/cells"
    values = {"local.bucket": "arn:aws:s3:::lakes", "local.lake": f"arn:aws:s3:::lakes/{prefix}", "local.prefix": prefix,
              "local.table": arn, "local.cells": ""}  # fmt: skip
    (document,) = re.findall(rf'^data "aws_iam_policy_document" "{role}" {{$(.*?)^}}$', policies(), re.MULTILINE | re.DOTALL)
    needed = [
        found
        for block in re.findall(r"^  (?:dynamic \"statement\"|statement) \{$.*?^  \}$", document, re.MULTILINE | re.DOTALL)
        for found in [(_chosen(block, table), block)]
        if found[0]
    ]
    read = {_statement(block, values) for _, block in needed}
    place = "dynamodb://cells" if table else "store"
    expected = policy([role], "s3://lakes/prod", coordination=place)["Statement"]
    assert isinstance(expected, list)
    assert read == {
        (
            tuple(one["Action"]),
            tuple(one["Resource"]),
            *(v for test in one.get("Condition", {}).values() for v in map(tuple, test.values())),
        )
        for one in expected
    }


def _chosen(block: str, table: str) -> bool:
    condition = re.search(r'for_each = var\.(\w+) (==|!=) ""', block)
    if condition is None:
        return True
    value = {"table": table, "kms_key_arn": ""}[condition[1]]
    return (value == "") == (condition[2] == "==")


def _statement(block: str, values: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    found = []
    for name in ("actions", "resources", "values"):
        for items in re.findall(rf"^ +{name} += \[(.*?)\]$", block, re.MULTILINE | re.DOTALL):
            texts = [item.strip().strip('"') for item in items.split(",") if item.strip()]
            plain = [values.get(text, re.sub(r"\$\{([^}]*)\}", lambda match: values[match[1]], text)) for text in texts]
            found.append(tuple(plain))
    return tuple(found)


@pytest.mark.skipif(shutil.which("terraform") is None, reason="Terraform is not installed")
def test_terraform_finds_nothing_to_format(tmp_path: Path) -> None:
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    run = subprocess.run(["terraform", f"-chdir={tmp_path}", "fmt", "-check", "-diff"], check=False, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_table_is_the_one_that_the_command_makes() -> None:
    made: list[dict[str, object]] = []

    class Client:
        """Takes what is asked of DynamoDB down."""

        def create_table(self, **request: object) -> None:
            made.append(request)

        def describe_table(self, **_: object) -> dict[str, object]:
            return {"Table": {**made[0], "TableStatus": "ACTIVE"}}

        def get_waiter(self, _: str) -> Client:
            return self

        def wait(self, **_: object) -> None:
            """It is there at once."""

    client = Client()
    DynamoDBTable("dynamodb://cells", "cells", reader=client, writer=client, runtime=Runtime())._create()  # type: ignore[arg-type]
    (request,) = made
    (block,) = re.findall(r'^resource "aws_dynamodb_table" "cells" \{$(.*?)^\}$', files()["lake.tf"], re.MULTILINE | re.DOTALL)
    settings = dict(re.findall(r'^ +(\w+) += "?([^"\n]+)"?$', block, re.MULTILINE))
    assert settings["billing_mode"] == request["BillingMode"]
    assert request["KeySchema"] == [{"AttributeName": settings["hash_key"], "KeyType": "HASH"}]
    assert request["AttributeDefinitions"] == [{"AttributeName": settings["hash_key"], "AttributeType": settings["type"]}]


def test_every_policy_is_handed_out() -> None:
    outputs = set(re.findall(r"aws_iam_policy\.(\w+)\.arn", files()["lake.tf"]))
    assert outputs == set(ProcessRole) == set(re.findall(r'^resource "aws_iam_policy" "(\w+)"', files()[GENERATED], re.MULTILINE))


def test_what_stands_in_place_of_settings_of_the_bucket_is_off_unless_asked_for() -> None:
    text = files()["lake.tf"]
    for option in ("manage_bucket_policy", "manage_versioning"):
        assert re.search(rf'^variable "{option}" \{{$[^}}]*^  default     = false$', text, re.MULTILINE)
    blocks = re.findall(r'^resource "aws_s3_\w+" "lake" \{$(.*?)^\}$', text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    assert all(re.search(r"^  count +=\ var\.manage_\w+ \? 1 : 0$", block, re.MULTILINE) for block in blocks)


def test_what_only_grows_is_what_the_code_writes_if_absent_alone() -> None:
    """The bucket's policy names entries and checkpoints, and nothing that is written in place, such as the floor."""
    text = (FOLDER / "lake.tf").read_text()
    (listed,) = re.findall(r'sid       = "LogsOnlyGrow".*?resources = \[(.*?)\]', text, re.DOTALL)
    patterns = [one.removeprefix("${local.lake}") for one in re.findall(r'"([^"]+)"', listed)]
    paths = TopicPaths.of("orders")
    for key in (paths.entry(42), paths.checkpoint(40)):
        assert any(matches(pattern, key) for pattern in patterns), key
    for key in (paths.floor, paths.settings, paths.job_record("j"), "coordination/groups/billing", ".probe/x"):
        assert not any(matches(pattern, key) for pattern in patterns), key

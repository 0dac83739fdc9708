"""What `penstock infra` writes for Kubernetes, Compose and Terraform names one lake, one table of cells and the same roles."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from penstock.infra.deploy.access import ProcessRole
from penstock.infra.deploy.generated_files import KINDS
from tests.infra.deploy.test_compose import taken

LAKE = {"AWS_REGION", "PENSTOCK_LAKE", "PENSTOCK_COORDINATION"}
MANIFESTS = {name: list(yaml.safe_load_all(text)) for name, text in KINDS["kubernetes"].files().items()}
COMPOSE: dict[str, Any] = yaml.safe_load(KINDS["compose"].files()["compose.yaml"])
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
TERRAFORM = KINDS["terraform"].files()
ROLES = {
    "consume": {ProcessRole.CONSUMER},
    "maintain": {ProcessRole.MAINTENANCE},
    "gateway rocketmq": {ProcessRole.GATEWAY, ProcessRole.PRODUCER, ProcessRole.TRANSACTIONS, ProcessRole.CONSUMER},
    "gateway kafka": {ProcessRole.GATEWAY, ProcessRole.PRODUCER, ProcessRole.CONSUMER},
}
"""The roles of a process, by its command."""


def of_kind(*kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((file, one) for file, documents in MANIFESTS.items() for one in documents if one["kind"] in kinds)


def containers() -> dict[str, tuple[str, dict[str, Any]]]:
    """Each by its pods' name, and the file that it stands in."""
    found = of_kind("Deployment", "StatefulSet")
    return {one["metadata"]["name"]: (file, *one["spec"]["template"]["spec"]["containers"]) for file, one in found}


def lake() -> Mapping[str, str]:
    ((file, found),) = of_kind("ConfigMap")
    assert (file, found["metadata"]["name"]) == ("lake.yaml", "penstock-lake")
    said: Mapping[str, str] = found["data"]
    return said


def command(words: list[str]) -> str:
    """What of ROLES it is."""
    return " ".join(words[:2]) if words[0] == "gateway" else words[0]


def test_there_is_one_place_for_the_lake_of_all_manifests() -> None:
    assert lake().keys() == LAKE
    assert {command(container["args"]) for _, container in containers().values()} == ROLES.keys()


@pytest.mark.parametrize("name", containers())
def test_a_process_reads_that_place_and_no_other(name: str) -> None:
    file, container = containers()[name]
    assert {"configMapRef": {"name": "penstock-lake"}} in container["envFrom"]
    own = {one["name"] for one in container.get("env", ())}
    for source in container["envFrom"]:
        if "secretRef" in source:
            own |= {
                key
                for _, one in of_kind("Secret")
                if one["metadata"]["name"] == source["secretRef"]["name"]
                for key in one["stringData"]
            }
    assert not own & LAKE, "it would be another lake"
    assert not [word for word in container["args"] if word.startswith(("--lake", "--coordination"))]
    assert f"kubectl apply -f lake.yaml -f {file}" in KINDS["kubernetes"].files()[file]


@pytest.mark.parametrize("name", SERVICES)
def test_compose_runs_the_same_processes_on_the_same_lake(name: str) -> None:
    words, environment = SERVICES[name]["command"], SERVICES[name]["environment"]
    taken(words)
    assert {one: environment.get(one) for one in LAKE} == lake()
    (manifest,) = (container["args"] for _, container in containers().values() if command(container["args"]) == command(words))
    addresses = ("--advertise", "--address")
    assert [one for one in words if not one.startswith(addresses)] == [one for one in manifest if not one.startswith(addresses)]


def test_compose_runs_all_processes_and_says_their_roles() -> None:
    assert {command(one["command"]) for one in SERVICES.values()} == ROLES.keys()
    assert roles_said(KINDS["compose"].files()["compose.yaml"]) == set[ProcessRole]().union(*ROLES.values())


def test_terraform_makes_the_table_and_the_policies_of_that_lake() -> None:
    said = dict(re.findall(r'^(\w+) *= "(.*)"$', TERRAFORM["terraform.tfvars.example"], re.MULTILINE))
    assert {f"s3://{said.pop('bucket')}/{said.pop('prefix')}", f"dynamodb://{said.pop('table')}"} == {
        lake()["PENSTOCK_LAKE"],
        lake()["PENSTOCK_COORDINATION"],
    }
    assert not said
    (output,) = re.findall(r'^output "policy_arns" \{$(.*?)^\}$', TERRAFORM["lake.tf"], re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"^ +(\w+) += aws_iam_policy\.\1\.arn$", output, re.MULTILINE)) == set(ProcessRole)


@pytest.mark.parametrize("name", containers())
def test_a_manifest_names_the_policies_of_its_process(name: str) -> None:
    file, container = containers()[name]
    text = KINDS["kubernetes"].files()[file]
    assert roles_said(text) == ROLES[command(container["args"])]
    for called in re.findall(r"penstock infra policy (.+)$", text, re.MULTILINE):
        words = shlex.split(called)
        assert words[-4:] == ["--lake", lake()["PENSTOCK_LAKE"], "--coordination", lake()["PENSTOCK_COORDINATION"]]
        assert set(words[:-4]) == ROLES[command(container["args"])]


def roles_said(text: str) -> set[ProcessRole]:
    """The roles behind the word "policy" or "policies"."""
    (said,) = re.findall(r"AWS(?: is|:| are)? the (?:policy|policies) ((?:`\w+`(?:, | and |,\n# )?)+)", text)
    return {ProcessRole(name) for name in re.findall(r"`(\w+)`", said)}

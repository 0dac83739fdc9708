"""The Compose files of the gateways' demos, as far as they can be checked without Docker."""

from __future__ import annotations

import re
from typing import Any

import click
import pytest
import yaml

from penstock.infra.cli.main import main
from penstock.infra.terminal.session import CommandSession
from tests.servers import VERSITYGW
from tests.tree import ROOT

FOLDER = ROOT / "examples" / "gateway"
FILE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OF_PENSTOCK = [name for name, one in SERVICES.items() if one.get("image") == "penstock" and "entrypoint" not in one]
GATEWAYS = ["gateway-1", "gateway-2"]


def taken(words: list[str]) -> None:
    """Raise for what the command does not take."""
    command: click.Command | None = main
    context = click.Context(main, obj=CommandSession(signals=None))  # type: ignore[arg-type]
    words = list(words)
    while isinstance(command, click.Group) and words and (found := command.get_command(context, words[0])) is not None:
        command, name = found, words.pop(0)
        context = click.Context(command, info_name=name, parent=context, obj=context.obj)
    assert command is not None
    command.make_context(command.name or "", words, parent=context)


@pytest.mark.parametrize("name", OF_PENSTOCK)
def test_a_service_is_called_as_the_command_takes_it(name: str) -> None:
    taken(SERVICES[name]["command"])


KAFKA: dict[str, Any] = yaml.safe_load((FOLDER / "kafka.compose.yaml").read_text())
KAFKA_SERVICES: dict[str, dict[str, Any]] = KAFKA["services"]


@pytest.mark.parametrize(
    "name", [name for name, one in KAFKA_SERVICES.items() if one.get("image") == "penstock" and "entrypoint" not in one]
)
def test_a_service_of_kafka_is_called_as_the_command_takes_it(name: str) -> None:
    taken(KAFKA_SERVICES[name]["command"])


def test_gateways_of_kafka_are_reached_by_what_clients_are_told() -> None:
    gateways = ["kafka-1", "kafka-2"]
    said = {KAFKA_SERVICES[name]["command"][0] for name in ("sender", "reader-1", "reader-2")}
    topic, told = KAFKA_SERVICES["topic"]["command"][2], []
    for name in gateways:
        service = KAFKA_SERVICES[name]
        words = service["command"]
        assert words[words.index("--address") + 1] == name, "a service's name leads to it"
        port = words[words.index("--port") + 1]
        assert service["ports"] == [f"{port}:{port}"], "the same for clients at the host"
        told.append(f"{name}:{port}")
        check = service["healthcheck"]["test"]
        assert check[:2] == ["CMD", "penstock"]
        assert check[5] == told[-1]
        taken(check[2:])
    assert said == {",".join(told)}
    for name in ("sender", "reader-1", "reader-2"):
        service = KAFKA_SERVICES[name]
        assert service["command"][1] == topic
        assert {*service["depends_on"]} == {*gateways}
        assert (FOLDER / service["entrypoint"][1].removeprefix("/demo/")).exists()
    assert KAFKA_SERVICES["store"]["image"].partition(":")[2] in VERSITYGW.name


def test_a_wrong_word_would_be_noticed() -> None:
    with pytest.raises(click.UsageError):
        taken([*SERVICES["topic"]["command"], "--no-such-option"])


def test_gateways_are_checked_and_known_by_their_addresses() -> None:
    said = SERVICES["shop"]["command"][0]
    for name in GATEWAYS:
        service = SERVICES[name]
        address = service["networks"]["shop"]["ipv4_address"]
        words = service["command"]
        assert words[words.index("--address") + 1] == address
        assert f"{address}:{words[words.index('--port') + 1]}" in said.split(";")
        check = service["healthcheck"]["test"]
        assert check[:2] == ["CMD", "penstock"]
        taken(check[2:])
    assert SERVICES["sdk-worker"]["command"][0] == said


def test_what_a_service_waits_for_is_there() -> None:
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            waited = SERVICES[name]
            assert how["condition"] != "service_healthy" or "healthcheck" in waited
            assert how["condition"] != "service_completed_successfully" or not waited.get("stdin_open")
        named = [one.partition(":")[0] for one in service.get("volumes", ())]
        assert all(one == "." or one in FILE["volumes"] for one in named)
    assert {*SERVICES["shop"]["depends_on"]} >= {*GATEWAYS, "sdk-worker", "native-worker", "orders"}


def test_what_is_built_is_there() -> None:
    for service in SERVICES.values():
        if "build" in service:
            context = (FOLDER / service["build"]["context"]).resolve()
            dockerfile = context / service["build"]["dockerfile"]
            copied = re.findall(r"^COPY (?!--from)(\S+)", dockerfile.read_text(), re.MULTILINE)
            assert all((context / one).exists() for one in copied if one != ".")


def test_the_versions_are_those_of_the_tests() -> None:
    assert SERVICES["store"]["image"].partition(":")[2] in VERSITYGW.name
    (python,) = re.findall(r"rocketmq-python-client==(\S+)", (FOLDER / "Dockerfile.worker").read_text())
    assert f"fetch python-{python}\n" in (ROOT / "infra" / "scripts" / "setup_sdks.sh").read_text()


def test_topic_and_group_are_the_same_everywhere() -> None:
    topic, group = SERVICES["topic"]["command"][2], SERVICES["group"]["command"][2]
    assert SERVICES["shop"]["command"][1] == topic
    for worker in ("sdk-worker", "native-worker"):
        assert SERVICES[worker]["command"][1:] == [topic, group]
    assert SERVICES["native-worker"]["command"][0] == SERVICES["native-worker"]["environment"]["PENSTOCK_LAKE"]

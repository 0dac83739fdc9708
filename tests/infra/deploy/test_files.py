"""The image, the Kubernetes examples and the alerts, as far as they can be checked without what runs them."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import Requirement

from penstock.consumers.statistics import CATALOGUE
from penstock.coordinator.limits import CELL_BYTES_MAX
from penstock.infra.cli.main import COMMANDS, main
from penstock.infra.deploy.generated_files import KINDS
from penstock.infra.terminal.session import CommandSession
from tests.tree import AREAS, CONFIG, DOOR, ROOT

FOLDER = ROOT / "infra" / "deploy"
METRICS = {metric.name: metric for metric in CATALOGUE}
# What PromQL itself says; all else in an expression must be a metric or one of its labels.
WORDS = {"by", "max", "min", "sum", "and", "or", "absent", "increase", "rate"}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def rules() -> list[dict[str, Any]]:
    (group,) = documents(FOLDER / "prometheus" / "alerts.yaml")[0]["groups"]
    return list(group["rules"])


def named(rule: dict[str, Any]) -> list[str]:
    """The metrics of an alert."""
    return [word for word in words(rule) if word.startswith(("rocketmq_", "penstock_"))]


def words(rule: dict[str, Any]) -> list[str]:
    return re.findall(r"[a-z][a-z_]*", re.sub(r"\[\d+[smhd]\]", "", rule["expr"]))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_there_is(rule: dict[str, Any]) -> None:
    metrics = named(rule)
    assert metrics
    assert set(metrics) <= METRICS.keys()
    labels = set.intersection(*(set(METRICS[name].labels) for name in metrics))
    assert set(words(rule)) - WORDS - set(metrics) <= labels
    used = set(re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())))
    kept = {label for found in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in found.split(", ")}
    assert used <= kept, "the sum has no such label"
    # Of what only counts up, a change is of interest.
    assert all(f"{name}[" in rule["expr"] for name in metrics if name.endswith("_total"))
    assert set(rule["labels"]) == {"severity"}
    assert set(rule["annotations"]) == {"summary", "action", "runbook"}


def test_there_is_an_alert_for_what_nobody_else_mends() -> None:
    asked = {name for rule in rules() for name in named(rule)}
    assert asked >= {
        "rocketmq_consumer_lag_latency",
        "penstock_group_consumers",
        "penstock_group_dead_letters_total",
        "penstock_parked_message_groups",
        "penstock_group_owned_queues",
        "penstock_groups_look_age_seconds",
        "penstock_fetching_paused",
    }


def test_the_alert_of_full_cells_knows_how_large_they_may_be() -> None:
    (rule,) = [rule for rule in rules() if rule["alert"] == "PenstockCellNearlyFull"]
    threshold = eval(rule["expr"].partition(">")[2])
    assert CELL_BYTES_MAX / 2 < threshold < CELL_BYTES_MAX
    assert f"{CELL_BYTES_MAX:,}" in rule["annotations"]["summary"]


def deployments() -> dict[str, dict[str, Any]]:
    kinds = ("Deployment", "StatefulSet")
    found = [one for path in (FOLDER / "kubernetes").iterdir() for one in documents(path) if one["kind"] in kinds]
    return {one["metadata"]["name"]: one for one in found}


@pytest.mark.parametrize("name", ["billing-worker", "penstock-gateway", "penstock-kafka", "penstock-maintain"])
def test_an_example_is_called_as_the_command_takes_it(name: str) -> None:
    (container,) = deployments()[name]["spec"]["template"]["spec"]["containers"]
    command, *words = container["args"]
    if command not in COMMANDS:
        pytest.skip(f"penstock {command} is not there yet")
    found = main.get_command(click.Context(main, obj=None), command)
    assert found is not None
    context = click.Context(main, obj=CommandSession(signals=None))  # type: ignore[arg-type]
    found.make_context(command, list(words), parent=context)  # raises for what it does not take


@pytest.mark.parametrize("name", ["billing-worker", "penstock-gateway", "penstock-kafka", "penstock-maintain"])
def test_metrics_are_found(name: str) -> None:
    template = deployments()[name]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    (port,) = [word.partition("=")[2] for word in container["args"] if word.startswith("--metrics-port")]
    assert template["metadata"]["annotations"] == {"prometheus.io/scrape": "true", "prometheus.io/port": port}
    assert {"name": "metrics", "containerPort": int(port)} in container["ports"]
    assert f"EXPOSE {port}" in (FOLDER / "Dockerfile").read_text()


def test_the_worker_has_time_to_end() -> None:
    worker = deployments()["billing-worker"]["spec"]["template"]
    (container,) = worker["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/metrics", "port": "metrics"}
    assert worker["spec"]["terminationGracePeriodSeconds"] >= 60
    assert "lifecycle" not in container  # SIGTERM alone drains


def test_the_gateway_is_probed_and_scaled() -> None:
    gateway = deployments()["penstock-gateway"]["spec"]["template"]["spec"]
    (container,) = gateway["containers"]
    said = dict(word.removeprefix("--").split("=", 1) for word in container["args"][2:])
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert (ports["grpc"], ports["tls"]) == (int(said["port"]), int(said["tls-port"]))
    assert container["readinessProbe"]["grpc"] == {"port": ports["grpc"]}
    assert container["livenessProbe"]["grpc"] == {"port": ports["grpc"], "service": "liveness"}
    mounted = {one["mountPath"] for one in container["volumeMounts"]}
    assert {str(Path(said[name]).parent) for name in ("tls-cert", "tls-key", "access-key-file")} <= mounted
    kinds = {one["kind"]: one for one in documents(FOLDER / "kubernetes" / "gateway.yaml")}
    assert kinds["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "penstock-gateway"
    secrets = {one["metadata"]["name"] for one in documents(FOLDER / "kubernetes" / "gateway.yaml") if one["kind"] == "Secret"}
    assert {one["secret"]["secretName"] for one in gateway["volumes"] if "secret" in one} == secrets
    assert gateway["terminationGracePeriodSeconds"] > 20 + 30, "its drain, and what follows"


def test_each_gateway_of_kafka_has_a_name_of_its_own() -> None:
    documents_of = documents(FOLDER / "kubernetes" / "kafka-gateway.yaml")
    named = {(one["kind"], one["metadata"]["name"]): one for one in documents_of}
    spec = deployments()["penstock-kafka"]["spec"]
    pods, services = spec["template"]["spec"], {name: one["spec"] for (kind, name), one in named.items() if kind == "Service"}
    (container,) = pods["containers"]
    said = dict(word.removeprefix("--").split("=", 1) for word in container["args"][2:] if "=" in word)
    assert services[spec["serviceName"]]["clusterIP"] == "None"
    assert said["address"] == f"$(POD_NAME).{spec['serviceName']}.example.svc.cluster.local"
    assert {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}} in container["env"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    for service in services.values():
        assert service["selector"] == spec["selector"]["matchLabels"]
        assert [(one["port"], one["targetPort"]) for one in service["ports"]] == [(int(said["tls-port"]), "tls")], (
            "as clients are told"
        )
    assert ports["tls"] == int(said["tls-port"])
    assert container["readinessProbe"]["tcpSocket"] == {"port": "tls"}
    mounted = {one["mountPath"] for one in container["volumeMounts"]}
    assert {str(Path(said[name]).parent) for name in ("tls-cert", "tls-key", "access-key-file")} <= mounted
    scaled = named["HorizontalPodAutoscaler", "penstock-kafka"]["spec"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) == ("StatefulSet", "penstock-kafka")
    secrets = {name for kind, name in named if kind == "Secret"}
    assert {one["secret"]["secretName"] for one in pods["volumes"] if "secret" in one} == secrets
    assert pods["terminationGracePeriodSeconds"] > 20 + 30, "its drain, and what follows"


def test_names_in_the_examples_lead_somewhere() -> None:
    made = {(one["kind"], one["metadata"]["name"]) for path in (FOLDER / "kubernetes").iterdir() for one in documents(path)}
    for deployment in deployments().values():
        template = deployment["spec"]["template"]
        assert deployment["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
        assert ("ServiceAccount", template["spec"]["serviceAccountName"]) in made
        for container in template["spec"]["containers"]:
            for source in container.get("envFrom", ()):
                ((kind, reference),) = source.items()
                assert ({"configMapRef": "ConfigMap", "secretRef": "Secret"}[kind], reference["name"]) in made
            volumes = {volume["name"] for volume in template["spec"]["volumes"]}
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_the_image_gets_what_the_wheel_is_made_of_and_nothing_else() -> None:
    kept = {line[1:] for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    alone = {f"{name}.py" for name in CONFIG["tool"]["setuptools"]["py-modules"]}
    assert kept == AREAS | alone | {DOOR, "pyproject.toml", "README.md", "LICENSE"}
    assert all((ROOT / name).exists() for name in kept)


def pinned(name: str) -> dict[str, str]:
    """What a lock of the image installs: versions by names; everything in it has a hash."""
    text = (FOLDER / name).read_text().replace(" \\\n", " ")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*( +--hash=sha256:[0-9a-f]{64})+", line) for line in lines)
    return dict(line.split()[0].split("==") for line in lines)


def test_the_image_installs_by_hash_what_the_project_asks_for() -> None:
    project, dockerfile = CONFIG["project"], (FOLDER / "Dockerfile").read_text()
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", dockerfile, re.MULTILINE)
    wanted = [*project["dependencies"], *(one for extra in extras.split(",") for one in project["optional-dependencies"][extra])]
    for lock, asked in (("requirements.lock", wanted), ("build.lock", CONFIG["build-system"]["requires"])):
        versions = pinned(lock)
        for one in map(Requirement, asked):
            assert one.specifier.contains(versions[one.name]), f"{one}: write {lock} anew with infra/scripts/lock_image.py"
        assert re.search(rf"--require-hashes --only-binary :all: --requirement \S*{lock}", dockerfile)


@pytest.mark.parametrize(
    ("release", "image", "ok"),
    [("", "python:3.11-slim", True), ("1", "python:3.11-slim", False), ("1", f"python:3.11-slim@sha256:{'0' * 64}", True)],
)
@pytest.mark.parametrize("dockerfile", ["Dockerfile", "Dockerfile.wheel"])
def test_a_release_of_the_image_needs_a_base_by_digest(dockerfile: str, release: str, image: str, ok: bool) -> None:
    (check,) = re.findall(r"^RUN (case .*?esac)$", (FOLDER / dockerfile).read_text(), re.MULTILINE | re.DOTALL)
    script = check.replace("\\\n", "\n")
    done = subprocess.run(["sh", "-c", script], env={"RELEASE": release, "BASE_IMAGE": image}, check=False, capture_output=True)
    assert (done.returncode == 0) == ok


def test_the_image_runs_as_nobody_and_has_the_extras_of_a_worker() -> None:
    lines = (FOLDER / "Dockerfile").read_text()
    extras = re.search(r"ARG EXTRAS=(\S+)", lines)
    assert extras is not None
    assert set(extras[1].split(",")) <= CONFIG["project"]["optional-dependencies"].keys()
    assert re.search(r"^USER 10001$", lines, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["penstock"\]$', lines, re.MULTILINE)
    for deployment in deployments().values():
        assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"] == 10001


# --- What `penstock infra` writes for who installed by pip ------------------------------------------------------------------------


def examples(kind: str) -> list[dict[str, Any]]:
    return [one for path in (FOLDER / "kubernetes").iterdir() for one in documents(path) if one["kind"] == kind]


def test_all_files_are_written_and_nothing_of_them_needs_a_clone() -> None:
    written = {kind: one.files() for kind, one in KINDS.items()}
    generated = {"terraform": {"policies.tf"}}
    for kind in ("kubernetes", "prometheus", "terraform"):
        assert written[kind].keys() == {path.name for path in (FOLDER / kind).iterdir()} | generated.get(kind, set())
    for files in written.values():
        assert files
        for text in files.values():
            assert "infra/deploy/prom" not in text
            assert "infra/deploy/kube" not in text
    assert written["docker"].keys() == {"Dockerfile", "requirements.lock"}


def test_the_written_image_installs_this_version_by_its_wheel_and_all_by_hash() -> None:
    files = KINDS["docker"].files()
    dockerfile, clone = files["Dockerfile"], (FOLDER / "Dockerfile").read_text()
    assert f"\nARG WHEEL=penstock-{importlib.metadata.version('penstock')}-py3-none-any.whl\n" in dockerfile
    assert files["requirements.lock"] == (FOLDER / "requirements.lock").read_text()
    installs = re.findall(r"pip install (.*?)(?: \\)?$", dockerfile, re.MULTILINE)
    assert len(installs) == 2
    assert installs[0].endswith("--require-hashes --only-binary :all: --requirement /wheels/requirements.lock")
    assert installs[1].endswith('--no-index --no-deps "/wheels/${WHEEL}"')
    assert re.findall(r"^COPY (?!--chown)(.+) /wheels/$", dockerfile, re.MULTILINE) == ["requirements.lock ${WHEEL}"]
    # What runs is the same in both images.
    for line in ("ARG BASE_IMAGE=python:3.11-slim", "STOPSIGNAL SIGTERM", "USER 10001", 'ENTRYPOINT ["penstock"]', "EXPOSE 9464"):
        assert line in dockerfile.splitlines()
        assert line in clone.splitlines()


def test_the_written_image_takes_only_the_wheel_whose_hash_it_was_told(tmp_path: Path) -> None:
    wheel = tmp_path / "penstock-9.9.9-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    written = tmp_path / "image"
    ran = CliRunner().invoke(main, ["infra", "docker", str(written), "--wheel", str(wheel)])
    assert ran.exit_code == 0, ran.output
    text = (written / "Dockerfile").read_text()
    said = dict(re.findall(r"^ARG (WHEEL\w*)=(\S*)$", text, re.MULTILINE))
    assert said["WHEEL"] == wheel.name
    (check,) = re.findall(r"^RUN (echo .*?; \})$", text, re.MULTILINE | re.DOTALL)
    script = check.replace("\\\n", " ").replace("/wheels/", f"{written}/")

    def checked(**changes: str) -> int:
        return subprocess.run(
            ["sh", "-c", script], env={**os.environ, **said, **changes}, check=False, capture_output=True
        ).returncode

    assert checked() == 0
    assert checked(WHEEL_SHA256="") != 0, "nothing is taken without a hash"
    (written / wheel.name).write_bytes(b"another")
    assert checked() != 0


def test_workers_are_scaled_by_a_lag_that_is_there_without_them() -> None:
    (scaled,) = (one["spec"] for one in examples("ScaledObject"))
    worker = deployments()[scaled["scaleTargetRef"]["name"]]["spec"]["template"]["spec"]["containers"][0]
    ((kind, asked),) = ((one["type"], one["metadata"]) for one in scaled["triggers"])
    assert (kind, scaled["minReplicaCount"]) == ("prometheus", 0)
    named = re.findall(r"(?:rocketmq|penstock)_[a-z_]+", asked["query"])
    assert named == ["rocketmq_consumer_lag_messages"]
    chosen = dict(re.findall(r'(\w+)="([^"]*)"', asked["query"]))
    assert chosen == {"topic": worker["args"][1], "consumer_group": worker["args"][2].partition("=")[2]}
    # Workers and several exporters tell the same: what is summed is the largest of them.
    assert "sum(max by (consumer_group, topic, queue)" in asked["query"]
    assert float(asked["threshold"]) > float(asked["activationThreshold"]) >= 0


def test_pods_that_serve_metrics_are_monitored() -> None:
    (monitor,) = (one["spec"] for one in examples("PodMonitor"))
    ((selected,),) = (monitor["selector"]["matchExpressions"],)
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in deployments().values()]
    assert (selected["key"], selected["operator"]) == ("app", "In")
    assert sorted(selected["values"]) == sorted(one["app"] for one in labels)
    ((endpoint,),) = (monitor["podMetricsEndpoints"],)
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")

"""The files that `penstock infra` writes, by kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata, resources


@dataclass(frozen=True, slots=True)
class GeneratedFiles:
    """One kind of files."""

    files: Callable[[], dict[str, str]]
    following: str
    """The command that comes next, with the folder as ``{folder}``."""


def _folder(name: str) -> dict[str, str]:
    return {one.name: one.read_text() for one in (resources.files(__package__) / name).iterdir() if one.is_file()}


def docker(wheel: str = "", sha256: str = "") -> dict[str, str]:
    """The Dockerfile of an image that installs a wheel beside it, and the hashes of its dependencies.

    ``wheel``: the wheel's name; by default that of this version. ``sha256``: its hash; without one, the build asks for it.
    """
    here = resources.files(__package__)
    wheel = wheel or f"penstock-{metadata.version('penstock')}-py3-none-any.whl"
    text = (here / "Dockerfile.wheel").read_text()
    return {
        "Dockerfile": text.replace("ARG WHEEL=\n", f"ARG WHEEL={wheel}\n").replace(
            "ARG WHEEL_SHA256=\n", f"ARG WHEEL_SHA256={sha256}\n"
        ),
        "requirements.lock": (here / "requirements.lock").read_text(),
    }


def kubernetes() -> dict[str, str]:
    """The lake, workers, upkeep, gateways, scaling on lag, and scraping."""
    return _folder("kubernetes")


def compose() -> dict[str, str]:
    """The same processes for one machine."""
    return _folder("compose")


def prometheus() -> dict[str, str]:
    return _folder("prometheus")


def grafana() -> dict[str, str]:
    from .grafana import dashboard

    return {"penstock.json": json.dumps(dashboard(), indent=2) + "\n"}


def terraform() -> dict[str, str]:
    """A policy for each role, and the DynamoDB table."""
    from .hcl import files

    return files()


KINDS: Mapping[str, GeneratedFiles] = {
    "terraform": GeneratedFiles(terraform, "terraform -chdir={folder} init"),
    "docker": GeneratedFiles(
        docker, "put a release's wheel there, then docker build -t penstock {folder} --build-arg WHEEL_SHA256=<its hash>"
    ),
    "kubernetes": GeneratedFiles(
        kubernetes,
        "change what says example, then kubectl apply -f {folder}/lake.yaml -f {folder}/maintain.yaml -f {folder}/worker.yaml",
    ),
    "compose": GeneratedFiles(compose, "change what says example, then docker compose -f {folder}/compose.yaml up"),
    "prometheus": GeneratedFiles(prometheus, "name {folder}/alerts.yaml in rule_files of prometheus.yml"),
    "grafana": GeneratedFiles(grafana, "import {folder}/penstock.json in Grafana (Dashboards, New, Import)"),
}

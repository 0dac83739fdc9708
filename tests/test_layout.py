"""The repository keeps its own shape: real folders, one namespace, a light door, and a wheel that has it all."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.tree import AREAS, CONFIG, DOOR, MAPPING, ROOT, absolute_imports, files, modules

HEAVY = {
    "asyncpg",
    "boto3",
    "botocore",
    "click",
    "cryptography",
    "delta",
    "deltalake",
    "duckdb",
    "fastavro",
    "google",
    "grpc",
    "hpack",
    "jinja2",
    "kafka",
    "moto",
    "opentelemetry",
    "pandas",
    "polars",
    "prometheus_client",
    "pyiceberg",
    "pyspark",
    "pytest",
    "rich",
    "starlette",
    "uvicorn",
}

SCRIPTS = ROOT / "infra" / "scripts"
"""Run by make, from a repository or a source archive; no part of the library."""
FOUND_BY_SPARK = ROOT / "pyspark_penstock.py"
"""The one module beside the door: Spark looks for data sources at the top, by the prefix."""


def package_of(module: Path) -> str:
    """The package that a Python file of the library belongs to."""
    parts = module.relative_to(ROOT).parent.parts
    return ".".join(parts if parts[0] == DOOR else ("penstock", *parts))


def library_files() -> list[Path]:
    return [path for path in files() if path.relative_to(ROOT).parts[0] in AREAS | {DOOR} and path.parent != SCRIPTS]


def test_every_folder_with_python_files_is_a_package() -> None:
    folders = {path.parent for path in library_files() if path.suffix == ".py"}
    assert not [folder for folder in folders if not (folder / "__init__.py").exists()]


def test_links_of_the_door_lead_to_the_areas() -> None:
    door = ROOT / DOOR
    assert {path.name for path in door.iterdir() if path.is_symlink()} == AREAS
    assert all((door / area).resolve() == ROOT / area for area in AREAS)
    assert all(MAPPING[f"penstock.{area}"] == area for area in AREAS)


def test_no_module_imports_an_area_by_its_bare_name() -> None:
    bare = [f"{path}: {name}" for path, tree in modules() for name in absolute_imports(tree) if name.partition(".")[0] in AREAS]
    assert not bare


def test_areas_import_each_other_relatively() -> None:
    # With absolute imports a type checker that reads the real folders sees every class twice.
    absolute = [
        f"{path}: {name}"
        for path, tree in modules(*AREAS - {"infra"})
        for name in absolute_imports(tree)
        if name.partition(".")[0] == "penstock"
    ]
    assert not absolute


def test_the_synchronous_face_is_made_of_the_asynchronous_one() -> None:
    check = [sys.executable, str(ROOT / "infra" / "scripts" / "blocking_face.py"), "--check"]
    run = subprocess.run(check, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"run `make face`: {run.stdout}{run.stderr}"


@pytest.mark.parametrize(
    ("module", "allowed"),
    [("penstock", set()), ("penstock.testing.plugin", {"pytest"}), ("penstock.infra.cli", {"click", "rich"})],
)
def test_imports_are_light(module: str, allowed: set[str]) -> None:
    code = f"import {module}, sys, json; print(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = set(json.loads(run.stdout))
    assert loaded & HEAVY <= allowed


def test_the_pytest_plugin_loads_nothing_of_the_library() -> None:
    """Every run of pytest in its environment pays for what it loads."""
    code = "import penstock.testing.plugin, sys; print(*sorted(name for name in sys.modules if name.startswith('penstock.')))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["penstock.log", "penstock.log.lazy_names", "penstock.testing", "penstock.testing.plugin"]


def lazy_packages() -> list[Path]:
    return [path for path in library_files() if path.name == "__init__.py" and "lazy_names(" in path.read_text()]


@pytest.mark.parametrize("path", lazy_packages(), ids=package_of)
def test_what_a_package_imports_lazily_is_what_type_checkers_see(path: Path) -> None:
    package = package_of(path)
    (checked,) = [one for one in ast.parse(path.read_text()).body if isinstance(one, ast.If)]
    imports = [one for one in checked.body if isinstance(one, ast.ImportFrom)]
    assert ast.unparse(checked.test) == "TYPE_CHECKING"
    assert len(imports) == len(checked.body)
    # A name that is imported as itself is public to a type checker.
    assert all(alias.asname == alias.name for one in imports for alias in one.names)
    given = {alias.name for one in imports if one.module for alias in one.names}
    modules = {alias.name for one in imports if not one.module for alias in one.names}
    loaded = importlib.import_module(package)
    assert given == {name for name in loaded.__all__ if not name.startswith("__")}
    assert all(hasattr(loaded, name) for name in loaded.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing_of_the_kind'"):
        _ = loaded.nothing_of_the_kind
    # A module's import sets its name on the package: a public name that is also a module's would change its meaning with the order of imports.
    assert not given & {one.stem for one in path.parent.iterdir()} - modules


def test_all_extras_are_in_all_but_test_tools_and_the_one_whose_licence_users_are_to_choose() -> None:
    extras = CONFIG["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("penstock[").removesuffix("]").split(","))
    assert named == extras.keys() - {"all", "postgres", "testing"}


def test_entry_points_can_be_loaded() -> None:
    ours = importlib.metadata.distribution("penstock").entry_points
    assert {(entry.group, entry.name) for entry in ours} == {("console_scripts", "penstock"), ("pytest11", "penstock")}
    for entry in ours:
        entry.load()


@pytest.mark.slow
def test_source_distribution_holds_every_file_and_its_wheel_the_whole_library_without_links(tmp_path: Path) -> None:
    # An archive of the repository, or a clone on Windows, has no links: the mapping alone must do.
    source = tmp_path / "source"
    for path in files():
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, source],
        check=True,
        capture_output=True,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed_source:
        kept = {name.partition("/")[2] for name in packed_source.getnames() if not name.endswith(".egg-info")}
    assert {str(path.relative_to(ROOT)) for path in files()} <= kept
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    parts = [path.relative_to(ROOT).parts for path in library_files()]
    expected = {"/".join(part if part[0] == DOOR else ("penstock", *part)) for part in parts}
    assert packed == {*expected, FOUND_BY_SPARK.name}

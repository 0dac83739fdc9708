"""What `make release` and `make test-oldest` decide before they install anything, and where a wheel is built."""

from __future__ import annotations

import configparser
import importlib.util
import os
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.tree import CONFIG, ROOT

URL = "https://host.example/penstock"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "infra" / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release, test_oldest = script("release"), script("test_oldest")


def source(folder: Path, **changes: str) -> Path:
    """A repository of what the script looks at."""
    (folder / "penstock").mkdir()
    kept = {"pyproject.toml": (ROOT / "pyproject.toml").read_text(), "README.md": (ROOT / "README.md").read_text()}
    version = CONFIG["project"]["version"]
    kept |= {"penstock/__init__.py": f'__version__ = "{version}"\n', "CHANGELOG.md": f"## [{version}]\n"}
    for name, text in (kept | changes).items():
        (folder / name).write_text(text)
    return folder


def test_a_release_has_its_urls_and_links_that_hold_elsewhere(tmp_path: Path) -> None:
    made = source(tmp_path)
    version = release.checked_version(made)
    release.name_the_place(made, URL, version)
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Changelog"] == f"{URL}/blob/v{version}/CHANGELOG.md"
    assert {**project, "urls": None} == {**CONFIG["project"], "urls": None}
    readme = (made / "README.md").read_text()
    assert f"]({URL}/blob/v{version}/docs/README.md)" in readme
    assert "](docs/" not in readme
    assert "](examples" not in readme


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("[a](docs/a.md#part)", "[a](B/docs/a.md#part)"),
        ("[a](./a.md) and [b](b)", "[a](B/a.md) and [b](B/b)"),
        ("[a](https://elsewhere/a)", "[a](https://elsewhere/a)"),
        ("[a](#part) [b](mailto:b@c)", "[a](#part) [b](mailto:b@c)"),
    ],
)
def test_links(text: str, made: str) -> None:
    assert release.absolute_links(text, "B") == made


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"penstock/__init__.py": '__version__ = "9.9"'}, "another version than pyproject.toml"),
        ({"CHANGELOG.md": "## [9.9]"}, "has no section"),
    ],
)
def test_versions_that_disagree_end_a_release(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        release.checked_version(source(tmp_path, **changes))


def test_a_command_that_fails_ends_a_release_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"(?s)failed:.*no-such-option"):
        release.run("git", "--no-such-option", at=tmp_path)


def test_every_library_has_a_floor_to_be_tested_with() -> None:
    oldest = test_oldest.floors(CONFIG["project"])
    assert {"pyarrow", "numpy", "fsspec", "click", "rich", "msgspec", "xxhash", "obstore", "boto3", "deltalake"} <= oldest.keys()
    assert "pyspark" not in oldest
    assert len(CONFIG["project"]["dependencies"]) == len(
        {*oldest} & {one.split(">=")[0] for one in CONFIG["project"]["dependencies"]}
    )


def test_a_wheel_is_built_outside_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = script("build_backend")
    bases: list[Path] = []

    def build_wheel(folder: str, *_: object) -> str:
        found = configparser.ConfigParser()
        found.read(os.environ["DIST_EXTRA_CONFIG"])
        base = Path(found["build"]["build_base"])
        base.mkdir()
        bases.append(base)
        return f"{folder}/penstock.whl"

    monkeypatch.setattr(backend.build_meta, "build_wheel", build_wheel)
    assert backend.build_wheel(str(tmp_path)) == f"{tmp_path}/penstock.whl"
    assert "DIST_EXTRA_CONFIG" not in os.environ
    (base,) = bases
    assert ROOT not in base.parents
    assert not base.parent.exists()

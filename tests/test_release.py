"""What `make release` and `make test-oldest` or `make test-pythons` decide before they install anything, and where a wheel is built."""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from penstock.log import errors
from penstock.log.errors import install_hint
from tests.tree import CONFIG, ROOT, files

URL = "https://host.example/penstock"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "infra" / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release, environments = script("release"), script("test_environments")


def source(folder: Path, **changes: str) -> Path:
    """A repository of what the script looks at."""
    (folder / "penstock").mkdir()
    kept = {"pyproject.toml": (ROOT / "pyproject.toml").read_text(), "README.md": (ROOT / "README.md").read_text()}
    number = CONFIG["project"]["version"]
    kept |= {"penstock/__init__.py": f'__version__ = "{number}"\n', "CHANGELOG.md": f"## [{number}]\n"}
    for name, text in (kept | changes).items():
        (folder / name).write_text(text)
    return folder


def test_a_release_has_its_urls_and_links_that_hold_elsewhere(tmp_path: Path) -> None:
    made = source(tmp_path)
    number = release.checked_version(made)
    release.name_the_place(made, URL, number)
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Changelog"] == f"{URL}/blob/v{number}/CHANGELOG.md"
    assert {**project, "urls": None} == {**CONFIG["project"], "urls": None}
    readme = (made / "README.md").read_text()
    assert f"]({URL}/blob/v{number}/docs/README.md)" in readme
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


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_builds_of_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    """Whatever the folder's name, when its files were written, and what others may do with them."""
    builds = []
    for name, mode in (("one", 0o700), ("two", 0o755)):
        for path in files():
            copied = tmp_path / name / path.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
            copied.chmod(mode if os.access(path, os.X_OK) else mode & 0o666)
        builds.append(release.build(Path(sys.executable), tmp_path / name, tmp_path / f"{name}-built", 1_750_000_000))
    assert [one.suffix for one in builds[0]] == [".whl", ".gz"]
    release.same(*builds)
    (wheel,) = (one for one in builds[0] if one.suffix == ".whl")
    assert {one.date_time[0] for one in zipfile.ZipFile(wheel).infolist()} == {2025}


def test_builds_that_differ_end_a_release(tmp_path: Path) -> None:
    one, two = tmp_path / "a.whl", tmp_path / "again" / "a.whl"
    two.parent.mkdir()
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    release.same([one], [one])
    with pytest.raises(SystemExit, match="Two builds of the same commit differ"):
        release.same([one], [two])


def test_hashes_are_read_by_the_program_that_checks_them(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"1")
    (tmp_path / release.SUMS).write_text(release.sums([tmp_path / "a.whl"]))
    check = ["sha256sum", "--check", "--strict", release.SUMS]
    assert subprocess.run(check, check=False, cwd=tmp_path, capture_output=True).returncode == 0
    (tmp_path / "a.whl").write_bytes(b"2")
    assert subprocess.run(check, check=False, cwd=tmp_path, capture_output=True).returncode == 1


def test_nothing_says_to_install_penstock_from_an_index_that_has_it_not() -> None:
    said = re.compile(r"pip install\s+[\"']?penstock(?![\w-])")
    found = {
        str(path.relative_to(ROOT))
        for path in files()
        if path.suffix in {".md", ".py", ".sh", ".yaml"} and said.search(path.read_text())
    }
    assert not found


def test_what_a_hint_installs_is_the_checkout_or_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert install_hint("delta") == "pip install '.[delta]'"
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "penstock" / "log" / "errors.py"))
    assert install_hint("delta") == f"pip install './penstock-{version('penstock')}-py3-none-any.whl[delta]'"


def test_the_pythons_that_are_tried_are_those_that_the_project_names() -> None:
    versions = environments.pythons(CONFIG["project"])
    assert CONFIG["project"]["requires-python"] == f">={versions[0]}"
    assert versions == [f"3.{minor}" for minor in range(11, 11 + len(versions))]
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert environments.find_python(own) == Path(sys.executable)
    assert environments.find_python("3.99") is None


def test_every_library_has_a_floor_to_be_tested_with() -> None:
    oldest = environments.floors(CONFIG["project"])
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

"""The versions that are mixed: this checkout's, and a former one, which is installed from a wheel into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.servers import CACHE
from tests.tree import ROOT

RELEASED: Final = "v0.1.0"
"""The tag of the version that today's must mix with."""
UNRELEASED: Final = "ff0fb9ae5c392bd6dff14ce52a3b5fd38cdb7244"
"""Stands for `RELEASED` until that tag is there: the last commit before topics grew, and before cells lay in PostgreSQL."""
WITH_POSTGRESQL: Final = "2d6102194"
"""Stands for the former version where cells lie in PostgreSQL, which `UNRELEASED` cannot do."""
_EXTRAS: Final = "delta,gateway,kafka,postgresql-cells"
_TOOLS: Final = ("psutil",)
"""What the tests' own processes import besides."""
_MAIN: Final = "from penstock.infra.cli import main; main(prog_name='penstock')"
_WHERE: Final = "import penstock; print(penstock.__file__)"


class NoSuchVersion(Exception):
    """The repository's history has no such version."""


@dataclass(frozen=True)
class Version:
    """One version, and how its processes are started."""

    name: str
    python: tuple[str, ...]
    """The words before the arguments of its interpreter."""

    def penstock(self, *words: str) -> list[str]:
        """Its command."""
        return [*self.python, "-c", _MAIN, *words]

    def place(self) -> Path:
        """Where its library lies, as it says itself."""
        done = subprocess.run([*self.python, "-c", _WHERE], check=True, capture_output=True, text=True)
        return Path(done.stdout.strip()).resolve()


def current() -> Version:
    return Version("this", _launcher(ROOT, Path(sys.executable)))


def former(reference: str = "") -> Version:
    """An earlier one, by default `RELEASED`, or what stands for it. Raises `NoSuchVersion`."""
    commit = _commit_of(reference)
    folder = CACHE / "versions" / f"{commit[:12]}-{sys.version_info.major}.{sys.version_info.minor}"
    python, complete = folder / "venv" / "bin" / "python", folder / "complete"
    if not complete.exists():
        print(f"a wheel of {commit[:12]}, and its environment, into {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wheel = _wheel_of(commit, folder)
        venv.create(folder / "venv", with_pip=True)
        _pip(python, "install", f"{wheel}[{_EXTRAS}]", *_TOOLS)
        complete.touch()
    home = folder / "home"
    home.mkdir(exist_ok=True)
    link = home / "tests"  # this checkout's, beside the former library
    if not link.is_symlink() or link.resolve() != ROOT / "tests":
        link.unlink(missing_ok=True)
        link.symlink_to(ROOT / "tests")
    found = Version(commit[:12], _launcher(home, python))
    if not found.place().is_relative_to(folder):
        raise AssertionError(f"{found.name} would run {found.place()}")
    return found


def _launcher(home: Path, python: Path) -> tuple[str, ...]:
    """In a folder of its own: Python looks for modules where it is started."""
    return ("env", f"--chdir={home}", f"PYTHONPATH={home}", str(python))


def _commit_of(reference: str) -> str:
    wanted = [reference] if reference else [RELEASED, UNRELEASED]
    for one in wanted:
        done = _git("rev-parse", "--verify", "--quiet", f"{one}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.strip()
    shallow = _git("rev-parse", "--is-shallow-repository").stdout.strip() == "true"
    hint = (
        "fetch it with `git fetch --unshallow --tags` (in CI: a checkout of the whole history)"
        if shallow
        else "name one with --former"
    )
    raise NoSuchVersion(f"this clone has neither {' nor '.join(wanted)} to build a former version from: {hint}")


def _wheel_of(commit: str, folder: Path) -> Path:
    source, archive = folder / "source", folder / "source.tar"
    source.mkdir()
    done = _git("archive", f"--output={archive}", commit)
    if done.returncode:
        raise NoSuchVersion(f"git cannot read {commit}: {done.stderr.strip()}")
    subprocess.run(["tar", "-xf", archive, "-C", source], check=True)
    _pip(Path(sys.executable), "wheel", "--no-deps", "--wheel-dir", str(folder), str(source))
    shutil.rmtree(source)
    archive.unlink()
    (wheel,) = folder.glob("*.whl")
    return wheel


def _pip(python: Path, *words: str) -> None:
    # Isolated: by a PYTHONPATH it would take this checkout for what it is to install.
    done = subprocess.run([python, "-I", "-m", "pip", *words, "--quiet"], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip {words[0]} failed:\n{done.stdout}{done.stderr}")


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(["git", *words], check=False, cwd=ROOT, env=environment, capture_output=True, text=True)

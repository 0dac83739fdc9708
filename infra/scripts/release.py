#!/usr/bin/env python
"""Build what a release would upload, and try it as its users will: `make release`. Nothing is signed, and nothing is uploaded.

The files are built from the last commit, twice, each time in a folder of its own: they must be the same bytes. `twine check` reads them, and
in a fresh environment the wheel's command answers and README's first example runs. Beside them lie their hashes, and a bill of materials
(CycloneDX) of the wheel with the libraries of the image, whose versions and hashes infra/deploy/requirements.lock has.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCKS = Path("infra", "deploy")
REPOSITORY = ""
"""The repository's published address, for project URLs and README's links. Empty: not chosen yet."""
LINK = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)\s]+\))")
SUMS = "SHA256SUMS"
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", default=REPOSITORY, help="where the repository is published, for project URLs and README's links")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for the files (dist)")
    options = parser.parse_args()
    if run("git", "status", "--porcelain", at=ROOT).strip():
        raise SystemExit("Commit first: the files are built from the last commit.")
    with tempfile.TemporaryDirectory(prefix="penstock-release-") as folder:
        scratch = Path(folder)
        source = scratch / "source"
        unpacked(source)
        version = checked_version(source)
        tools = environment(scratch / "tools", "build", "twine", "cyclonedx-bom>=7.5,<8", locked=source / LOCKS / "build.lock")
        epoch = int(run("git", "log", "-1", "--format=%ct", at=ROOT))
        again = scratch / "again"
        unpacked(again)
        for folder in (source, again):
            if options.url:
                name_the_place(folder, options.url.rstrip("/"), version)
        built = build(tools, source, scratch / "dist", epoch)
        same(built, build(tools, again, scratch / "dist-again", epoch))
        run(tools, "-m", "twine", "check", "--strict", *built, at=scratch)
        wheel = next(path for path in built if path.suffix == ".whl")
        try_it(wheel, source, scratch)
        built.append(bill_of_materials(tools, wheel, source, scratch))
        options.out.mkdir(parents=True, exist_ok=True)
        for path in built:
            (options.out / path.name).write_bytes(path.read_bytes())
        (options.out / SUMS).write_text(sums(built))
        print(sums(built), end="")
    if not options.url:
        print(
            "They have no project URLs, and README's links stay relative: name the repository's address with --url (make release URL=…)."
        )
    print(f"{version} is in {options.out}. Nothing was signed or uploaded.")
    return 0


def checked_version(source: Path) -> str:
    """The version, which pyproject.toml, the library and the changelog must agree on."""
    version = str(tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"])
    if f'__version__ = "{version}"' not in (source / "penstock" / "__init__.py").read_text():
        raise SystemExit(f"penstock/__init__.py has another version than pyproject.toml, which has {version}.")
    if f"## [{version}]" not in (source / "CHANGELOG.md").read_text():
        raise SystemExit(f"CHANGELOG.md has no section [{version}].")
    return version


def name_the_place(source: Path, url: str, version: str) -> None:
    """Give the project its URLs, and README links that hold outside of the repository."""
    files = f"{url}/blob/v{version}"
    urls = {
        "Homepage": url,
        "Documentation": f"{files}/docs/README.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }
    lines = "\n".join(f'{name} = "{where}"' for name, where in urls.items())
    project = source / "pyproject.toml"
    project.write_text(project.read_text().replace("[project.scripts]", f"[project.urls]\n{lines}\n\n[project.scripts]", 1))
    readme = source / "README.md"
    readme.write_text(absolute_links(readme.read_text(), files))


def absolute_links(text: str, base: str) -> str:
    """A page whose relative links begin with ``base``."""
    return LINK.sub(lambda found: f"{found[1]}{base}/{found[2].removeprefix('./')}", text)


def unpacked(folder: Path) -> None:
    """Lay the last commit's files into a new folder. What others may do with them is in the wheel, too: it is not the machine's to say."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    run("git", "-c", "tar.umask=022", "archive", "--output", archive, "HEAD", at=ROOT)
    run("tar", "-xf", archive, at=folder)


def build(python: Path, source: Path, out: Path, epoch: int) -> list[Path]:
    """The source distribution, and the wheel built from it, with a time of the commit's in place of all others. ``python`` has the package
    build, and what builds the wheel.
    """
    run(python, "-m", "build", "--no-isolation", "--outdir", out, source, at=source, SOURCE_DATE_EPOCH=str(epoch))
    return sorted(out.iterdir())


def same(first: Sequence[Path], second: Sequence[Path]) -> None:
    """End this where two builds differ."""
    if sums(first) != sums(second):
        raise SystemExit(f"Two builds of the same commit differ, so nobody could build it again:\n{sums(first)}\n{sums(second)}")


def sums(files: Sequence[Path]) -> str:
    """The hashes of files, as `sha256sum --check` reads them."""
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def bill_of_materials(tools: Path, wheel: Path, source: Path, scratch: Path) -> Path:
    """What a process of the image consists of, in CycloneDX: the wheel and its libraries with versions, licences and sources."""
    python = environment(scratch / "image", "--no-deps", wheel, locked=source / LOCKS / "requirements.lock")
    run(python, "-m", "pip", "uninstall", "--yes", "--quiet", "pip", "setuptools", at=scratch)
    bill = scratch / wheel.name.replace("-py3-none-any.whl", ".cdx.json")
    project = source / "pyproject.toml"
    options = ("--output-reproducible", "--mc-type", "library", "--pyproject", project, "--of", "JSON", "--output-file", bill)
    run(tools, "-m", "cyclonedx_py", "environment", *options, python, at=scratch)
    return bill


def try_it(wheel: Path, source: Path, scratch: Path) -> None:
    """Install the wheel alone, ask its command for its version, and run README's first example in an empty folder."""
    python = environment(scratch / "fresh", wheel)
    empty = scratch / "empty"
    empty.mkdir()
    run(python.parent / "penstock", "--version", at=empty)
    example = EXAMPLE.search((source / "README.md").read_text())
    if example is None:
        raise SystemExit("README.md has no example.")
    said = run(python, "-c", example[1], at=empty)
    print(f"README's first example, with nothing but the wheel installed:\n{said}")


def environment(folder: Path, *wanted: str | Path, locked: Path | None = None) -> Path:
    """The Python of a fresh virtual environment with these packages, and before them those of a lock."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = (python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if locked is not None:
        run(*install, "--require-hashes", "--only-binary", ":all:", "--requirement", locked, at=folder)
    run(*install, *wanted, at=folder)
    return python


def run(*command: str | Path, at: Path, **variables: str) -> str:
    """A command's output. Its failure ends this, with the output."""
    done = subprocess.run(command, check=False, cwd=at, capture_output=True, text=True, env={**os.environ, **variables})
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

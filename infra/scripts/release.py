#!/usr/bin/env python
"""Build what a release would upload, and try it as its users will: `make release`. Nothing is signed, and nothing is uploaded.

The files are built from the last commit, in a folder of their own, and checked by `twine check`. In a fresh environment the wheel's command answers
and README's first example runs.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = ""
"""The repository's published address, for project URLs and README's links. Empty: not chosen yet."""
LINK = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)\s]+\))")
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
        source.mkdir()
        archive = scratch / "source.tar"
        run("git", "archive", "--output", archive, "HEAD", at=ROOT)
        run("tar", "-xf", archive, at=source)
        version = checked_version(source)
        if options.url:
            name_the_place(source, options.url.rstrip("/"), version)
        built = build(source, scratch)
        try_it(next(path for path in built if path.suffix == ".whl"), source, scratch)
        options.out.mkdir(parents=True, exist_ok=True)
        for path in built:
            content = path.read_bytes()
            (options.out / path.name).write_bytes(content)
            print(f"{path.name}  {len(content):,} bytes  sha256 {hashlib.sha256(content).hexdigest()}")
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


def build(source: Path, scratch: Path) -> list[Path]:
    """The source distribution, and the wheel built from it."""
    tools = environment(scratch / "tools", "build", "twine")
    out = scratch / "dist"
    run(tools, "-m", "build", "--outdir", out, source, at=scratch)
    built = sorted(out.iterdir())
    run(tools, "-m", "twine", "check", "--strict", *built, at=scratch)
    return built


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


def environment(folder: Path, *wanted: str | Path) -> Path:
    """The Python of a fresh virtual environment with these packages."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted, at=folder)
    return python


def run(*command: str | Path, at: Path) -> str:
    """A command's output. Its failure ends this, with the output."""
    done = subprocess.run(command, check=False, cwd=at, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

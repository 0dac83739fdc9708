"""What the pages for users show, taken out of them and run: from top to bottom, in an empty folder, with nothing added.

A page is one program. Of its fenced blocks

- ``python`` runs, after all before it and with their names. With the name of a file for a title it is written there instead. With another
  title it is another system's code, and stands to be read.
- ``text`` behind a block of Python is what that prints. A block that prints and has none is an error.
- ``console`` has commands after ``$``, and what they print, if that is shown. ``# exit 2`` behind a command is its exit code.

``…`` stands for anything in a line, and for any lines, or none, when it stands alone. What else is fenced (``sh``, ``yaml``, …) is not run.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Self

from click.testing import CliRunner

from penstock.infra.cli.main import main
from tests.tree import ROOT

OTHER_SYSTEMS = frozenset({"Celery", "Kafka", "RocketMQ", "SQS"})
END = "--the command ended--"
OF_THE_SHELL = re.compile(r"[|&;]|2>| --call |^run ")
"""Commands of ``penstock`` that the shell runs: as told, or for a function of the page's own file, which a process imports but once."""


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    title: str
    code: str
    line: int
    """The number of its first line of code in the page."""

    @property
    def is_file(self) -> bool:
        """Whether it is to be written into a file."""
        return "." in self.title


@dataclass(frozen=True)
class Command:
    """A command of a console, with what it prints."""

    text: str
    expected: list[str]

    @property
    def code(self) -> int:
        """The exit code."""
        found = re.search(r"# exit (\d+)$", self.text)
        return int(found[1]) if found else 0


def user_pages() -> list[Path]:
    """The pages whose code is run."""
    docs = ROOT / "docs"
    single = [docs / f"{name}.md" for name in ("tutorial", "troubleshooting", "faq") if (docs / f"{name}.md").exists()]
    rooms = [page for room in ("guides", "coming-from", "reference") for page in sorted(docs.glob(f"{room}/*.md"))]
    return [page for page in (ROOT / "README.md", *single, *rooms) if blocks(page)]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text()
    found = []
    for fence in re.finditer(r"^( *)```(\w*)([^\n`]*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        title = re.fullmatch(r' title="([^"]+)"', fence[3])
        assert title or not fence[3].strip(), f"{page.name}: {fence[0].splitlines()[0]}: only a title may stand there"
        code = re.sub(rf"^{fence[1]}", "", fence[4], flags=re.MULTILINE)
        found.append(Block(fence[2], title[1] if title else "", code, text.count("\n", 0, fence.start(4)) + 1))
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a console."""
    found = []
    for example in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
        text, *expected = example.splitlines()
        found.append(Command(text, expected))
    return found


def is_as_shown(printed: str, expected: list[str]) -> bool:
    """Whether a text is what the page shows."""
    lines = ["(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in expected]
    return re.fullmatch("".join(lines), f"{text}\n" if (text := printed.rstrip("\n")) else "") is not None


class Run:
    """A page's program in a folder, which is the process's own meanwhile."""

    def __init__(self, page: Path, folder: Path, *, base: str = "./") -> None:
        """``base`` stands for ``./`` in Python's texts: Spark's processes have folders of their own."""
        self._page = page
        self._folder = folder
        self._base = base
        self._names: dict[str, object] = {"__name__": "__main__"}
        self._shell: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._before = Path.cwd(), dict(os.environ)
        os.chdir(self._folder)
        os.environ |= {"COLUMNS": "150", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._shell is not None:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.communicate()
        folder, environment = self._before
        os.chdir(folder)
        os.environ.clear()
        os.environ |= environment

    def all(self) -> None:
        """Run all blocks, each of which must print what is shown."""
        found = blocks(self._page)
        for block, following in zip_longest(found, found[1:]):
            if block.language == "console":
                for command in commands(block):
                    self.command(command)
            elif block.language == "python" and block.is_file:
                path = self._folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._based(block.code))
            elif block.language == "python" and block.title:
                assert block.title in OTHER_SYSTEMS, f"{self._page.name}:{block.line}: which system is {block.title}?"
            elif block.language == "python":
                printed = self.python(block)
                shown = following.code.splitlines() if following and following.language == "text" else []
                assert is_as_shown(printed, shown), f"{self._page.name}:{block.line} printed:\n{printed}"

    def python(self, block: Block) -> str:
        """Run a block of Python. Returns what it printed."""
        shown = StringIO()
        code = "\n" * (block.line - 1) + self._based(block.code)
        with redirect_stdout(shown):
            exec(compile(code, str(self._page), "exec", dont_inherit=True), self._names)
        return shown.getvalue()

    def command(self, command: Command) -> None:
        """Run a command. ``penstock`` runs in this process, as many of its own would take long, unless the shell must."""
        before, found, call = command.text.partition("penstock ")
        if command.text.startswith("export "):
            name, value = command.text.removeprefix("export ").split("=", 1)
            os.environ[name] = self._in_shell(f"printf %s {value}")[1]
            self._in_shell(command.text)
            return
        call = re.sub(r"\s+# .*$", "", call)
        unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", call)
        if not found or OF_THE_SHELL.search(unquoted) or (before and not before.endswith("| ")):
            code, printed = self._in_shell(re.sub(r"\s+# exit \d+$", "", command.text))
        else:
            code, printed = self._in_process(call, given=before.rstrip("| "))
        assert code == command.code, f"{command.text}\n{printed}"
        if command.expected:
            assert is_as_shown(printed, command.expected), f"{command.text} printed:\n{printed}"

    def _in_process(self, call: str, *, given: str) -> tuple[int, str]:
        """The exit code of a ``penstock`` command, and what a reader sees of its output. ``given`` writes its standard input."""
        words, _, file = call.partition(" > ")
        # Bytes, as they may be packed; so not by the shell that shows what a reader sees.
        piped = subprocess.run(["bash", "-c", given or ":"], check=True, capture_output=True).stdout
        result = CliRunner().invoke(main, shlex.split(os.path.expandvars(words)), input=piped)
        if file:
            Path(file).write_text(result.stdout)
        return result.exit_code, result.stderr if file else result.output

    def _in_shell(self, text: str) -> tuple[int, str]:
        """A command's exit code and all that the shell's processes print until it ends."""
        if self._shell is None:
            self._shell = subprocess.Popen(
                ["bash"],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        shell = self._shell
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(f"{text}\necho {shlex.quote(END)} $?\n")
        shell.stdin.flush()
        printed = ""
        while END not in printed:
            line = shell.stdout.readline()
            assert line, f"{text} ended the shell:\n{printed}"
            printed += line
        printed, _, code = printed.partition(END)
        return int(code), printed

    def _based(self, code: str) -> str:
        return code.replace('"./', f'"{self._base}')

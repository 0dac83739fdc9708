#!/usr/bin/env python
"""Write the synchronous face, `penstock/blocking/`, from the asynchronous classes: `infra/scripts/blocking_face.py` (`--check` only compares).

Every public method becomes one that waits: signature, overloads and docstring are copied, the body hands the call to the lake's event-loop
thread.
The sources are read, never imported. What stays written by hand stands in `penstock/blocking/face.py`, and is named here.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "penstock.blocking"
HEAD = "Made by infra/scripts/blocking_face.py (`make face`). Do not edit: change the asynchronous classes, and make it anew. They are in"


@dataclass(frozen=True)
class Face:
    """One synchronous class."""

    name: str
    sources: tuple[str, ...]
    """The modules with the asynchronous class, the nearest first: its public members become this one's. ``module:Class``: another name there."""
    base: str
    """The base class, from `penstock/blocking/face.py`, or ``module:Class``."""
    without: str = ""
    """Members that it lacks, or inherits from its base."""
    is_awaited: bool = False
    """Whether a plain call makes the asynchronous one, which begins when awaited."""


@dataclass(frozen=True)
class Module:
    """One file of `penstock/blocking/`."""

    name: str
    summary: str
    faces: tuple[Face, ...]


MODULES = (
    Module(
        "consumers",
        "Consumers of a group.",
        (
            Face("PushConsumer", ("penstock.consumers.push",), "ConsumerFace", is_awaited=True),
            Face("PullConsumer", ("penstock.consumers.pull",), "ConsumerFace", is_awaited=True),
            Face(
                "SimpleConsumer",
                ("penstock.consumers.simple",),
                "SimpleConsumerFace",
                without="is_of handles_of known_handle settle_by",
                is_awaited=True,
            ),
            Face("BroadcastConsumer", ("penstock.consumers.broadcast",), "ConsumerFace", is_awaited=True),
        ),
    ),
    Module(
        "topics",
        "What a topic is written and read with.",
        (
            Face(
                "Producer",
                ("penstock.log.produce.producer",),
                "ProducerFace",
                without="closed send_copies wait_for_room after_fork",
            ),
            Face(
                "Reader",
                ("penstock.log.read.reader",),
                "ClosableFace",
                without="topic stored_at ranges find remember known_offsets known_offsets_of table_bytes",
            ),
        ),
    ),
    Module(
        "transactions",
        "Transactions, and who answers for them.",
        (
            Face("Transaction", ("penstock.coordinator.transactions.sending.transaction",), "TransactionFace", without="leave"),
            Face("Checking", ("penstock.aio.transactions",), "ClosableFace", without="closed ask_instead"),
        ),
    ),
    Module(
        "lake",
        "A lake.",
        (
            Face(
                "Lake",
                ("penstock.aio.lake", "penstock.aio.consumers:ConsumingLake", "penstock.log.lake:LogLake"),
                "lake_face:LakeFace",
                without="create_topic producer close coordination transactions checks topic timer_log keep_time agree_on_time",
            ),
        ),
    ),
)

BODIES = {
    "Reader.messages": "for batch in self.read({arguments}):\n    yield from views(self._core.topic, batch)",
}
"""Bodies of methods that are no plain call."""

SPOKEN = (
    (re.compile(r"\b([Aa])n(\s+)``async with``"), r"\1\2``with``"),
    (re.compile(r"\basync with\b"), "with"),
    (re.compile(r"``await "), "``"),
)
"""Changes of docstrings; paragraphs that begin with "On an event loop" are left out."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def path_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text())


@cache
def imports_of(module: str) -> dict[str, str]:
    """The line that imports each name at the top of a module."""
    package = module if path_of(module).name == "__init__.py" else module.rpartition(".")[0]
    found: dict[str, str] = {}
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            parts = package.split(".")
            start = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            origin = ".".join(filter(None, (start, node.module)))
            found |= {one.asname or one.name: f"from {origin} import {ast.unparse(one)}" for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {one.asname or one.name: f"import {ast.unparse(one)}" for one in node.names}
    for node in parsed(module).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        names += [node.name] if isinstance(node, ast.ClassDef | Function) else []
        found |= {name: f"from {module} import {name}" for name in names}
    return found


def class_in(module: str, name: str) -> ast.ClassDef:
    return next(node for node in parsed(module).body if isinstance(node, ast.ClassDef) and node.name == name)


def spoken(docstring: str | None, where: str) -> str:
    if not docstring:
        raise SystemExit(f"{where} has no docstring")
    for pattern, instead in SPOKEN:
        docstring = pattern.sub(instead, docstring)
    paragraphs = [one for one in docstring.split("\n\n") if not one.startswith("On an event loop")]
    text = "\n\n".join(paragraphs)
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'


def _is(node: ast.stmt, decorator: str) -> bool:
    return isinstance(node, Function) and any(ast.unparse(one) == decorator for one in node.decorator_list)


def names_in(*nodes: ast.AST | None) -> Iterator[str]:
    for node in filter(None, nodes):
        yield from (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


class Writer:
    """One module, as it is written."""

    def __init__(self, module: Module, modules: Iterable[Module]) -> None:
        self.module = module
        self.homes = {face.name: (one.name, face) for one in modules for face in one.faces}
        self.imports: set[str] = set()

    def text(self) -> str:
        classes = [self.written(face) for face in self.module.faces]
        sources = sorted({source.partition(":")[0] for face in self.module.faces for source in face.sources})
        listed = "\n".join(f"    {source}" for source in sources)
        head = f"{self.module.summary} The work is done on the lake's event-loop thread.\n\n{HEAD}\n\n{listed}\n"
        return neat("\n\n".join([f'"""{head}"""', "from __future__ import annotations", *sorted(self.imports), *classes]))

    def written(self, face: Face) -> str:
        core, known = f"Async{face.name}", set(face.without.split())
        home, _, base = face.base.rpartition(":")
        self.imports |= {f"from {face.sources[0]} import {face.name} as {core}", f"from .{home or 'face'} import {base}"}
        parts = [spoken(ast.get_docstring(class_in(face.sources[0], face.name)), face.name)]
        overloads: list[str] = []
        for source, _, name in (one.partition(":") for one in face.sources):
            body = class_in(source, name or face.name).body
            for node, following in zip(body, [*body[1:], None], strict=True):
                name = self.public(node)
                if name is None or name in known:
                    continue
                if _is(node, "overload"):
                    overloads.append(self.overloaded(source, node))
                else:
                    known.add(name)
                    parts.append("\n".join([*overloads, self.member(face, source, node, following)]))
                    overloads = []
        return f"class {face.name}({base}[{core}]):\n" + indent("\n\n".join(parts), "    ")

    def public(self, node: ast.stmt) -> str | None:
        """The name of a method, or of an attribute that the class declares."""
        if isinstance(node, Function):
            name = node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        else:
            return None
        return None if name.startswith("_") else name

    def member(self, face: Face, source: str, node: ast.stmt, following: ast.stmt | None) -> str:
        if isinstance(node, ast.AnnAssign):
            assert isinstance(following, ast.Expr), f"{face.name}.{ast.unparse(node.target)} has a docstring"
            assert isinstance(following.value, ast.Constant)
            return self.attribute(source, ast.unparse(node.target), node.annotation, str(following.value.value))
        assert isinstance(node, Function)
        if _is(node, "property"):
            return self.attribute(source, node.name, node.returns, ast.get_docstring(node))
        return self.method(face, source, node)

    def attribute(self, source: str, name: str, kind: ast.expr | None, docstring: str | None) -> str:
        self.need(source, kind)
        assert kind is not None, f"{name} has a type"
        body = f"{spoken(docstring, name)}\nreturn self._core.{name}"
        return f"@property\ndef {name}(self) -> {ast.unparse(kind)}:\n{indent(body, '    ')}"

    def overloaded(self, source: str, node: Function) -> str:
        self.imports.add("from typing import overload")
        return f"@overload\n{self.signature(source, node)} ..."

    def signature(self, source: str, node: Function) -> str:
        everything = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        self.need(source, node.returns, *(one.annotation for one in everything if one), *node.args.defaults, *node.args.kw_defaults)
        assert node.returns is not None, f"{node.name} says what it returns"
        returns = ast.unparse(node.returns)
        if found := re.fullmatch(r"AsyncGenerator\[(.+), None\]", returns):
            self.imports.add("from collections.abc import Iterator")
            returns = f"Iterator[{found[1]}]"
        return f"def {node.name}({ast.unparse(node.args)}) -> {returns}:"

    def method(self, face: Face, source: str, node: Function) -> str:
        signature = self.signature(source, node)
        returns, given = ast.unparse(node.returns) if node.returns else "", self.arguments(node)
        call = f"self._core.{node.name}({given})"
        work = f"lambda: {call}" if given else f"self._core.{node.name}"
        if "core_of(" in given:
            self.imports.add("from .face import core_of")
        if special := BODIES.get(f"{face.name}.{node.name}"):
            self.need(source, ast.parse(special.format(arguments=given)))
            body = special.format(arguments=given)
        elif node.name == "close":
            body = f"if not self._portal.stopped:\n    self._portal.run({work})"
        elif returns.startswith("AsyncGenerator["):
            self.imports |= {"from .face import iterated"}
            body = f"return iterated(self._portal, {call})"
        elif returns in self.homes:
            run = "self._portal.run" if isinstance(node, ast.AsyncFunctionDef) else "self._begun"
            run = "self._joined" if self.homes[returns][1].is_awaited else run
            body = f"return {returns}({run}({work}), self._portal)"
        elif isinstance(node, ast.AsyncFunctionDef):
            body = f"{'' if returns == 'None' else 'return '}self._portal.run({work})"
        else:
            body = f"{'' if returns == 'None' else 'return '}{call}"
        text = f"{spoken(ast.get_docstring(node), f'{face.name}.{node.name}')}\n{body}"
        return f"{signature}\n{indent(text, '    ')}"

    def arguments(self, method: Function) -> str:
        """The arguments as handed on: of a synchronous object, the asynchronous one."""

        def handed(one: ast.arg) -> str:
            return f"core_of({one.arg})" if self.homes.keys() & set(names_in(one.annotation)) else one.arg

        given = [handed(one) for one in (*method.args.posonlyargs, *method.args.args)[1:]]
        given += [f"*{method.args.vararg.arg}"] if method.args.vararg else []
        given += [f"{one.arg}={handed(one)}" for one in method.args.kwonlyargs]
        given += [f"**{method.args.kwarg.arg}"] if method.args.kwarg else []
        return ", ".join(given)

    def need(self, source: str, *nodes: ast.AST | None) -> None:
        """Import what the copied types and defaults name."""
        for name in set(names_in(*nodes)) - {"self", "AsyncGenerator", *vars(builtins)}:
            if name in self.homes:
                if (home := self.homes[name][0]) != self.module.name:
                    self.imports.add(f"from .{home} import {name}")
            elif name in imports_of(source):
                self.imports.add(imports_of(source)[name])


def neat(text: str) -> str:
    """As ruff would have it, with the imports in order."""
    for step in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *step, "--stdin-filename", str(path_of(f"{PACKAGE}.made")), "-"]
        text = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout
    return text


def made(modules: Iterable[Module] = MODULES) -> dict[Path, str]:
    """The files as they should be."""
    return {path_of(f"{PACKAGE}.{module.name}"): Writer(module, modules).text() for module in modules}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not as it would be written")
    check = parser.parse_args().check
    outdated = {path: text for path, text in made().items() if not path.exists() or path.read_text() != text}
    for path, text in outdated.items():
        print(f"{path.relative_to(ROOT)} is {'not up to date' if check else 'written'}")
        if not check:
            path.write_text(text)
    return 1 if check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())

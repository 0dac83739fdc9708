"""Runs tests against mutants inside one collected pytest session: each mutant in a fork, so that nothing is imported or collected again."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.garbage import SET_ASIDE
from tests.mutation.mutants import Mutant, changed_function

CAUGHT, SURVIVED, HUNG, AT_IMPORT, UNSEEN = "caught", "survived", "hung", "at import", "never run"
_BY_EXIT = {0: SURVIVED, 1: CAUGHT, 3: AT_IMPORT}
_START_S, _SLOWER = 60.0, 20
"""What a mutant may take on a busy machine: so long, and so many times what its tests took of a processor."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a test ran, unharmed: the functions, as file and name; and how much processor time it took, which other load does not change."""

    functions: frozenset[tuple[str, str]]
    took_s: float
    passed: bool


class Mutation:
    """A pytest plugin: in place of the tests it runs mutants, and writes a line of JSON for each."""

    def __init__(self, mutants: Sequence[Mutant], *, out: Path, seen: Path, workers: int, budget_s: float) -> None:
        self._mutants, self._out, self._seen_path = mutants, out, seen
        self._workers, self._budget_s = workers, budget_s
        self._seen: dict[str, Seen] = {}
        self._told: dict[str, dict[str, Any]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        from hypothesis import settings  # pytest rewrites it, so not before

        # The same examples for every mutant: a mutant that only luck catches is not caught.
        settings.register_profile("mutation", deadline=None, derandomize=True, database=None)
        settings.load_profile("mutation")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = [item for item in session.items if isinstance(item, pytest.Function)]
        for path in sorted({mutant.path for mutant in self._mutants}):
            _module_of(path)
        self._watch(items)
        self._try_all(items)
        return True

    # --- What each test runs ----------------------------------------------------------------------------------------------------

    def _watch(self, items: Sequence[pytest.Function]) -> None:
        """Run every test once, in forks, unless an earlier run has noted what it runs."""
        known = self._read_seen()
        missing = [item for item in items if item.nodeid not in known]
        print(f"{len(items)} tests, of which {len(missing)} are watched first")
        shares = [missing[worker :: self._workers] for worker in range(self._workers)]
        for pid in [_fork(lambda share=share: self._note(share)) for share in shares if share]:
            os.waitpid(pid, 0)
        self._seen = self._read_seen()
        broken = [item.nodeid for item in items if item.nodeid in self._seen and not self._seen[item.nodeid].passed]
        for nodeid in broken:
            print(f"  not used, as it fails unharmed: {nodeid}")

    def _read_seen(self) -> dict[str, Seen]:
        if not self._seen_path.exists():
            return {}
        told = [json.loads(line) for line in self._seen_path.read_text().split("\n") if line]
        return {one["test"]: Seen(frozenset((f, n) for f, n in one["functions"]), one["took_s"], one["passed"]) for one in told}

    def _note(self, items: Sequence[pytest.Function]) -> int:
        for place, item in enumerate(items):
            codes: dict[int, CodeType] = {}

            def called(frame: FrameType, event: str, _: Any, codes: dict[int, CodeType] = codes) -> None:
                codes[id(frame.f_code)] = frame.f_code

            threading.settrace(called)
            sys.settrace(called)
            began_s = time.process_time()
            passed = _passes(item, items[place + 1] if place + 1 < len(items) else None)
            took_s = time.process_time() - began_s
            sys.settrace(None)
            threading.settrace(None)
            functions = sorted({(_path(code), code.co_qualname) for code in codes.values() if _ours(code)})
            line = json.dumps({"test": item.nodeid, "took_s": took_s, "passed": passed, "functions": functions})
            with self._seen_path.open("a") as file:
                file.write(line + "\n")
        return 0

    # --- Mutants ----------------------------------------------------------------------------------------------------------------

    def _try_all(self, items: Sequence[pytest.Function]) -> None:
        waiting, running = list(reversed(self._mutants)), dict[int, tuple[Mutant, float, int]]()
        done = 0
        while waiting or running:
            while waiting and len(running) < self._workers:
                mutant = waiting.pop()
                verdict, pid, patience_s, tests = self._begin(mutant, items)
                if verdict:
                    self._tell(mutant, verdict, tests)
                else:
                    running[pid] = mutant, time.monotonic() + patience_s, tests
            done += self._reap(running)
            if done and done % 50 == 0:
                print(f"  {done} tried, {len(waiting)} to go", flush=True)
                done += 1

    def _begin(self, mutant: Mutant, items: Sequence[pytest.Function]) -> tuple[str, int, float, int]:
        module = _module_of(mutant.path)
        source = Path(str(module.__file__)).read_bytes()
        filename = str(module.__file__)
        changed = changed_function(compile(source, filename, "exec"), compile(mutant.apply(source), filename, "exec"))
        if changed is None:
            return AT_IMPORT, 0, 0.0, 0
        old, new = changed
        tests = self._tests_of(old, mutant.path, items)
        if not tests:
            return UNSEEN, 0, 0.0, 0

        def child() -> int:
            functions = functions_of(old)
            for function in functions:
                function.__code__ = new
            for place, item in enumerate(tests):
                if not _passes(item, tests[place + 1] if place + 1 < len(tests) else None):
                    return 1
            return 0 if functions else 3

        took_s = sum(self._seen[item.nodeid].took_s for item in tests)
        return "", _fork(child), _START_S + _SLOWER * took_s, len(tests)

    def _tests_of(self, code: CodeType, path: str, items: Sequence[pytest.Function]) -> list[pytest.Function]:
        """Those that run the function, the likeliest first, until the budget is spent."""
        key = (_path(code), code.co_qualname)
        own = Path(path).stem

        def rank(item: pytest.Function) -> tuple[bool, float]:
            return not item.path.stem.startswith(f"test_{own}"), self._seen[item.nodeid].took_s

        fitting = [item for item in items if (seen := self._seen.get(item.nodeid)) and seen.passed and key in seen.functions]
        chosen: list[pytest.Function] = []
        spent_s = 0.0
        for item in sorted(fitting, key=rank):
            took_s = self._seen[item.nodeid].took_s
            if chosen and spent_s + took_s > self._budget_s:
                continue
            chosen.append(item)
            spent_s += took_s
        return chosen

    def _reap(self, running: dict[int, tuple[Mutant, float, int]]) -> int:
        ended = 0
        for pid, (mutant, until, tests) in list(running.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                code = os.waitstatus_to_exitcode(status)
                self._tell(mutant, _BY_EXIT.get(code, f"ended by {code}"), tests)
            elif time.monotonic() > until:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self._tell(mutant, HUNG, tests)
            else:
                continue
            del running[pid]
            ended += 1
        if not ended:
            time.sleep(0.01)
        return ended

    def _tell(self, mutant: Mutant, verdict: str, tests: int) -> None:
        told = {"mutant": mutant.name, "path": mutant.path, "line": mutant.line, "verdict": verdict, "tests": tests}
        with self._out.open("a") as file:
            file.write(json.dumps(told, ensure_ascii=False) + "\n")


def functions_of(code: CodeType) -> list[FunctionType]:
    """The living functions that this is the code of, in any form of it."""
    SET_ASIDE.back()  # what is frozen is not among the objects: pytest's configuration freezes all modules
    # isinstance would ask a proxy for the class of an object that may be gone.
    return [one for one in gc.get_objects() if type(one) is FunctionType and _place(one.__code__) == _place(code)]


def _passes(item: pytest.Function, following: pytest.Function | None) -> bool:
    return not any(report.failed for report in runtestprotocol(item, nextitem=following, log=False))


def _ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_LIBRARY)


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _path(code: CodeType) -> str:
    return code.co_filename.removeprefix(_LIBRARY)


_LIBRARY = str(Path(__file__).resolve().parents[2] / "penstock") + "/"


def _module_of(path: str) -> ModuleType:
    parts = Path(path).with_suffix("").parts
    return importlib.import_module(".".join(("penstock", *parts)).removesuffix(".__init__"))


def _fork(child: Any) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 2
    try:
        os.setpgrp()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = child()
    finally:
        os._exit(code)

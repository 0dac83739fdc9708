"""The tests that stand for mutants in `make test`: they are there, and each fails without the guard."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.stand_ins import STAND_INS
from tests.tree import ROOT

EACH = [pytest.param(mutant, file, test, id=mutant) for mutant, (file, test) in STAND_INS.items()]


def test_what_a_simulation_does_not_meet_has_one() -> None:
    assert STAND_INS.keys() <= MUTANTS.keys()
    assert {name for name, mutant in MUTANTS.items() if mutant.unmet} <= STAND_INS.keys()


@pytest.mark.parametrize(("mutant", "file", "test"), EACH)
def test_it_is_there(mutant: str, file: str, test: str) -> None:
    functions = {
        node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert test in functions


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(480)
@pytest.mark.parametrize(("mutant", "file", "test"), EACH)
def test_it_fails_without_the_guard(mutant: str, file: str, test: str) -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--timeout=60",  # without its guard a test may wait for ever
            "-p",
            "tests.simulation.without_guard",
            "-p",
            "no:cacheprovider",
            f"{file}::{test}",
        ],
        cwd=ROOT,
        env={**os.environ, "PENSTOCK_WITHOUT_GUARD": mutant},
        capture_output=True,
        text=True,
        timeout=400,  # one of them plays a million steps before it gives up: 70 s of the processor
        check=False,
    )
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout + ran.stderr

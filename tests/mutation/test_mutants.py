"""What the mutation run takes away, and that it knows what it changed."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest

from tests.garbage import SET_ASIDE
from tests.mutation.__main__ import equivalents
from tests.mutation.mutants import changed_function, mutants_of
from tests.mutation.plugin import functions_of
from tests.tree import ROOT

SOURCE = b"""
class Door:
    def opens(self, key: int) -> bool:
        if (given := key) < 3 and given:
            return False
        return all(one is not None for one in [given]) and 0 < key <= 9
"""


def test_guards_and_comparisons_are_changed_one_at_a_time() -> None:
    found = {(one.function, one.change): one.apply(SOURCE).decode() for one in mutants_of("door.py", SOURCE)}
    assert set(found) == {
        ("Door.opens", "never return"),
        ("Door.opens", "< → <="),
        ("Door.opens", "is not → is"),
        ("Door.opens", "<= → <"),
    }
    assert "if (((given := key) < 3 and given) and False):" in found["Door.opens", "never return"]
    assert "all(one is None for" in found["Door.opens", "is not → is"]
    names = [one.name for one in mutants_of("door.py", SOURCE)]
    assert len(names) == len(set(names)) == 5


def test_the_function_that_was_changed_is_found() -> None:
    before = compile(SOURCE, "door.py", "exec")
    for mutant in mutants_of("door.py", SOURCE):
        changed = changed_function(before, compile(mutant.apply(SOURCE), "door.py", "exec"))
        assert changed is not None
        assert [code.co_qualname for code in changed] == ["Door.opens"] * 2


def test_functions_are_found_that_the_collector_passes_over() -> None:
    SET_ASIDE.now()
    try:
        assert functions_of(changed_function.__code__) == [changed_function]
    finally:
        SET_ASIDE.now()


def test_a_proxy_of_what_is_gone_is_passed_over() -> None:
    proxy = weakref.proxy(_Gone())
    assert functions_of(changed_function.__code__) == [changed_function]
    with pytest.raises(ReferenceError):
        bool(proxy)


class _Gone:
    """What nothing refers to any more."""


def test_equivalents_name_mutants_that_there_are() -> None:
    paths = {name.partition(" ")[0] for name in equivalents()}
    there = {one.name for path in paths for one in mutants_of(path, Path(ROOT / path).read_bytes())}
    assert equivalents().keys() <= there
    assert all(equivalents().values())

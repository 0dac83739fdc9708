"""Errors: what they say, that programs can tell them apart, and that they survive a trip to another process."""

from __future__ import annotations

import pickle

import pytest

import penstock
from penstock.log import errors
from penstock.log.stores.protocol import Conflict, ObjectMissing

ALL: list[type[errors.PenstockError]] = [
    one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.PenstockError)
]


def test_every_error_has_a_code_of_its_own() -> None:
    everything: list[type[errors.PenstockError]] = [*ALL, Conflict, ObjectMissing]
    kinds = [one.kind for one in everything]
    assert len(set(kinds)) == len(kinds)


def test_groups_say_what_to_do_next() -> None:
    leaves = [one for one in ALL if one is not errors.PenstockError]
    groups = (errors.RetryError, errors.ReopenError, errors.CallError, errors.DataDamaged, errors.InternalError)
    assert all(sum(issubclass(one, group) for group in groups) == 1 for one in leaves)


def test_the_text_has_the_facts_and_the_hint() -> None:
    error = penstock.InvalidArgument(
        "bad thing", operation="do", object="topics/x", expected="a", observed=0, hint="do it otherwise"
    )
    assert str(error) == "bad thing (operation: do; object: topics/x; expected: a; observed: 0). do it otherwise"
    assert str(penstock.ClosedError("closed")) == "closed"


@pytest.mark.parametrize("kind", ALL)
def test_an_error_survives_pickling(kind: type[errors.PenstockError]) -> None:
    error = kind("message", operation="op", observed=[1], hint="hint")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert copy.observed == [1]


def test_the_door_shows_every_error_a_user_meets() -> None:
    inner = {"ViewLost", "ForeignObject", "MissingDependency"}
    hidden = {one.__name__ for one in ALL} - set(vars(penstock)["__all__"]) - inner
    assert not hidden

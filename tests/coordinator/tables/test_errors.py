"""The errors that tables add: programs can tell them apart from all others, and they survive a trip to another process."""

from __future__ import annotations

import pickle

import pytest

from penstock.coordinator.tables import Conflict, TableMismatch, TableNotFound
from penstock.log import errors


@pytest.mark.parametrize("kind", [TableMismatch, TableNotFound, Conflict])
def test_an_error_has_a_code_of_its_own_and_can_be_sent(kind: type[errors.PenstockError]) -> None:
    others = {one.kind for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.PenstockError)}
    assert kind.kind not in others
    copy = pickle.loads(pickle.dumps(kind("message", operation="get", object="cells/k", hint="do this")))
    assert type(copy) is kind
    assert str(copy) == "message (operation: get; object: cells/k). do this"


def test_a_table_that_is_not_right_is_for_the_caller_to_mend() -> None:
    assert issubclass(TableNotFound, errors.CallError)
    assert issubclass(TableMismatch, errors.CallError)
    assert TableNotFound.kind != TableMismatch.kind

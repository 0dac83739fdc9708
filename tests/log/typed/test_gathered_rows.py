"""Rows that become columns block by block are the same as rows that become columns together."""

from __future__ import annotations

import itertools
import linecache
import sys
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass, make_dataclass
from keyword import iskeyword
from random import Random
from types import FrameType
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.produce.gathered_rows import GatheredRows, RowExtractor
from penstock.log.schema.evolution import evolve
from penstock.log.schema.fields import StructType
from penstock.log.schema.sources import fields_of
from penstock.log.schema.stored_columns import shown_value
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from penstock.log.schema.values import convert
from tests.log.schema.strategies import any_fields, drawn_value
from tests.log.schema.test_values import SEEDS, schema


def gathered(of: TopicSchema, rows: list[Any], *, ignore_extra: bool = False) -> GatheredRows:
    made = GatheredRows(RowExtractor(of, ignore_extra=ignore_extra), block_rows=3)
    for row in rows:
        made.append(row)
    return made


def drawn_in_some_form(of: TopicSchema, random: Random) -> Any:
    """A row as a producer may give it, perhaps one that does not fit."""
    row = drawn_value(StructType(of.fields), random)
    names = list(row)
    match random.randrange(8):
        case 0:
            row = {name: row[name] for name in names if random.random() < 0.5}
        case 1:
            row |= {"other": 1}
        case 2:
            row = {name: row[name] for name in reversed(names)}
        case 3:
            row[random.choice(names)] = object()
        case 4:
            return None
        case 5 if all(name.isidentifier() and not iskeyword(name) for name in names):
            return make_dataclass("Row", [(name, Any) for name in names])(**row)
        case 6:
            return 7
    return row


@given(any_fields(), SEEDS, st.booleans(), st.integers(0, 14))
def test_blocks_give_the_same_as_all_rows_together(fields: StructType, seed: int, ignore_extra: bool, count: int) -> None:
    of = first_schema(fields.fields)
    random = Random(seed)
    rows = [drawn_in_some_form(of, random) for _ in range(count)]
    together = convert(rows, of, ignore_extra=ignore_extra)
    gathering = gathered(of, rows, ignore_extra=ignore_extra)
    for _ in range(2):  # it may be asked again
        in_blocks = gathering.converted(of)
        assert in_blocks.bad.keys() == together.bad.keys()
        assert {at: fault.path for at, fault in in_blocks.bad.items()} == {at: fault.path for at, fault in together.bad.items()}
        good = pa.array([at for at in range(count) if at not in together.bad], pa.int64())
        assert shown_value(in_blocks.value.take(good), of).equals(shown_value(together.value.take(good), of))
    for at in range(count):
        given = asdict(rows[at]) if is_dataclass(rows[at]) else rows[at]
        filled = dict.fromkeys(RowExtractor(of, ignore_extra=False).names) | given if isinstance(given, dict) else given
        assert gathering.row(at) in (rows[at], given, filled)


@pytest.mark.parametrize("count", range(7, 9))
def test_rows_that_are_cut_off_are_forgotten(count: int) -> None:
    of = schema("n int, t string")
    rows: list[Any] = [{"n": number, "t": "x"} for number in range(7)] + [{"n": 7, "t": "x", "other": 1}]
    gathering = gathered(of, rows)
    gathering.cut(count)
    assert gathering.converted(of).value.field("n").to_pylist() == list(range(count))
    gathering = gathered(of, rows)
    gathering.cut(count)
    gathering.append({"n": 100})
    values = gathering.converted(of).value.to_pylist()
    assert [value["n"] for value in values] == [*range(count), 100]


@pytest.mark.parametrize("last", [{"n": 7, "t": "x"}, {"n": 7, "t": "x", "other": 1}], ids=["values", "rows"])
def test_an_interrupt_at_any_line_leaves_nothing_of_its_row_and_all_others(last: dict[str, Any]) -> None:
    """A KeyboardInterrupt may strike between any two lines, also while a block becomes columns: the producer cuts off its row then."""
    of = schema("n int, t string")
    rows: list[Any] = [{"n": 0, "t": "x"}, {"n": 1, "t": 1}, None, {"n": 3, "t": "y"}, {"n": 4}, last, {"n": 6, "t": "z"}, {"n": 7}]
    files = {sys.modules[name].__file__ for name in (GatheredRows.__module__, convert.__module__)}
    for struck_row in range(1, len(rows)):
        for line in itertools.count():
            gathering, kept = GatheredRows(RowExtractor(of, ignore_extra=True), block_rows=2), []
            struck = False
            for at, row in enumerate(rows):
                try:
                    with interrupted(files, line if at == struck_row else None):
                        gathering.append(row)
                    kept.append(row)
                except KeyboardInterrupt:
                    struck = True
                    gathering.cut(len(kept))
            made, together = gathering.converted(of), convert(kept, of, ignore_extra=True)
            assert made.bad == together.bad
            good = pa.array([at for at in range(len(kept)) if at not in made.bad])
            assert made.value.take(good).equals(together.value.take(good))
            assert all(gathering.row(at) == kept[at] for at in made.bad)
            if not struck:
                break
        assert line > 3, "it went through all of the call"


@contextmanager
def interrupted(files: set[str | None], line: int | None) -> Iterator[None]:
    """Raise KeyboardInterrupt at the n-th line that is run in these files; None: never."""
    lines = itertools.count()

    def trace(frame: FrameType, event: str, _argument: object) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in files:
            return None
        # The interpreter looks for signals after calls and before jumps back: never at a bare `try`.
        code = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and code != "try:" and next(lines) == line:
            raise KeyboardInterrupt
        return trace

    sys.settrace(None if line is None else trace)
    try:
        yield
    finally:
        sys.settrace(None)


def test_rows_that_do_not_fit_are_tried_again_with_a_later_schema() -> None:
    first = schema("n int, t string")
    later = evolve(first, fields_of("m bigint, t string, added double"), rename={"n": "m"})
    rows: list[Any] = [{"n": number, "t": "x"} for number in range(4)]
    rows += [{"n": 2**40, "t": "x"}, {"n": 5, "t": 5}, {"n": 6, "t": "x", "added": 0.5}]
    gathering = gathered(first, rows)
    assert sorted(gathering.converted(first).bad) == [4, 5, 6]
    made = gathering.converted(later)
    assert sorted(made.bad) == [5]
    values = shown_value(made.value, later).to_pylist()
    assert [value["m"] for at, value in enumerate(values) if at != 5] == [0, 1, 2, 3, 2**40, 6]
    assert values[6]["added"] == 0.5
    assert gathering.row(5) == rows[5]


class Model:
    """As pydantic's models are."""

    model_fields: ClassVar = {"n": int, "t": str}

    def __init__(self, n: int, t: str = "x") -> None:
        self.n, self.t = n, t


@dataclass
class Wider:
    n: int
    t: str = "x"
    other: int = 0


@dataclass
class Same:
    n: int
    t: str = "x"


@pytest.mark.parametrize("cls", [Model, Wider, Same, UserDict, dict])
def test_a_row_is_taken_as_it_is_though_its_sender_uses_the_object_again(cls: Any) -> None:
    of = schema("n int, t string")
    gathering = gathered(of, [None], ignore_extra=True)  # a tombstone: rows behind it cannot be taken apart
    row = cls(n=0)
    for number in range(4):
        if issubclass(cls, Mapping):
            row["n"] = number
        else:
            row.n = number
        gathering.append(row)
    made = gathering.converted(of)
    assert not made.bad
    assert made.value.field("n").to_pylist() == [None, 0, 1, 2, 3]


def test_rows_that_fit_mean_what_they_meant_though_a_neighbour_is_tried_again() -> None:
    first = schema("n int, t string")
    later = evolve(evolve(first, fields_of("n int"), retire=["t"]), fields_of("n int, t string, added int"))
    rows: list[Any] = [{"n": 0, "t": "x"}, {"n": 1, "t": "y", "added": 1}, {"n": 2, "t": "z"}, {"n": 3}, {"n": "bad"}]
    made = gathered(first, rows).converted(later)
    assert sorted(made.bad) == [4]
    values = shown_value(made.value, later).to_pylist()[:4]
    assert [(value["n"], value["t"], value["added"]) for value in values] == [
        (0, None, None),
        (1, "y", 1),
        (2, None, None),
        (3, None, None),
    ]
    assert made.value.field("t").to_pylist()[:4] == ["x", None, "z", None]


def test_fields_that_were_left_out_are_looked_for_in_a_later_version() -> None:
    first = schema("n int")
    later = evolve(first, fields_of("n int, added int"))
    rows: list[Any] = [{"n": number} if number % 2 else {"n": number, "added": number, "other": 0} for number in range(8)]
    made = gathered(first, rows, ignore_extra=True).converted(later)
    assert not made.bad
    added = [value["added"] for value in shown_value(made.value, later).to_pylist()]
    assert added == [None if number % 2 else number for number in range(8)]


class Pair(NamedTuple):
    n: int
    u: int


def test_objects_of_other_fields_are_refused_as_dicts_are() -> None:
    of = schema("n int, t string not null")
    unset = Same(1)
    del unset.n
    rows = [Wider(1), make_dataclass("Narrow", ["n"])(1), unset, Pair(1, 2), Same(1)]
    expected = {0: "other", 1: "t", 2: "the row", 3: "u"}
    made = gathered(of, rows).converted(of)
    alone = [gathered(of, [row]).converted(of).bad for row in rows]
    assert {at: fault.path for at, fault in made.bad.items()} == expected
    assert {at: bad[0].path for at, bad in enumerate(alone) if bad} == expected


def test_a_value_that_cannot_even_be_looked_at_is_met_when_the_batch_is_formed() -> None:
    class Hostile(list[int]):
        def __len__(self) -> int:
            raise RuntimeError("looked at")

    of = schema("l array<int>")
    gathering = gathered(of, [{"l": [1]}, {"l": Hostile()}, {"l": [1]}, {"l": [2]}])
    with pytest.raises(RuntimeError, match="looked at"):
        gathering.converted(of)

"""Values as objects of users' classes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import pytest

from penstock.log.errors import InvalidArgument
from penstock.log.schema.class_values import value_of_class

NOW = datetime(2026, 11, 1, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


@dataclass
class Item:
    sku: str
    n: int = 1


class Place(NamedTuple):
    x: float
    y: float = 0.5


class Parcel(TypedDict):
    weight: int
    colour: Colour | None
    note: NotRequired[str]


@dataclass(frozen=True, kw_only=True)
class Order:
    id: int
    amount: Annotated[Decimal, "decimal(12,2)"]
    at: datetime
    colour: Colour
    key: UUID
    items: list[Item]
    by_name: dict[str, Item | None]
    by_colour: dict[Colour, int]
    place: Place | None
    places: tuple[Place, ...]
    parcel: Parcel
    tags: list[str] | None
    anything: Any
    currency: str = "EUR"
    made: list[int] = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(init=False, default=7)


ROW = {
    "id": 1,
    "amount": Decimal("1.50"),
    "at": NOW,
    "colour": "red",
    "key": "00000000-0000-0000-0000-000000000005",
    "items": [{"sku": "a", "n": 2}, {"sku": "b"}],
    "by_name": {"x": {"sku": "c", "n": 3}, "y": None},
    "by_colour": {"red": 1},
    "place": {"x": 1.0, "y": 2.0},
    "places": [{"x": 1.0}],
    "parcel": {"weight": 3, "colour": "red", "unknown": 1},
    "tags": ["t"],
    "anything": {"free": 1},
    "of_a_later_version": 5,
}


def test_a_dataclass_has_what_it_names_with_all_below() -> None:
    assert value_of_class(ROW, Order) == Order(
        id=1,
        amount=Decimal("1.50"),
        at=NOW,
        colour=Colour.RED,
        key=UUID(int=5),
        items=[Item("a", 2), Item("b", 1)],
        by_name={"x": Item("c", 3), "y": None},
        by_colour={Colour.RED: 1},
        place=Place(1.0, 2.0),
        places=(Place(1.0, 0.5),),
        parcel={"weight": 3, "colour": Colour.RED},
        tags=["t"],
        anything={"free": 1},
    )


def test_what_a_message_has_not_is_the_default_or_none() -> None:
    row = {name: value for name, value in ROW.items() if name not in ("place", "tags", "anything")}
    made = value_of_class({**row, "currency": None, "made": None}, Order)
    assert made is not None
    assert (made.place, made.tags, made.anything, made.currency, made.made, made.total) == (None, None, None, "EUR", [], 7)


@dataclass
class Optional:
    n: int | None = 5


def test_null_is_none_where_the_class_allows_it_whatever_its_default_is() -> None:
    assert value_of_class({"n": None}, Optional) == Optional(None)
    assert value_of_class({}, Optional) == Optional(5)


def test_no_value_is_none() -> None:
    assert value_of_class(None, Order) is None


@dataclass
class Node:
    n: int
    below: list[Node] | None = None


def test_a_class_may_name_itself() -> None:
    assert value_of_class({"n": 1, "below": [{"n": 2}]}, Node) == Node(1, [Node(2)])


@dataclass
class Unknown:
    other: Missing  # type: ignore[name-defined]  # noqa: F821


REFUSED: list[tuple[Any, Any, str]] = [
    ({"n": 1, "other": 2}, Item, "object: Item.sku; expected: a value; observed: the fields n, other"),
    ({"sku": None}, Item, "object: Item.sku; expected: a value; observed: NULL"),
    ({}, Place, "object: Place.x"),
    ({"colour": None}, Parcel, "object: Parcel.weight"),
    ({"weight": 1, "colour": "blue"}, Parcel, "object: Parcel.colour; expected: Colour; observed: 'blue'"),
    ({**ROW, "key": "x"}, Order, "object: Order.key; expected: UUID; observed: 'x'"),
    ({**ROW, "items": [{"n": 1}]}, Order, "object: Item.sku"),
    ({}, dict, "expected: a dataclass, a NamedTuple, a TypedDict or a pydantic model; observed: <class 'dict'>"),
    ({}, Item("a"), "expected: a dataclass, a NamedTuple, a TypedDict or a pydantic model; observed: Item("),
    ({}, Unknown, "the class's annotations cannot be read"),
]


@pytest.mark.parametrize(("row", "cls", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_fit_is_named_by_class_and_field(row: Any, cls: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as found:
        value_of_class(row, cls)
    assert said in str(found.value)


def test_errors_of_the_class_itself_are_the_users() -> None:
    with pytest.raises(ZeroDivisionError):
        value_of_class({"n": 0}, Inverse)


@dataclass
class Inverse:
    n: int

    def __post_init__(self) -> None:
        self.m = 1 / self.n


def test_a_pydantic_model_is_validated() -> None:
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", __config__={"extra": "forbid"}, sku=(str, ...), n=(int, pydantic.Field(1, gt=0)))
    model = pydantic.create_model(
        "Model",
        id=(int, ...),
        inner=(list[inner], ...),  # type: ignore[valid-type]
        colour=(Colour, ...),
        note=(str | None, ...),
        by=(int, pydantic.Field(2, alias="By")),
    )
    row = {"id": 1, "inner": [{"sku": "a", "more": 1}], "colour": "red", "by": 4}
    made = value_of_class(row, model)
    assert made == model(id=1, inner=[inner(sku="a")], colour=Colour.RED, note=None, By=4)
    with pytest.raises(InvalidArgument, match=r"(?s)the model refuses the message's value.*Inner.*greater than 0"):
        value_of_class({**row, "inner": [{"sku": "a", "n": 0}]}, model)

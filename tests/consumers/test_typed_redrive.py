"""Dead letters of rows go back into the fields that they came from, whatever names these have by then."""

from __future__ import annotations

import json
from typing import Any

from penstock.consumers.dead_letters.redrive import redrive
from penstock.consumers.dead_letters.writer import FIELD_NAMES, DeadLetterWriter
from penstock.log import Message, TopicSchema, TopicSettings
from tests.consumers.letters import AT_ONCE, Scene, letters
from tests.playing import played_on

DDL = "a int, b int, part struct<x: int, y: int>, xs array<struct<u: int>>, m map<string, struct<v: int>>"
ROW: dict[str, Any] = {"a": 1, "b": 2, "part": {"x": 3, "y": 4}, "xs": [{"u": 5}], "m": {"value": {"v": 6}}}
OTHER = "b int, a int, part struct<y: int, x: int>, xs array<struct<w: int>>, m map<string, struct<v: int>>"
SWAPPED = {"a": "b", "b": "a", "part.x": "y", "part.y": "x", "xs.element.u": "w"}
SWAPPED_ROW = {"b": 1, "a": 2, "part": {"y": 3, "x": 4}, "xs": [{"w": 5}], "m": {"value": {"v": 6}}}


async def sent(scene: Scene, row: dict[str, Any]) -> None:
    producer = await scene.lake.producer("orders", options=AT_ONCE)
    await producer.send(Message(None, value=row))
    await producer.close()


async def evolve(scene: Scene, ddl: str, rename: dict[str, str] | None = None, retire: tuple[str, ...] = ()) -> None:
    await scene.lake.evolve_topic("orders", ddl, rename=rename or {}, retire=retire)


async def buried(scene: Scene) -> dict[str, str]:
    """Bury all that the topic holds. Returns the properties of the last letter."""
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters(await scene.read("orders")))
    return dict((await scene.read())[-1].properties)


async def back(scene: Scene) -> list[Any]:
    await redrive(scene.process(), "billing")
    return [one.value for one in await scene.read("orders") if "REDRIVE_OFFSET" in one.properties]


def typed(ddl: str = DDL) -> Scene:
    return Scene(queues=1, message_type="NORMAL", schema=TopicSchema.of(ddl))


@played_on(typed)
async def test_names_changed_hands_since_the_row_was_buried(scene: Scene) -> None:
    await sent(scene, ROW)
    assert FIELD_NAMES not in await buried(scene), "the names are those that never change"
    await evolve(scene, OTHER, SWAPPED)
    assert await back(scene) == [SWAPPED_ROW]


@played_on(typed)
async def test_names_had_changed_hands_when_the_row_was_buried(scene: Scene) -> None:
    await evolve(scene, OTHER, SWAPPED)
    await sent(scene, SWAPPED_ROW)
    properties = await buried(scene)
    assert json.loads(properties[FIELD_NAMES]) == {"1": "b", "2": "a", "4": "y", "5": "x", "8": "w"}
    assert json.loads((await scene.read())[0].content) == SWAPPED_ROW, "people read the names of that time"
    await evolve(scene, DDL, {"b": "a", "a": "b", "part.x": "y", "part.y": "x", "xs.element.w": "u"})
    assert await back(scene) == [ROW]


@played_on(typed, "a int, b int")
async def test_a_name_of_a_retired_field_is_the_new_ones(scene: Scene) -> None:
    await evolve(scene, "a int, b string", retire=("b",))
    await sent(scene, {"a": 1, "b": "new"})
    await buried(scene)
    await evolve(scene, "a int, b string, c int")
    assert await back(scene) == [{"a": 1, "b": "new", "c": None}]


@played_on(typed, "a int, b int")
async def test_a_name_that_a_retired_field_is_stored_under_is_that_of_the_field_that_had_it(scene: Scene) -> None:
    await evolve(scene, "b int", {"a": "b"}, retire=("b",))
    await sent(scene, {"b": 1})
    await buried(scene)
    assert await back(scene) == [{"b": 1}]


@played_on(typed, DDL.replace("a int", "a int not null"))
async def test_what_does_not_fit_stays_and_stops_nothing(scene: Scene) -> None:
    await scene.lake.create_topic("%DLQ%billing", TopicSettings(queues=1))
    letter = {"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_QUEUE": "0", "DLQ_ORIGIN_OFFSET": "0", "RECONSUME_TIMES": "0"}
    letter |= {"DLQ_ORIGIN_MESSAGE_ID": "1" * 32, "DLQ_REASON": "x", "DLQ_SEQUENCE": "0"}
    letters = await scene.lake.producer("%DLQ%billing", options=AT_ONCE)
    for body in (b"\xff", b"no JSON", b'{"a": "x"}', b'{"a": 3000000000}', b'{"zz": 1}', b'{"b": 1}'):
        await letters.send(Message(body, properties=letter))
    for said in ("[]", "no JSON", '{"x": 1}', '{"99": "a"}'):  # anybody may send to the topic
        await letters.send(Message(b'{"a": 1}', properties={**letter, FIELD_NAMES: said}))
    await letters.send(Message(None, properties=letter))
    await letters.close()
    report = await redrive(scene.process(), "billing")
    assert (report.sent, report.refused) == (5, {"topic orders has another schema now": 6})
    found = [one.value for one in await scene.read("orders")]
    assert [None if one is None else one["a"] for one in found] == [1, 1, 1, 1, None]

"""The judge of a topic's schemas: which evolutions hold, and which batches fit."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from penstock.log.format.fold import VoidReason
from penstock.log.format.header import Created, Deleted, Evolved
from penstock.log.format.schema_form import SchemaForm, schema_form
from penstock.log.format.state import TopicState, row_sum
from penstock.log.limits import SCHEMA_VERSIONS_KEPT
from penstock.log.schema.evolution import evolve
from penstock.log.schema.sources import fields_of
from penstock.log.schema.topic_schema import TopicSchema, first_schema
from tests.log.test_fold import batch, step

FIRST = first_schema(fields_of("a int"))
SECOND = evolve(FIRST, fields_of("a bigint"))
THIRD = evolve(SECOND, fields_of("a bigint, b string"))
NARROWED = replace(THIRD, version=2, fields=(replace(FIRST.fields[0], nullable=False),), last_id=1)


def typed(*later: TopicSchema) -> TopicState:
    """A topic of one queue that had these schemas, one after the other."""
    state = step(TopicState(), actions=[Created("life-1", 1, schema=schema_form(FIRST))]).state
    for schema in later:
        state = step(state, actions=[evolved(schema)]).state
    return state


def evolved(schema: TopicSchema, *, generation: int = 1) -> Evolved:
    return Evolved(generation, schema_form(schema), ())


@pytest.mark.parametrize(("version", "fits"), [(-1, False), (0, False), (1, True), (2, True), (3, False)])
def test_a_batch_is_of_a_version_that_the_topic_has_had(version: int, fits: bool) -> None:
    (verdict,) = step(typed(SECOND), batches=[batch(schema_version=version)]).verdicts
    assert verdict == ({0: 0} if fits else VoidReason.SCHEMA)


@pytest.mark.parametrize(("version", "fits"), [(0, True), (1, False)])
def test_a_batch_of_a_topic_without_a_schema_has_none(version: int, fits: bool) -> None:
    state = step(TopicState(), actions=[Created("life-1", 1)]).state
    (verdict,) = step(state, batches=[batch(schema_version=version)]).verdicts
    assert verdict == ({0: 0} if fits else VoidReason.SCHEMA)


def test_a_version_holds_from_its_own_entry_on() -> None:
    folded = step(typed(), actions=[evolved(SECOND)], batches=[batch(schema_version=2)])
    assert folded.verdicts == ({0: 0},)
    assert (folded.state.schema, [one.version for one in folded.state.versions]) == (SECOND, [1, 2])


@pytest.mark.parametrize(
    "brought",
    [
        evolved(SECOND, generation=0),
        evolved(SECOND, generation=2),
        evolved(FIRST),
        evolved(THIRD),
        evolved(NARROWED),
        Evolved(1, SchemaForm(2, 1, (msgspec.structs.replace(schema_form(FIRST).fields[0], type="no type"),)), ()),
    ],
)
def test_what_does_not_follow_changes_nothing(brought: Evolved) -> None:
    before = typed()
    after = step(before, actions=[brought]).state
    assert (after.schema, after.versions, after.sum) == (FIRST, before.versions, before.sum)


def test_a_topic_without_a_schema_gets_none() -> None:
    state = step(TopicState(), actions=[Created("life-1", 1)]).state
    assert step(state, actions=[evolved(FIRST)]).state.schema is None


def test_a_topic_that_is_gone_does_not_change() -> None:
    state = step(typed(), actions=[Deleted("life-1"), evolved(SECOND)]).state
    assert state.schema == FIRST


@pytest.mark.parametrize("schema", [SECOND, NARROWED])
def test_a_topic_does_not_begin_with_a_schema_that_cannot_be_a_first(schema: TopicSchema) -> None:
    assert not step(TopicState(), actions=[Created("life-1", 1, schema=schema_form(schema))]).state.alive


@pytest.mark.parametrize("again", [None, FIRST])
def test_a_new_life_has_nothing_of_the_schemas_before(again: TopicSchema | None) -> None:
    state = step(typed(SECOND, THIRD), actions=[Deleted("life-1")]).state
    form = None if again is None else schema_form(again)
    state = step(state, actions=[Created("life-2", 1, "life-1", schema=form), evolved(SECOND, generation=1)]).state
    assert (state.schema, [one.version for one in state.versions]) == (again, [] if again is None else [1])
    assert state.sum == row_sum(state)


def test_the_sum_is_that_of_the_schema_and_of_the_versions_that_are_kept() -> None:
    state, schema = typed(), FIRST
    for number in range(SCHEMA_VERSIONS_KEPT + 1):
        schema = evolve(schema, (*schema.fields, *fields_of(f"a{number} int")))
        state = step(state, actions=[evolved(schema)]).state
        assert state.sum == row_sum(state)
    assert [one.version for one in state.versions] == list(range(3, SCHEMA_VERSIONS_KEPT + 3))

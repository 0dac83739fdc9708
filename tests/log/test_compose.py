"""What the next entry holds: everything that counts, nothing that the fold would void, within the caps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.append.compose import compose, still_waits
from penstock.log.append.in_flight import PendingAppend
from penstock.log.format.fold import VoidReason, fold
from penstock.log.format.handover import HandOver
from penstock.log.format.header import Batch, CloseJob, Deleted, Epoch, Grown, Opening, Part, decode_header, encode_header
from penstock.log.format.state import TopicState
from penstock.log.limits import ENTRY_LINKS_MAX, VALIDITY_ENTRIES
from tests.log.strategies import rows_of
from tests.log.test_fold import batch, idle, opened, step, topic
from tests.thorough import examples


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def pending(loop: asyncio.AbstractEventLoop, one: Batch | None = None, size_bytes: int = 100, **parts: Any) -> PendingAppend:
    rows = rows_of(dict(one.rows)) if one is not None and not one.parts else None
    return PendingAppend(0.0, loop.create_future(), one, rows=rows, size_bytes=size_bytes, **parts)


_ACTIONS = (CloseJob("job"), Grown(generation=1, queues=6), Deleted(incarnation="one"))


def handed(tail: int, *batches: Batch, openings: tuple[Opening, ...] = (), name: str = "x") -> HandOver:
    placed = [replace(one, parts=(Part(f"staged/k/{name}/{n}", 0, one.rows, 1, "d" * 32),)) for n, one in enumerate(batches)]
    return HandOver(tail, f"handed/{tail}/{name}", openings, tuple(placed))


def composed(state: TopicState, own: list[PendingAppend], *waiting: HandOver) -> Any:
    return compose(state, own, {one.key: one for one in waiting}, write_id="w", now_ms=1)


def test_what_is_waiting_comes_before_ones_own_and_openings_before_batches(loop: asyncio.AbstractEventLoop) -> None:
    state = topic()
    own, opening = pending(loop, batch("own")), pending(loop, opening=Opening("n", "w", 1, 10**6))
    found = composed(state, [own, opening], handed(state.entry, batch("theirs")))
    assert [one.producer for one in found.header.batches] == ["theirs", "own"]
    assert found.header.inline == [1]
    assert set(found.inline) == {1}
    assert found.header.openings == (opening.opening,)
    assert set(found.put_in) == {own, opening}


def test_what_was_brought_already_is_left_out(loop: asyncio.AbstractEventLoop) -> None:
    """An entry on a state that knows the handed batch does not carry it again; one that waits with it does not either."""
    state = topic()
    object_ = handed(state.entry, batch("theirs"))
    later = step(state, batches=object_.batches).state
    assert composed(later, [], object_).empty
    assert composed(later, [], object_).useless == [object_.key]
    twice = composed(state, [pending(loop, batch("theirs"))], object_)
    assert len(twice.header.batches) == 1


def test_batches_of_a_fenced_life_are_left_out(loop: asyncio.AbstractEventLoop) -> None:
    first = opened(topic())
    old = batch("n", named=True, epoch=first.epochs[0])
    state = opened(first.state, write_id="x").state
    assert composed(state, [pending(loop, old)], handed(state.entry, old)).empty


def test_a_batch_is_left_out_when_the_same_entry_brings_an_opening_that_fences_it(loop: asyncio.AbstractEventLoop) -> None:
    first = opened(topic())
    old = batch("n", named=True, epoch=first.epochs[0])
    rival = pending(loop, opening=Opening("n", "x", 1, 10**6))
    assert composed(first.state, [rival, pending(loop, old)]).header.batches == ()


def test_a_closed_job_is_left_out_of_the_entry_that_closes_it(loop: asyncio.AbstractEventLoop) -> None:
    link = batch(parts=(Part("staged/k", 0, {0: 1}, 1, "d"),), job="j")
    closing = pending(loop, actions=(CloseJob("j"),))
    assert composed(topic(), [closing, pending(loop, link)]).header.batches == ()


def test_links_are_capped(loop: asyncio.AbstractEventLoop) -> None:
    state = topic()
    many = [handed(state.entry, batch(f"p{n}"), name=f"{n:04}") for n in range(ENTRY_LINKS_MAX + 5)]
    found = composed(state, [pending(loop, batch("own"))], *many)
    assert [one.producer for one in found.header.batches] == [f"p{n}" for n in range(ENTRY_LINKS_MAX)]


def test_a_hand_over_of_a_later_state_is_kept_for_when_it_can_be_judged() -> None:
    """Its opening may stand in an entry that this process has not read yet."""
    state = topic()
    object_ = handed(state.entry + 3, batch("n", named=True, epoch=Epoch(state.entry + 2, 0)))
    assert still_waits(object_, state)
    assert not still_waits(object_, idle(state, 3))


@pytest.mark.parametrize("age", [0, VALIDITY_ENTRIES - 1, VALIDITY_ENTRIES])
def test_a_hand_over_waits_until_its_validity_is_over(age: int) -> None:
    state = topic()
    object_ = handed(state.entry, batch(valid_until=state.entry + VALIDITY_ENTRIES))
    assert still_waits(object_, idle(state, age)) is (age < VALIDITY_ENTRIES)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_composed_entry_has_nothing_void_and_is_known_to_its_writer_as_others_read_it(data: st.DataObject) -> None:
    loop = asyncio.new_event_loop()
    try:
        folded = opened(topic(3))
        epochs = [folded.epochs[0], Epoch(1, 7)]
        state = step(folded.state, batches=[batch("a"), batch("b", rows={1: 2})]).state
        some = st.builds(
            batch,
            st.sampled_from(["a", "b", "c"]),
            st.integers(-1, 2),
            st.dictionaries(st.integers(0, 3), st.integers(0, 2), min_size=1, max_size=2),
            generation=st.integers(0, 2),
            valid_until=st.integers(0, 9),
        )
        named = st.builds(lambda e, p: batch("n", p, named=True, epoch=e), st.sampled_from(epochs), st.integers(-1, 1))
        own = [
            pending(loop, one, size_bytes=data.draw(st.integers(0, 10**6))) for one in data.draw(st.lists(some | named, max_size=4))
        ]
        waiting = [
            handed(data.draw(st.integers(0, 3)), *group, name=str(n))
            for n, group in enumerate(data.draw(st.lists(st.lists(some | named, max_size=3), max_size=3)))
        ]
        opening = st.builds(
            lambda name, write_id, generation: pending(loop, opening=Opening(name, write_id, generation, 10**6)),
            st.sampled_from("nm"),
            st.sampled_from(["x", "y"]),
            st.integers(0, 2),
        )
        changing = st.builds(lambda action: pending(loop, actions=(action,)), st.sampled_from(_ACTIONS))
        own += data.draw(st.lists(opening | changing, max_size=3))
        found = composed(state, own, *waiting)
        judged = fold(state, decode_header(encode_header(found.header), where="an entry"))
        assert found.before is state
        assert found.folded == judged
        assert found.folded.state.digest == judged.state.digest
        assert not any(isinstance(verdict, VoidReason) for verdict in judged.verdicts)
        assert len(found.inline) == len(found.header.inline)
    finally:
        loop.close()

"""The judge: every verdict by name, and against a naive model that remembers everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.errors import DataDamaged
from penstock.log.format.checkpoint import decode_checkpoint, encode_checkpoint
from penstock.log.format.digest import digest
from penstock.log.format.fold import FoldedEntry, VoidReason, bases_of, fold, store_time
from penstock.log.format.growth import Growth
from penstock.log.format.header import (
    Action,
    Batch,
    CloseJob,
    Created,
    Deleted,
    Epoch,
    ForgetJob,
    Grown,
    Header,
    Opening,
    Part,
    Repair,
)
from penstock.log.format.state import TopicState, row_sum, state_form, state_of
from penstock.log.limits import (
    ENTRY_ROWS_MAX,
    FORMAT_GROWN,
    NUMBER_MAX,
    QUEUES_MAX,
    STORE_TIME_STEP_MAX_MS,
    TIME_MAX_MS,
    UNNAMED_ROW_ENTRIES,
    VALIDITY_ENTRIES,
)
from tests.thorough import examples

START_MS = 1_750_000_000_000
DAY_MS = 86_400_000


def batch(producer: str = "p", previous: int = -1, rows: dict[int, int] | None = None, **changes: Any) -> Batch:
    rows = {0: 1} if rows is None else rows
    values: dict[str, Any] = {
        "producer": producer,
        "named": False,
        "epoch": None,
        "previous": previous,
        "last": previous + sum(rows.values()),
        "generation": 1,
        "rows": rows,
        "valid_until": 10**6,
    }
    return Batch(**{**values, **changes})


def header_on(state: TopicState, *, time_ms: int = 0, **parts: Any) -> Header:
    batches = tuple(parts.pop("batches", ()))
    more: dict[str, Any] = {name: tuple(values) for name, values in parts.items()}
    return Header(
        entry=state.entry + 1,
        write_id=f"write-{state.entry + 1}",
        append_time_ms=time_ms or START_MS + 1000 * state.entry,
        state_digest=state.digest,
        bases=bases_of(state, batches),
        batches=batches,
        **more,
    )


def step(state: TopicState, **parts: Any) -> FoldedEntry:
    return fold(state, header_on(state, **parts))


def topic(queues: int = 2) -> TopicState:
    return step(TopicState(), actions=[Created("life-1", queues)]).state


def idle(state: TopicState, entries: int) -> TopicState:
    for _ in range(entries):
        state = step(state).state
    return state


def opened(state: TopicState, name: str = "n", write_id: str = "w", **changes: Any) -> FoldedEntry:
    return step(state, openings=[Opening(name, write_id, 1, 10**6, **changes)])


# ---------------------------------------------------------------------------------------------------------------- batches


def test_offsets_are_given_queue_by_queue_in_list_order() -> None:
    folded = step(topic(), batches=[batch("a", rows={0: 2, 1: 1}), batch("b", rows={1: 3}), batch("a", 2, rows={0: 1})])
    assert folded.verdicts == ({0: 0, 1: 0}, {1: 1}, {0: 2})
    assert folded.state.next_offsets == (3, 4)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (batch(generation=2), VoidReason.GENERATION),
        (batch(generation=0), VoidReason.GENERATION),
        (batch(valid_until=1), VoidReason.EXPIRED),
        (batch(rows={2: 1}), VoidReason.NO_QUEUE),
        (batch(rows={-1: 1}), VoidReason.NO_QUEUE),
        (batch(rows={}), VoidReason.MALFORMED),
        (batch(rows={0: 0}), VoidReason.MALFORMED),
        (batch(rows={0: 2}, last=0), VoidReason.MALFORMED),
        (batch(previous=-2, last=5), VoidReason.MALFORMED),
        (batch(parts=(Part("staged/k", 0, {0: 2}, 1, "d"),)), VoidReason.MALFORMED),
        (batch("n", named=True, epoch=Epoch(1, 0)), VoidReason.UNKNOWN_NAME),
    ],
)
def test_a_batch_that_does_not_count_has_no_offsets_and_leaves_no_trace(bad: Batch, why: VoidReason) -> None:
    before = topic()
    folded = step(before, batches=[bad, batch("other")])
    assert folded.verdicts == (why, {0: 0})
    assert set(folded.state.unnamed) == {"other"}
    assert not folded.state.named


def test_a_batch_counts_once_and_only_behind_its_predecessor() -> None:
    state = step(topic(), batches=[batch(rows={0: 3})]).state
    again, gap, right = batch(rows={0: 3}), batch(previous=5), batch(previous=2)
    assert step(state, batches=[again, gap, right, right]).verdicts == (
        VoidReason.PREVIOUS,
        VoidReason.PREVIOUS,
        {0: 3},
        VoidReason.PREVIOUS,
    )


def test_an_unknown_unnamed_producer_may_go_on_anywhere() -> None:
    assert step(topic(), batches=[batch(previous=41)]).verdicts == ({0: 0},)


def test_the_row_of_an_unnamed_producer_leaves_exactly_64_entries_after_its_last_batch() -> None:
    state = idle(step(topic(), batches=[batch()]).state, UNNAMED_ROW_ENTRIES - 1)
    assert step(state, batches=[batch()]).verdicts == (VoidReason.PREVIOUS,)
    assert step(idle(state, 1), batches=[batch()]).verdicts == ({0: 1},)


def test_validity_ends_with_the_entry_it_names() -> None:
    state = topic()
    late = batch(valid_until=state.entry + VALIDITY_ENTRIES)
    assert step(idle(state, VALIDITY_ENTRIES - 1), batches=[late]).verdicts == ({0: 0},)
    assert step(idle(state, VALIDITY_ENTRIES), batches=[late]).verdicts == (VoidReason.EXPIRED,)


# ----------------------------------------------------------------------------------------------------------------- names


def test_an_opening_fences_and_its_place_is_the_epoch() -> None:
    first = opened(topic())
    (epoch,) = first.epochs
    assert epoch == Epoch(2, 0)
    state = step(first.state, batches=[batch("n", named=True, epoch=epoch, last=7)]).state
    second = opened(state, write_id="x")
    old = batch("n", previous=7, named=True, epoch=epoch)
    newer = second.epochs[0]
    assert isinstance(newer, Epoch)
    new = replace(old, epoch=newer)
    assert second.state.named["n"].last == 7
    assert step(second.state, batches=[old, new]).verdicts == (VoidReason.FENCED, {0: 1})


def test_a_hundred_openings_in_one_entry_have_a_hundred_epochs_and_the_last_one_holds() -> None:
    folded = step(topic(), openings=[Opening("n", f"w{n}", 1, 10**6) for n in range(100)])
    assert folded.epochs == tuple(Epoch(2, n) for n in range(100))
    batches = [batch("n", named=True, epoch=epoch) for epoch in folded.epochs if isinstance(epoch, Epoch)]
    assert step(folded.state, batches=batches).verdicts == (*[VoidReason.FENCED] * 99, {0: 0})


def test_openings_are_taken_before_the_batches_of_their_entry() -> None:
    epoch = opened(topic()).epochs[0]
    folded = step(opened(topic()).state, openings=[Opening("n", "x", 1, 10**6)], batches=[batch("n", named=True, epoch=epoch)])
    assert folded.verdicts == (VoidReason.FENCED,)


def test_an_opening_counts_once_as_long_as_a_late_link_could_bring_it_again() -> None:
    state = opened(topic()).state
    assert opened(state).epochs == (VoidReason.REPEATED,)
    assert opened(idle(state, VALIDITY_ENTRIES - 1)).epochs == (VoidReason.REPEATED,)
    assert not idle(state, UNNAMED_ROW_ENTRIES + 1).openings


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"generation": 0}, VoidReason.GENERATION),
        ({"generation": 2}, VoidReason.GENERATION),
        ({"valid_until": 1}, VoidReason.EXPIRED),
    ],
)
def test_an_opening_of_another_routing_or_too_late_is_void(change: dict[str, Any], why: VoidReason) -> None:
    opening = replace(Opening("n", "w", 1, 2), **change)
    folded = step(topic(), openings=[opening])
    assert folded.epochs == (why,)
    assert not folded.state.named
    assert not folded.state.openings
    dead = step(topic(), actions=[Deleted("life-1")]).state
    assert step(dead, openings=[replace(opening, generation=1, valid_until=9)]).epochs == (VoidReason.NO_TOPIC,)


def test_a_name_that_the_state_forgot_opens_with_its_own_last_sequence() -> None:
    state = opened(topic(), last_sequence=41).state
    assert state.named["n"].last == 41
    assert opened(state, write_id="x", last_sequence=5).state.named["n"].last == 41


def test_names_leave_after_thirty_days_of_store_time() -> None:
    state = opened(topic()).state
    for _ in range(30):
        state = step(state, time_ms=state.store_time_ms + DAY_MS).state
    assert "n" in state.named
    assert "n" not in step(state, time_ms=state.store_time_ms + 1000).state.named


# ------------------------------------------------------------------------------------------------------- times and lives


@given(st.integers(0, 10**14), st.integers(-(10**15), TIME_MAX_MS))
def test_store_time_never_goes_back_nor_leaps(before_ms: int, append_ms: int) -> None:
    after_ms = store_time(before_ms, append_ms)
    assert before_ms <= after_ms
    if before_ms:
        assert after_ms <= before_ms + STORE_TIME_STEP_MAX_MS
    assert after_ms in {before_ms, append_ms, before_ms + STORE_TIME_STEP_MAX_MS}


def test_a_new_life_starts_afresh_and_nothing_of_the_old_one_counts_in_it() -> None:
    first = opened(step(topic(), batches=[batch()]).state)
    dead = step(first.state, actions=[Deleted("life-1")]).state
    assert step(dead, batches=[batch(previous=0)]).verdicts == (VoidReason.NO_TOPIC,)
    assert step(dead, actions=[Created("life-1", 2, "")]).state.alive is False
    second = step(dead, actions=[Created("life-2", 3, "life-1")]).state
    assert (second.alive, second.next_offsets, second.generation) == (True, (0, 0, 0), 2)
    assert not second.named
    assert not second.unnamed
    assert step(second, batches=[batch("late"), batch("fresh", generation=2)]).verdicts == (VoidReason.GENERATION, {0: 0})


def test_a_creation_that_was_asked_for_before_a_later_life_does_not_raise_the_dead() -> None:
    """A process that read the first life's record and slept through the second must not begin the first anew."""
    state = step(topic(), actions=[Deleted("life-1")]).state
    state = step(state, actions=[Created("life-2", 1, "life-1")]).state
    state = step(state, actions=[Deleted("life-2")]).state
    assert not step(state, actions=[Created("life-1", 2, "")]).state.alive
    assert step(state, actions=[Created("life-3", 2, "life-2")]).state.alive


def test_a_deletion_of_another_life_is_ignored() -> None:
    assert step(topic(), actions=[Deleted("life-0")]).state.alive
    assert step(topic(), actions=[Created("life-2", 9, "")]).state.next_offsets == (0, 0)


@pytest.mark.parametrize("queues", [0, QUEUES_MAX + 1, 300_000_000, NUMBER_MAX])
def test_a_creation_with_no_queue_or_too_many_is_ignored(queues: int) -> None:
    dead = step(topic(), actions=[Deleted("life-1")]).state
    for state in (TopicState(), dead):
        after = step(state, actions=[Created("life-2", queues, state.incarnation)]).state
        assert (after.alive, after.next_offsets) == (False, state.next_offsets)
    assert topic(QUEUES_MAX).queues == QUEUES_MAX


# -------------------------------------------------------------------------------------------------------------- how many

LONG = 2**80
"""A last sequence that is above any count: what is refused is refused for its rows."""


@pytest.mark.parametrize("rows", [{0: ENTRY_ROWS_MAX + 1}, {0: ENTRY_ROWS_MAX, 1: 1}, {0: 2**62}, {0: 2**70}])
def test_a_batch_with_more_rows_than_an_entry_can_bring_is_void(rows: dict[int, int]) -> None:
    folded = step(topic(), batches=[batch(rows=rows, last=LONG)])
    assert (folded.verdicts, folded.state.next_offsets) == ((VoidReason.TOO_MANY,), (0, 0))


def test_the_batches_of_one_entry_bring_no_more_rows_than_an_entry_can() -> None:
    folded = step(topic(), batches=[batch(rows={0: ENTRY_ROWS_MAX}), batch("q", rows={1: 1}), batch("r", rows={0: 1})])
    assert folded.verdicts == ({0: 0}, VoidReason.TOO_MANY, VoidReason.TOO_MANY)
    assert step(folded.state, batches=[batch("q", rows={1: 1})]).verdicts == ({1: 0},)


def test_no_offset_goes_beyond_the_last_that_can_be_stored() -> None:
    state = replace(topic(), next_offsets=(NUMBER_MAX - 2, 0))
    state = replace(state, sum=row_sum(state))
    assert step(state, batches=[batch(rows={0: 3, 1: 1})]).verdicts == (VoidReason.TOO_MANY,)
    full = step(state, batches=[batch(rows={0: 2, 1: 1})]).state
    assert full.next_offsets == (NUMBER_MAX, 1)
    assert step(full, batches=[batch("q"), batch("r", rows={1: 1})]).verdicts == (VoidReason.TOO_MANY, {1: 1})
    assert decode_checkpoint(encode_checkpoint(full), where="x") == full


def test_store_time_ends_with_the_year_9999() -> None:
    assert store_time(0, TIME_MAX_MS + 1) == TIME_MAX_MS
    assert store_time(TIME_MAX_MS - 5, TIME_MAX_MS + 10) == TIME_MAX_MS


@pytest.mark.parametrize(
    "key",
    ["../../pay/staged/handed/x", "/etc/passwd", "staged/../topic.json", "log/00000000000000000001.parquet", "topic.json", "staged//x",
     "staged/a\0b", "staged/a\ud800", "staged/", ""],
)  # fmt: skip
def test_a_link_to_what_is_not_staged_in_this_topic_is_void(key: str) -> None:
    part = Part(key, 0, {0: 1}, 1, "0" * 32)
    assert step(topic(), batches=[batch(parts=(part,))]).verdicts == (VoidReason.MALFORMED,)


# ------------------------------------------------------------------------------------------------------------------ jobs


def test_a_job_is_linked_once_and_not_after_it_was_closed() -> None:
    part = Part("staged/jobs/j/x.parquet", 0, {0: 1}, 1, "d")
    linked = batch(parts=(part,), job="j")
    state = step(topic(), batches=[linked]).state
    assert step(state, batches=[replace(linked, previous=0, last=1)]).verdicts == (VoidReason.JOB_CLOSED,)
    closed = step(topic(), actions=[CloseJob("j")]).state
    assert step(closed, batches=[linked]).verdicts == (VoidReason.JOB_CLOSED,)


def test_a_job_is_forgotten_only_when_no_link_formed_before_its_closing_can_come() -> None:
    closed = step(topic(), actions=[CloseJob("j")]).state
    early = step(idle(closed, VALIDITY_ENTRIES - 1), actions=[ForgetJob("j")]).state
    assert "j" in early.closed_jobs
    assert "j" not in step(early, actions=[ForgetJob("j")]).state.closed_jobs


# ------------------------------------------------------------------------------------------------- what entries stand on


@pytest.mark.parametrize(
    "change", [{"entry": 7}, {"state_digest": "0" * 32}, {"bases": {0: 5}}, {"bases": {}}, {"bases": {0: 0, 1: 0}}]
)
def test_an_entry_built_on_another_state_is_damage(change: dict[str, Any]) -> None:
    state = topic()
    with pytest.raises(DataDamaged):
        fold(state, replace(header_on(state, batches=[batch()]), **change))


def test_a_repair_brings_its_own_state_whatever_stood_before() -> None:
    state = step(topic(), batches=[batch()]).state
    repair = Repair(state_form(replace(state, entry=9)), 3, 8)
    folded = fold(TopicState(), replace(header_on(state, actions=[repair]), entry=9))
    assert folded.state == replace(state, entry=9)


@pytest.mark.parametrize(
    "change",
    [{"entry": 8}, {"incarnation": "x"}, {"alive": False}, {"created_entry": 2}, {"generation": 2}, {"store_time_ms": 1}],
)
def test_states_that_differ_have_other_digests(change: dict[str, Any]) -> None:
    state = topic()
    assert replace(state, **change).digest != state.digest


def test_a_whole_checkpoint_with_a_digest_that_is_not_its_states_is_damage() -> None:
    state = topic()
    body, _ = encode_checkpoint(state).split(b"\n", 1)
    other = body.replace(state.digest.encode(), b"0" * 32)
    assert decode_checkpoint(body + b"\n" + digest(body).encode() + b"\n", where="it") == state
    with pytest.raises(DataDamaged, match="digest is wrong"):
        decode_checkpoint(other + b"\n" + digest(other).encode() + b"\n", where="it")


# -------------------------------------------------------------------------------------------- against a model of no skill


class Model:
    """Remembers all that ever happened and looks it up; no rows that leave, no running sums."""

    def __init__(self) -> None:
        self.entry = 0
        self.rows: list[tuple[int, int, str]] = []
        self.accepted: dict[str, list[tuple[int, Batch]]] = {}
        self.epochs: dict[str, list[tuple[int, Epoch, int]]] = {}
        self.next = [0, 0, 0]

    def judge(self, header: Header) -> tuple[Any, ...]:
        self.entry = header.entry
        for position, opening in enumerate(header.openings):
            self.epochs.setdefault(opening.producer, []).append(
                (header.entry, Epoch(header.entry, position), self.last(opening.producer))
            )
        return tuple(self.take(one) for one in header.batches)

    def last(self, name: str) -> int:
        return self.accepted[name][-1][1].last if self.accepted.get(name) else -1

    def take(self, one: Batch) -> Any:
        if self.entry > one.valid_until:
            return VoidReason.EXPIRED
        mine = self.accepted.setdefault(one.producer, [])
        if one.named:
            if one.producer not in self.epochs:
                return VoidReason.UNKNOWN_NAME
            if one.epoch != self.epochs[one.producer][-1][1]:
                return VoidReason.FENCED
            if one.previous != self.last(one.producer):
                return VoidReason.PREVIOUS
        elif mine and mine[-1][0] >= self.entry - UNNAMED_ROW_ENTRIES and mine[-1][1].last != one.previous:
            return VoidReason.PREVIOUS
        mine.append((self.entry, one))
        offsets = {queue: self.next[queue] for queue in one.rows}
        for queue, count in one.rows.items():
            self.next[queue] += count
        return offsets


@st.composite
def moves(draw: st.DrawFn) -> list[tuple[str, Any]]:
    batch_of = st.tuples(
        st.sampled_from(["a", "b", "n", "m"]),
        st.sampled_from(["right", "right", "again", "ahead"]),
        st.dictionaries(st.integers(0, 2), st.integers(1, 3), min_size=1),
        st.sampled_from(["now", "now", "now", "old"]),
        st.integers(-3, 70),
    )
    entry = st.tuples(st.lists(st.sampled_from(["n", "m"]), max_size=2), st.lists(batch_of, max_size=4))
    return draw(
        st.lists(st.one_of(st.tuples(st.just("entry"), entry), st.tuples(st.just("idle"), st.integers(1, 66))), max_size=12)
    )


@settings(max_examples=examples(120), deadline=None)
@given(moves())
def test_the_fold_agrees_with_a_model_that_forgets_nothing(script: list[tuple[str, Any]]) -> None:
    state, model, writes = topic(3), Model(), 0
    for kind, what in script:
        if kind == "idle":
            state = idle(state, what)
            continue
        names, wanted = what
        openings = [Opening(name, f"w{(writes := writes + 1)}", 1, 10**6) for name in names]
        batches = []
        for producer, previous, rows, epoch, slack in wanted:
            named = producer in {"n", "m"}
            last = model.last(producer)
            start = {"right": last, "again": last - 1, "ahead": last + 2}[previous]
            epochs = model.epochs.get(producer, [])
            old = epochs[0][1] if epoch == "old" and epochs else (epochs[-1][1] if epochs else Epoch(1, 1))
            batches.append(
                batch(producer, max(-1, start), rows, named=named, epoch=old if named else None, valid_until=state.entry + slack)
            )
        header = header_on(state, openings=openings, batches=batches)
        folded = fold(state, header)
        state = folded.state
        assert folded.verdicts == model.judge(header)
        assert state.next_offsets == tuple(model.next)
        assert state.sum == row_sum(state)
        assert all(state.named[name].last == max(model.last(name), -1) for name in state.named)
        assert decode_checkpoint(encode_checkpoint(state), where="c") == state
    assert state_of(state_form(state)) == state


def test_actions_are_values() -> None:
    actions: list[Action] = [Created("a", 1), Deleted("a"), CloseJob("j"), ForgetJob("j")]
    assert len(set(actions)) == 4


# ---------------------------------------------------------------------------------------------------------------- growth


def test_a_growth_voids_the_former_routing_and_notes_where_the_queues_stood() -> None:
    state = step(topic(), batches=[batch(rows={0: 2, 1: 1}, last=2)]).state
    folded = step(state, actions=[Grown(1, 4)], batches=[batch("late"), batch("anew", generation=2, rows={3: 1})])
    assert folded.verdicts == (VoidReason.GENERATION, {3: 0})
    assert folded.state.growths == (Growth(3, 2, (2, 1)),)
    assert folded.state.next_offsets == (2, 1, 0, 1)
    assert folded.header.format == folded.state.format == FORMAT_GROWN


@pytest.mark.parametrize("action", [Grown(1, 3), Grown(1, 2), Grown(1, 1), Grown(1, 0), Grown(1, 4098), Grown(0, 4), Grown(2, 4)])
def test_a_growth_to_no_multiple_or_in_another_generation_is_ignored(action: Grown) -> None:
    state = topic()
    after = step(state, actions=[action]).state
    assert (after.growths, after.generation, after.next_offsets) == ((), 1, (0, 0))


def test_a_new_life_has_no_growths() -> None:
    state = step(topic(), actions=[Grown(1, 4)]).state
    state = step(state, actions=[Deleted("life-1"), Created("life-2", 2, "life-1")]).state
    assert (state.growths, state.generation, state.queues) == ((), 3, 2)
    assert state.sum == row_sum(state)

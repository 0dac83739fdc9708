"""Every cut of every world equals its sources, whoever dies, stands still or loses an answer; and worlds without a guard are found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from penstock.cdc.capture import chunks, record_sender, rows_sender
from penstock.cdc.capture import follower as source_follower
from penstock.cdc.capture import positions as source_positions
from penstock.cdc.capture.record_sender import Boundary, RecordSender
from penstock.cdc.cuts import alignment, cut, log, places
from penstock.cdc.cuts.alignment import AlignedTable, Alignment
from penstock.cdc.cuts.cut import Cut, Goal
from penstock.cdc.debezium import positions as binlog
from penstock.cdc.delta import commit_history
from penstock.cdc.postgres import event_sender, positions
from penstock.cdc.postgres.event_sender import EventSender
from penstock.cdc.target import TargetProgress
from penstock.consumers.ranges.offsets import TopicSnapshot
from tests.cdc.cuts import world as worlds
from tests.cdc.cuts.world import World

pytestmark = pytest.mark.simulation

STEPS = 1_200
SEEDS = 40
KINDS = ("postgres", "binlog")
SEEDS_OF_MUTANTS = 80


@contextmanager
def small_numbers(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Transactions span batches, and run into the numbers of later ones."""
    patch.setattr(event_sender, "BATCH_EVENTS_MAX", 4)
    patch.setattr(positions, "ORDER_BITS", 3)
    patch.setattr(record_sender, "HELD_RECORDS_MAX", 4)
    patch.setattr(chunks, "CHUNK_ROWS_MAX", 3)
    patch.setattr(source_follower, "_SIGNALS_S", 3.0)
    yield


def played(seed: int, kind: str = "postgres") -> World:
    kinds = (kind,) if seed % 3 else (kind, "postgres" if seed % 2 else "binlog")
    made = World(seed, kinds=kinds, poison=seed % 4 == 0)
    made.play(STEPS)
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_every_cut_equals_the_sources(monkeypatch: pytest.MonkeyPatch, first: int, kind: str) -> None:
    with small_numbers(monkeypatch):
        cuts = 0
        for seed in range(first, first + 10):
            world = played(seed, kind)
            world.check()
            cuts += len(world.cuts)
        assert cuts > 30


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_cut_equals_the_sources_in_many_worlds(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with small_numbers(monkeypatch):
        for seed in range(1_000, 1_400):
            played(seed, kind).check()


@pytest.mark.parametrize("kind", KINDS)
def test_in_the_end_the_newest_cut_has_everything(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with small_numbers(monkeypatch):
        for seed in range(20):
            world = played(seed, kind)
            if all(capture.heartbeat for capture in world.captures):
                world.check_end()


# --- Without a guard ----------------------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def cut_before_the_last_merge(patch: Patch) -> None:
    patch.setattr(
        Goal, "is_reached", lambda self, position: any(position.get(queue, 0) >= end > 0 for queue, end in self.ends.items())
    )


def newest_versions(patch: Patch) -> None:
    """Also what a later driver has made, without a look at the lease behind."""
    patch.setattr(alignment, "is_beyond", lambda goal, progress: False)
    patch.setattr(World, "check_again", lambda *given: None)


def versions_that_others_changed(patch: Patch) -> None:
    """Or that a merge of the sync itself has made meanwhile."""

    def newest(commits: Any, owner: Any) -> tuple[int, TargetProgress] | None:
        return next(one.version for one in commits), TargetProgress()

    patch.setattr(commit_history, "newest_of", newest)
    patch.setattr(World, "check_again", lambda *given: None)


def progress_of_the_record(patch: Patch) -> None:
    """And not of the targets: what the simulation found first."""
    patch.setattr(World, "met", lambda *given: None)


def amid_a_transaction(patch: Patch) -> None:
    patch.setitem(places.KINDS, "postgres", lambda position: positions.lsn_text(positions.split(position)[0]))


def ends_of_a_later_look(patch: Patch) -> None:
    looked = Alignment.set_goal

    def later(self: Alignment, standing: TopicSnapshot, position: Any) -> None:
        before = self._goal
        looked(self, standing, position)
        if before is not None and self._goal is not None:
            self._goal = replace(self._goal, positions=before.positions)

    patch.setattr(Alignment, "set_goal", later)


def stopped_in_silence(patch: Patch) -> None:
    taken = Alignment.cut

    def silent(self: Alignment, tables: Any, *, now_ms: int) -> Cut | None:
        return taken(self, [AlignedTable(one.name, one.commits) for one in tables], now_ms=now_ms)

    patch.setattr(Alignment, "cut", silent)


def before_the_tables_were_read(patch: Patch) -> None:
    through = EventSender._through

    def early(self: EventSender, end_lsn: int | None) -> int | None:
        self._whole_from = lambda: 0
        return through(self, end_lsn)

    patch.setattr(EventSender, "_through", early)


def events_between_transactions(patch: Patch) -> None:
    for module in (positions, worlds):
        patch.setattr(module, "after", lambda position: position + 1)


def backwards(patch: Patch) -> None:
    for module in (cut, log):
        patch.setattr(module, "follows", lambda before, cut: True)


def beyond_the_goal(patch: Patch) -> None:
    patch.setattr(Alignment, "limit", lambda self, queue, end: end)
    patch.setattr(Goal, "is_reached", lambda self, position: all(position.get(queue, 0) >= end for queue, end in self.ends.items()))
    patch.setattr(alignment, "any", lambda _: False, raising=False)


# Of a capture by Debezium's engine.


def place_of_the_last_record(patch: Patch) -> None:
    """And not of the beginning of its transaction."""
    add = RecordSender.add

    def late(self: RecordSender, records: Any, boundary: Boundary, now_s: float) -> bool:
        ends = [binlog.between(one.source.file, one.source.pos + 1, boundary.number) for one in records]
        return add(self, records, replace(boundary, number=max([boundary.number, *ends])), now_s)

    patch.setattr(RecordSender, "add", late)


def open_transaction_sent_with_the_place(patch: Patch) -> None:
    through = RecordSender._through

    def whole(self: RecordSender, number: int) -> int:
        return len(self._held)

    def far(self: RecordSender, count: int, boundary: Boundary | None) -> int | None:
        if count and boundary is not None:
            boundary = replace(boundary, number=max(boundary.number, self._held[count - 1].sequence | (1 << 14) - 128))
        return through(self, count, boundary)

    patch.setattr(RecordSender, "_before", whole)
    patch.setattr(RecordSender, "_through", far)


def before_the_rows_were_read(patch: Patch) -> None:
    through = RecordSender._through

    def early(self: RecordSender, count: int, boundary: Boundary | None) -> int | None:
        self._whole_from = 0
        return through(self, count, boundary)

    patch.setattr(RecordSender, "_through", early)


def rows_read_again_in_silence(patch: Patch) -> None:
    patch.setattr(rows_sender, "rows_go_on_at", lambda rows, position: rows + 1)


def rows_that_changes_have_not_caught_up_with(patch: Patch) -> None:
    patch.setattr(source_positions, "has_caught_up", lambda position, rows: True)


def amid_a_transaction_of_the_binlog(patch: Patch) -> None:
    patch.setitem(places.KINDS, "debezium", binlog.place_text)


MUTANTS_OF_BINLOGS: list[Callable[[Patch], None]] = [
    place_of_the_last_record,
    open_transaction_sent_with_the_place,
    before_the_rows_were_read,
    rows_read_again_in_silence,
    rows_that_changes_have_not_caught_up_with,
    amid_a_transaction_of_the_binlog,
]
MUTANTS: list[Callable[[Patch], None]] = [
    cut_before_the_last_merge,
    newest_versions,
    versions_that_others_changed,
    progress_of_the_record,
    amid_a_transaction,
    ends_of_a_later_look,
    stopped_in_silence,
    before_the_tables_were_read,
    events_between_transactions,
    backwards,
    beyond_the_goal,
]


@pytest.mark.parametrize(
    ("kind", "mutant"),
    [*(("postgres", one) for one in MUTANTS), *(("binlog", one) for one in MUTANTS_OF_BINLOGS)],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_world_without_a_guard_is_found_out(monkeypatch: pytest.MonkeyPatch, kind: str, mutant: Callable[[Patch], None]) -> None:
    with small_numbers(monkeypatch):
        mutant(monkeypatch)
        for seed in range(SEEDS_OF_MUTANTS):
            try:
                played(seed, kind).check()
            except AssertionError:
                return
    raise AssertionError("nobody noticed")

"""A sync that records cuts, in this process: when it records them, what they say, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import penstock
from penstock import CutTooOld, InvalidArgument, NoCut, StoreUnavailable, SyncOptions, TableNotInCut, sync
from penstock.cdc.cuts import segment
from penstock.cdc.cuts.cut import Cut, TableVersion
from penstock.cdc.cuts.cut_history import kept_cuts
from penstock.cdc.cuts.log import CutLog, keys_of
from penstock.cdc.debezium.positions import between, sequence_of
from penstock.cdc.sync import record as sync_record
from penstock.cdc.sync.engine import SyncEngine
from penstock.consumers.ranges.offsets import TopicSnapshot
from penstock.consumers.ranges.topic_view import TopicView
from penstock.log.stores import open_store
from tests.cdc.cuts.topics import TOPIC, Change, numbers, rows, shop, synced
from tests.cdc.mapped import map_columns
from tests.cdc.sync.losing import Loses
from tests.thorough import thoroughly


def cut_of(folder: Path, which: Any = "latest") -> penstock.AtCut:
    return penstock.at_cut(folder / "into", which)


def test_a_cut_names_place_time_and_versions(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        end = source.send(("a", 1, 10), ("b", 1, 20))
        run = synced(tmp_path)
    cut = run.status.cut
    assert cut is not None
    assert run.status.last is not None
    assert run.status.last.cut == cut.number == 1
    assert cut.places == {"postgres/penstock": f"0/{end:X}"}
    assert cut.source_us == 800_000
    found = cut_of(tmp_path)
    assert found.cut == cut
    assert {table: rows(found, table) for table in found} == {"a": {1: 10}, "b": {1: 20}}
    assert repr(found) == f"AtCut(1, postgres/penstock 0/{end:X}, 2 tables)"


def test_tables_with_column_mapping_are_read_with_their_values(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 10), ("a", 2, 20))
        synced(tmp_path)
    map_columns(tmp_path / "into" / "a")
    found = cut_of(tmp_path)
    assert rows(found, "a") == {1: 10, 2: 20}
    assert not any(field.metadata for field in found["a"].schema), "a copy of the rows is not mapped"
    assert found.batches("a").read_all().equals(found["a"])


def test_a_version_without_its_deletion_vectors_is_too_old(tmp_path: Path) -> None:
    """VACUUM removes those that no newer version has, though the files of rows stay."""
    with shop(tmp_path) as source:
        for value in (10, 20):
            source.send(("a", 1, value))
            synced(tmp_path)
    log = tmp_path / "into" / "a" / "_delta_log"
    made, first, second = (log / f"{version:020}.json" for version in range(3))
    features = ["deletionVectors"]
    change(made, "protocol", minReaderVersion=3, minWriterVersion=7, readerFeatures=features, writerFeatures=features)
    vector = {"storageType": "u", "pathOrInlineDv": "fY@wadMZyNJIIcCG+QWQ", "offset": 1, "sizeInBytes": 34, "cardinality": 1}
    change(first, "add", deletionVector=vector)
    change(second, "remove", deletionVector=vector)
    assert rows(cut_of(tmp_path), "a") == {1: 20}
    with pytest.raises(CutTooOld, match="cut 2 or later"):
        cut_of(tmp_path, 1)["a"]


def change(log: Path, action: str, **to: object) -> None:
    """Change what an action of a commit says."""
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text(
        "\n".join(json.dumps({kind: {**one, **(to if kind == action else {})} for kind, one in each.items()}) for each in actions)
    )


def test_a_table_whose_file_has_gone_is_named(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 10))
        synced(tmp_path)
    for file in (tmp_path / "into" / "a").glob("*.parquet"):
        file.unlink()
    with pytest.raises(StoreUnavailable, match=r"the table cannot be read.*into/a"):
        cut_of(tmp_path)["a"]


def test_no_cut_amid_a_transaction_nor_where_nothing_tells_its_end(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 1), more=True)
        assert synced(tmp_path).status.cut is None
        source.send(("b", 1, 1))
        assert synced(tmp_path).status.cut is not None
        source.send(("a", 2, 2), whole=False)
        run = synced(tmp_path)
        assert run.status.cut is not None
        assert run.status.cut.number == 1
        assert run.status.last is not None
        assert run.status.last.cut is None
    assert numbers(tmp_path) == [{"a": {1: 1}, "b": {1: 1}}]
    assert DeltaTable(str(tmp_path / "into" / "a")).to_pyarrow_table().num_rows == 2


def test_a_cut_waits_for_all_batches_and_older_ones_stay(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(*[("a", n, 1) for n in range(5)], *[("b", n, 1) for n in range(5)])
        one = synced(tmp_path, max_events=2)
        source.send(*[("a", n, None) for n in range(3)], ("c", 1, 7))
        two = synced(tmp_path, max_events=1)
    assert one.status.batches > 3
    assert one.status.cut is not None
    assert two.status.cut is not None
    assert two.status.cut.number == 2
    assert two.status.cut.tables["b"] == one.status.cut.tables["b"]  # it stood still
    before, after = numbers(tmp_path)
    ones = dict.fromkeys(range(5), 1)
    assert before == {"a": ones, "b": ones}
    assert after == {"a": {3: 1, 4: 1}, "b": ones, "c": {1: 7}}
    assert synced(tmp_path).status.cut == two.status.cut  # nothing is new


@pytest.mark.parametrize(
    ("step", "moment"),
    [
        *((step, moment) for step in ("merge", "progress") for moment in ("before", "in", "after")),
        ("cut", "before"),
        ("cut", "after"),
    ],
)
def test_cuts_are_true_wherever_a_driver_ends(tmp_path: Path, step: str, moment: str) -> None:
    class Ends:
        left = 2

        def reached(self, at: str, when: str, what: str = "") -> None:
            if (at, when) == (step, moment):
                self.left -= 1
                if self.left == 0:
                    raise OSError("the driver ends here")

    with shop(tmp_path) as source:
        source.send(("a", 1, 1), ("b", 1, 1))
        synced(tmp_path)
        source.send(*[("a", n, 2) for n in range(4)], *[("b", n, 2) for n in range(4)])
        with pytest.raises(OSError, match="ends here"):
            synced(tmp_path, max_events=2 if step != "cut" else 100, steps=Ends() if step != "cut" else _First(moment))
        source.send(("b", 3, 3))
        synced(tmp_path)
    found = numbers(tmp_path)
    twos = dict.fromkeys(range(4), 2)
    wanted = [{"a": {1: 1}, "b": {1: 1}}, {"a": twos, "b": twos}, {"a": twos, "b": {**twos, 3: 3}}]
    assert found[-1] == wanted[-1]
    assert all(one in wanted for one in found)
    assert [wanted.index(one) for one in found] == sorted(wanted.index(one) for one in found)


@pytest.mark.parametrize("seed", thoroughly(range(4), range(3, 4)))
def test_drawn_transactions_with_truncates_equal_a_plain_model(tmp_path: Path, seed: int) -> None:
    """A truncate lies in another queue than the rows that it removes, and a table may be there first in any transaction."""
    chance = random.Random(seed)
    tables: dict[str, dict[int, int]] = {}
    states: dict[str, dict[str, dict[int, int]]] = {}
    with shop(tmp_path) as source:
        for number in range(24):
            changes: list[Change] = []
            for _ in range(chance.choice((1, 2, 5))):
                table, key, draw = chance.choice("abcd"[: 2 + number // 8]), chance.randrange(5), chance.random()
                rows = tables.setdefault(table, {})
                if draw < 0.15:
                    changes.append((table, None, None))
                    rows.clear()
                elif draw < 0.3:
                    changes.append((table, key, None))
                    rows.pop(key, None)
                else:
                    changes.append((table, key, number))
                    rows[key] = number
            states[f"0/{source.send(*changes):X}"] = {table: dict(rows) for table, rows in tables.items()}
            if chance.random() < 0.6:
                synced(tmp_path, max_events=chance.choice((1, 3, 100)))
        synced(tmp_path)
    kept = kept_cuts(str(tmp_path / "into")).cuts
    assert len(kept) > 5
    for cut, found in zip(kept, numbers(tmp_path), strict=True):
        wanted = states[cut.places["postgres/penstock"]]
        assert {table: rows for table, rows in found.items() if rows} == {table: rows for table, rows in wanted.items() if rows}


class _First:
    def __init__(self, moment: str) -> None:
        self._moment = moment

    def reached(self, at: str, when: str, what: str = "") -> None:
        if (at, when) == ("cut", self._moment):
            raise OSError("the driver ends here")


def test_a_driver_that_lost_its_lease_records_nothing_until_it_has_it_again(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "into"
    with shop(tmp_path) as source:
        source.send(("a", 1, 1), ("b", 1, 1))
        synced(tmp_path)
        source.send(("a", 1, 2), ("b", 1, 2))
        loses = Loses(lake, into, [("cut", "before")])
        run = synced(tmp_path, steps=loses)
    assert loses.lost == [("cut", "before")]
    assert run.status.cut is not None
    assert run.status.cut.number == 2
    assert numbers(tmp_path)[-1] == {"a": {1: 2}, "b": {1: 2}}


def test_a_table_that_a_dead_driver_has_taken_further_than_the_record_says(tmp_path: Path) -> None:
    """It merged into `a` and died; the next one passes over those events, and the one after that meets none of them."""

    class Dies:
        def reached(self, at: str, when: str, what: str = "") -> None:
            if (at, when, what) == ("merge", "after", "a"):
                raise OSError("the driver ends here")

    with shop(tmp_path, queues=1) as source:
        source.send(("a", 1, 1), ("b", 1, 1))
        synced(tmp_path)
        source.send(("a", 1, 2), ("b", 1, 2), whole=False)
        with pytest.raises(OSError, match="ends here"):
            synced(tmp_path, steps=Dies(), merges_at_once=1)
        synced(tmp_path)
        source.send(("b", 1, 3))
        synced(tmp_path)
    assert numbers(tmp_path) == [{"a": {1: 1}, "b": {1: 1}}, {"a": {1: 2}, "b": {1: 3}}]


def test_a_table_that_stands_still_is_named_and_comes_back(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 1), ("b", 1, 1))
        synced(tmp_path)
        write_deltalake(str(tmp_path / "into" / "b"), DeltaTable(str(tmp_path / "into" / "b")).to_pyarrow_table(), mode="append")
        source.send(("a", 1, 2), ("b", 1, 2))
        stopped = synced(tmp_path)
        assert "public.b" in stopped.stopped
        found = cut_of(tmp_path)
        assert [*found] == ["a"]
        assert "somebody else has changed" in found.cut.incomplete["b"]
        with pytest.raises(TableNotInCut, match="somebody else has changed"):
            found["b"]
        DeltaTable(str(tmp_path / "into" / "b")).restore(1)
        synced(tmp_path, adopt=True)
    assert cut_of(tmp_path, 3).cut.incomplete == {}
    assert [one.get("a") for one in numbers(tmp_path)] == [{1: 1}, {1: 2}, {1: 2}]
    assert rows(cut_of(tmp_path), "b") == {1: 2}


@pytest.mark.parametrize(
    ("rename", "names"),
    [
        ({}, {"loose", "other.a"}),
        ({"*": "{schema}_{table}"}, {"public_loose", "other_a"}),
        ({"*": "{table}"}, {"loose", "other.a"}),
        ({"*": "one"}, {"public.loose", "other.a"}),
    ],
)
def test_a_table_of_which_nothing_came_is_named_as_its_target_would_be(
    tmp_path: Path, rename: dict[str, str], names: set[str]
) -> None:
    """Where that is another table's, by its name in the source."""
    with shop(tmp_path) as source:
        source.send(("a", 1, 1))
        source.stop("loose")
        source.stop("a", schema="other")
        source.send(("a", 2, 2))
        synced(tmp_path, rename=rename)
    found = cut_of(tmp_path)
    assert len(found) == 1
    assert {*found.cut.incomplete} == names
    assert all(reason.endswith("has no key") for reason in found.cut.incomplete.values())


def test_a_table_that_was_added_later_is_not_in_earlier_cuts(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 1))
        synced(tmp_path)
        source.send(("late", 1, 1))
        synced(tmp_path)
    with pytest.raises(TableNotInCut, match="no such table when cut 1 was made"):
        cut_of(tmp_path, 1)["late"]
    with pytest.raises(KeyError):
        cut_of(tmp_path, 1)["late"]
    assert rows(cut_of(tmp_path, 2), "late") == {1: 1}


def test_a_table_that_others_make_again_and_that_is_adopted_is_read_as_it_is_now(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 1), ("b", 1, 1))
        synced(tmp_path)
        there = DeltaTable(str(tmp_path / "into" / "a")).to_pyarrow_table()
        shutil.rmtree(tmp_path / "into" / "a")
        write_deltalake(str(tmp_path / "into" / "a"), there)
        for value, adopt in ((2, True), (3, False)):
            source.send(("a", 1, value))
            synced(tmp_path, adopt=adopt)
            assert rows(cut_of(tmp_path), "a") == {1: value}


def test_a_sync_to_the_end_goes_beyond_the_cut_that_was_due_when_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 1))
        really, sent = SyncEngine.look, list[int]()

        def look(engine: SyncEngine) -> int:
            if not sent:
                sent.append(source.send(("a", 2, 2)))
            return really(engine)

        monkeypatch.setattr(SyncEngine, "look", look)
        synced(tmp_path)
    assert rows(cut_of(tmp_path), "a") == {1: 1, 2: 2}


@pytest.mark.parametrize("gone", [2, 3], ids=["a part", "all"])
def test_a_topic_whose_beginning_is_gone_has_no_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int) -> None:
    with shop(tmp_path, queues=1) as source:
        source.send(("a", 1, 1), ("b", 1, 1), ("b", 2, 1))
        _forget(monkeypatch, gone)
        with pytest.raises(NoCut, match="the topic's beginning is gone") as error:
            synced(tmp_path)
        assert "capture into a new topic" in str(error.value.hint)
        source.send(("b", 3, 2))
        assert synced(tmp_path, cuts=False).stopped == {}
        with pytest.raises(NoCut, match="the topic's beginning is gone"):
            synced(tmp_path)


def test_a_table_that_is_asked_for_when_the_topic_s_beginning_is_gone_has_no_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop(tmp_path, queues=1) as source:
        source.send(("a", 1, 1), ("b", 1, 1), ("b", 2, 1))
        synced(tmp_path, tables=["a"])
        _forget(monkeypatch, 2)
        source.send(("a", 1, 2))
        synced(tmp_path, tables=["a"])
        with pytest.raises(NoCut, match="the topic's beginning is gone"):
            synced(tmp_path)


@pytest.mark.parametrize("gone", [0, 2])
def test_a_sync_of_an_earlier_release_has_cuts_only_while_the_topic_has_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    with shop(tmp_path, queues=1) as source:
        source.send(("a", 1, 1), ("b", 1, 1), ("b", 2, 1))
        _forget(monkeypatch, gone)
        with monkeypatch.context() as earlier:
            encode = sync_record.encode_record
            earlier.setattr(sync_record, "encode_record", lambda record: encode(replace(record, partial=None)))
            synced(tmp_path, cuts=False)
        source.send(("b", 3, 2))
        if gone:
            with pytest.raises(NoCut, match="the topic's beginning is gone"):
                synced(tmp_path)
        else:
            assert synced(tmp_path).status.cut is not None


def _forget(monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    """Let retention have removed what lies before an offset."""
    really = TopicView.refresh

    def refresh(view: TopicView) -> TopicSnapshot:
        standing = really(view)
        return replace(standing, kept={queue: (max(first, offset), end) for queue, (first, end) in standing.kept.items()})

    monkeypatch.setattr(TopicView, "refresh", refresh)


@pytest.mark.parametrize("name", ["rows", "row"])
def test_a_capture_of_any_name_has_cuts(tmp_path: Path, name: str) -> None:
    with shop(tmp_path, name=f"postgres/{name}") as source:
        source.send(("a", 1, 1))
        assert synced(tmp_path).status.cut is not None


def test_a_topic_without_a_capture_is_refused(tmp_path: Path) -> None:
    with shop(tmp_path, name="application") as source:
        assert synced(tmp_path).status.cut is None  # nothing is there yet
        source.send(("a", 1, 1))
        with pytest.raises(NoCut, match="nothing tells where the transactions of this topic's events end") as error:
            synced(tmp_path)
        assert error.value.observed == "application"
        assert synced(tmp_path, cuts=False).stopped == {}
    with pytest.raises(NoCut, match="there are no cuts"):
        cut_of(tmp_path)


def test_a_capture_of_a_binlog_has_to_have_caught_up_with_the_rows_that_it_read_beside_another(tmp_path: Path) -> None:
    with shop(tmp_path) as source, penstock.connect(str(tmp_path / "lake")) as lake:
        source.send(("a", 1, 1))
        synced(tmp_path)
        with lake.producer(TOPIC, name="debezium/shop") as stream, lake.producer(TOPIC, name="debezium/shop/rows") as rows:
            row = pa.table({"body": [b'{"key":{},"value":{"ts_ms":1}}'], "message_group": ["beat"]})

            def told(producer: penstock.Producer, sequence: int) -> dict[str, str]:
                producer.send_batch(row.append_column("sequence", pa.array([sequence]))).result()
                synced(tmp_path)
                return kept_cuts(str(tmp_path / "into")).cuts[-1].places

            before = kept_cuts(str(tmp_path / "into")).cuts[-1].places
            assert told(stream, sequence_of("binlog.000007", 400, 0, "c")) == before
            whole = {**before, "debezium/shop": "000007:500"}
            assert told(stream, between("binlog.000007", 500, 0)) == whole
            assert told(rows, 1 << 40) == whole
            assert told(stream, between("binlog.000007", 600, 0)) == whole
            assert told(stream, between("binlog.000007", 600, 1)) == {**before, "debezium/shop": "000007:600"}


def test_two_captures_have_to_stand_between_transactions_both(tmp_path: Path) -> None:
    with (
        shop(tmp_path) as source,
        penstock.connect(str(tmp_path / "lake")) as lake,
        lake.producer(TOPIC, name="postgres/other") as producer,
    ):
        other = type(source)(producer)
        source.send(("a", 1, 1))
        other.send(("x", 1, 1), more=True)
        assert synced(tmp_path).status.cut is None
        other.send(("x", 2, 1))
        cut = synced(tmp_path).status.cut
    assert cut is not None
    assert cut.places == {"postgres/other": "0/360", "postgres/penstock": "0/360"}


def test_other_policies_are_refused(tmp_path: Path) -> None:
    with shop(tmp_path) as source:
        source.send(("a", 1, 1))
        with pytest.raises(InvalidArgument, match="lacks rejected events"):
            synced(tmp_path, policy="reject")
        synced(tmp_path, cuts=False)
        (tmp_path / "into" / "_rejected").mkdir()
        write_deltalake(str(tmp_path / "into" / "_rejected"), DeltaTable(str(tmp_path / "into" / "a")).to_pyarrow_table())
        with pytest.raises(InvalidArgument, match="lacks rejected events"):
            synced(tmp_path)


def test_a_sync_of_another_topic_does_not_go_on_with_these_cuts(tmp_path: Path) -> None:
    with shop(tmp_path) as source, penstock.connect(str(tmp_path / "lake")) as lake:
        source.send(("a", 1, 1))
        synced(tmp_path)
        lake.create_topic("other", message_type="FIFO", queues=1)
        with lake.producer("other", name="postgres/penstock") as producer:
            type(source)(producer).send(("z", 1, 1))
        with pytest.raises(InvalidArgument, match="of another topic, keeps its cuts here"):
            sync(str(tmp_path / "lake"), "other", SyncOptions(into=tmp_path / "into", name=TOPIC, cuts=True))
        assert sync(str(tmp_path / "lake"), "other", SyncOptions(into=tmp_path / "into", cuts=True)).await_termination()
    with pytest.raises(InvalidArgument, match="several syncs have recorded cuts"):
        cut_of(tmp_path)
    assert rows(penstock.at_cut(tmp_path / "into", sync="other"), "z") == {1: 1}


# --- Old cuts -----------------------------------------------------------------------------------------------------------------------


def many(folder: Path, cuts: int, **options: Any) -> None:
    with shop(folder) as source:
        for number in range(cuts):
            source.send(("a", 1, number))
            synced(folder, **options)


def test_cuts_that_are_trimmed_and_cuts_that_never_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "CUTS_MAX", 2)
    many(tmp_path, 7, keep_cuts=timedelta(0))
    kept = kept_cuts(str(tmp_path / "into"))
    assert [cut.number for cut in kept.cuts] == [7]
    with pytest.raises(CutTooOld, match="older than those that are kept") as error:
        cut_of(tmp_path, 4)
    assert error.value.expected == "the oldest kept is 7"
    with pytest.raises(NoCut) as never:
        cut_of(tmp_path, 8)
    assert never.value.expected == "7 to 7"
    for bad in (0, -1):
        with pytest.raises(NoCut):
            cut_of(tmp_path, bad)
    with pytest.raises(InvalidArgument):
        cut_of(tmp_path, "newest")


def test_what_is_younger_is_not_trimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "CUTS_MAX", 2)
    many(tmp_path, 5)
    assert [rows(cut_of(tmp_path, number), "a") for number in range(1, 6)] == [{1: number} for number in range(5)]


def test_a_cut_whose_version_was_vacuumed_names_the_oldest_that_is_there(tmp_path: Path) -> None:
    many(tmp_path, 5)
    table = DeltaTable(str(tmp_path / "into" / "a"))
    newest = kept_cuts(str(tmp_path / "into")).cuts[-1].tables["a"].version
    assert table.version() == newest
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(CutTooOld, match="no longer there") as error:
        cut_of(tmp_path, 2)["a"]
    assert error.value.expected is not None
    assert str(error.value.expected).startswith("cut 5 or later")
    assert rows(cut_of(tmp_path, 5), "a") == {1: 4}


def test_a_version_that_was_put_together_and_vacuumed_is_read_from_the_next_one(tmp_path: Path) -> None:
    """A merge, a compaction, and then a long silence: the files of the cut's own version go, its rows are there."""
    many(tmp_path, 3)
    table = DeltaTable(str(tmp_path / "into" / "a"))
    table.optimize.z_order(["id"])  # as one file is nothing to be put together
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert cut_of(tmp_path).version("a") == DeltaTable(str(tmp_path / "into" / "a")).version()
    assert cut_of(tmp_path).version("a") > cut_of(tmp_path).cut.tables["a"].version
    assert rows(cut_of(tmp_path), "a") == {1: 2}


def test_a_time_chooses_the_newest_cut_that_has_nothing_later(tmp_path: Path) -> None:
    many(tmp_path, 3)
    from datetime import UTC, datetime

    at = [datetime.fromtimestamp(lsn / 1000, UTC) for lsn in (800, 864, 928)]
    assert [cut_of(tmp_path, one).cut.number for one in at] == [1, 2, 3]
    assert cut_of(tmp_path, at[1] + timedelta(milliseconds=63)).cut.number == 2
    with pytest.raises(CutTooOld):
        cut_of(tmp_path, at[0] - timedelta(milliseconds=1))
    with pytest.raises(InvalidArgument, match="a time needs a zone"):
        cut_of(tmp_path, datetime(2026, 1, 1))  # noqa: DTZ001


def test_cuts_of_thousands_of_tables_share_objects(tmp_path: Path) -> None:
    tables = {f"schema.table_{number:05}": TableVersion(1, 1, "0" * 36) for number in range(3500)}
    store = open_store(str(tmp_path / "cuts"))

    async def added() -> int:
        for number in range(1, 7):
            cuts = CutLog(store, topic="t", sync="s", keep_ms=10**9, name="n")
            await cuts.load()
            there = {**tables, "schema.table_00000": TableVersion(number, number, "0" * 36)}
            await cuts.add(Cut(0, 1, number, number, {0: number}, {"postgres/p": number << 20}, there))
        return len(await keys_of(store, "s"))

    assert asyncio.run(added()) == 1

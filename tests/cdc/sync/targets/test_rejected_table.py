"""Events that fit no column or cannot be applied: they stop their table, leave NULL, or are rejected; what is set aside stands there once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import SyncOptions, TableOptions, sync
from penstock.cdc.choice.tables import Policy
from penstock.cdc.sync.options import NO_STEPS, BatchReport, Moment, PoisonEvent, SyncSteps
from penstock.cdc.sync.plan import SyncPlan
from penstock.cdc.sync.run import SyncRun
from penstock.coordinator.lakes import LakePlace
from penstock.log.errors import InvalidArgument
from tests.cdc.reference import Reference
from tests.cdc.streams import Stream, streams
from tests.cdc.sync.backends.test_without_spark import known
from tests.cdc.sync.crashes import Crash, CrashAt
from tests.cdc.sync.driving import drive_to_the_end
from tests.cdc.sync.judging import stored
from tests.cdc.sync.losing import Loses
from tests.cdc.sync.streams import TOPIC, Row, event, rows, send
from tests.thorough import examples

TYPES = {"bills": {"amount": "decimal(12,2)", "n": "int"}}


class Place:
    """A lake, and a folder of targets."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.into = str(folder / "lake"), folder / "targets"

    def send(self, *events: Row | bytes) -> None:
        send(self.lake, events, queues=1)

    def sync(self, policy: Policy = "reject", *, listener: Callable[[BatchReport], None] | None = None, **options: Any) -> SyncRun:
        """All there is, to the end."""
        chosen = SyncOptions(**{"into": self.into, "policy": policy, "columns": TYPES, **options})
        run = sync(self.lake, TOPIC, chosen, listener=listener)
        assert run.await_termination()
        return run

    def aside(self, *names: str, table: str = "_rejected") -> list[tuple[Any, ...]]:
        """Some columns of what is set aside, in the order of the topic."""
        found = sorted(rows(self.into / table), key=lambda row: (row["queue"], row["offset"], row["column"]))
        return [tuple(row[name] for name in names) for row in found]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def bill(number: int, *, at: int | None = None, **more: object) -> Row:
    return event("c", "bills", {"id": number}, {"id": number, **more}, at=at)


MANY = "column amount: 'many' does not fit decimal(12,2)"


def test_an_event_that_does_not_fit_is_rejected_and_the_next_one_of_its_row_counts(place: Place) -> None:
    wrong = bill(1, amount="many")
    place.send(bill(1, amount="1"), wrong, bill(2, amount="2"), event("u", "bills", {"id": 1}, {"id": 1, "n": 7}))
    run = place.sync()
    assert (run.stopped, run.status.rejected, run.status.nulled) == ({}, {"public.bills": 1}, {})
    assert [(row["id"], row["amount"], row["n"]) for row in rows(place.into / "bills")] == [(1, 1, 7), (2, 2, None)]
    ((queue, offset, table, action, column, key, reason, body),) = place.aside(
        "queue", "offset", "table", "action", "column", "key", "reason", "body"
    )
    assert (queue, offset, table, action, column, key) == (0, 1, "public.bills", "rejected", "", '{"id":1}')
    assert reason.startswith(MANY)
    assert json.loads(body) == wrong
    assert place.aside("topic") == [(TOPIC,)]
    assert place.sync().status.rejected == {}


def test_a_value_that_does_not_fit_becomes_null_and_is_noted(place: Place) -> None:
    place.send(bill(1, amount="1", n=1), bill(1, amount="many", n="x"), bill(2, amount="2"))
    run = place.sync("null")
    assert (run.stopped, run.status.rejected, run.status.nulled) == ({}, {}, {"public.bills": 2})
    assert [(row["id"], row["amount"], row["n"]) for row in rows(place.into / "bills")] == [(1, None, None), (2, 2, None)]
    found = place.aside("offset", "action", "column", "key")
    assert found == [(1, "null", "amount", '{"id":1}'), (1, "null", "n", '{"id":1}')]


@pytest.mark.parametrize("policy", ["stop", "null", "reject"])
def test_a_time_that_means_null_is_no_event_that_cannot_be_applied(place: Place, policy: Policy) -> None:
    """`unfit_times` says how a source's times are read, whatever the policy does with other values: nothing is noted of them."""
    place.send(bill(1, at_="infinity", n=1), bill(2, at_="2026-01-31T12:00:00Z", n="x"))
    run = place.sync(policy, unfit_times="null", columns={"bills": {"at_": "timestamp", "n": "int"}})
    noted = {"stop": ({}, {}), "null": ({}, {"public.bills": 1}), "reject": ({"public.bills": 1}, {})}
    assert (run.status.rejected, run.status.nulled) == noted[policy]
    assert bool(run.stopped) is (policy == "stop")
    first = rows(place.into / "bills")[0]
    assert (first["id"], first["at_"], first["n"]) == (1, None, 1)


@pytest.mark.parametrize("policy", ["stop", "null"])
def test_what_is_no_value_s_fault_stops_the_table_where_it_is_not_rejected(place: Place, policy: Policy) -> None:
    place.send(bill(1), event("c", "bills", {"id": None}, {"id": None}), bill(2))
    run = place.sync(policy)
    assert "key column id is NULL" in run.stopped["public.bills"][0].reason
    assert rows(place.into / "bills") == [{"id": 1}]
    assert not (place.into / "_rejected").exists()


def unfit() -> Mapping[str, Row | bytes]:
    """One event of each kind that cannot be applied, by the beginning of its reason."""
    return {
        MANY: bill(3, amount="many"),
        "key column id is NULL": event("c", "bills", {"id": None}, {"id": None}),
        "the event does not say the row": event("u", "bills", {"id": 4}),
        "it empties the table and has no position": event("t", "bills", None),
        "its key is other": event("c", "bills", {"other": 1}, {"other": 1, "id": 1}),
        "names that begin with __ are the sync's own": bill(5, __mine=1),
        "two columns differ in case only": bill(6, AMOUNT="1"),
        "column 'half \\ud800'": bill(7, **{"half \ud800": 1}),
        "it has no key, and no key is declared": event("c", "keyless", None, {"n": 1}),
        "this is no JSON": b"{half",
        "the event does not name its table": {"key": {"id": 1}, "value": {"op": "c", "after": {"id": 1}, "source": {}}},
    }


def sent(place: Place, events: Mapping[str, Row | bytes]) -> None:
    """Queue 0 of two has them, each between two others of the table."""
    told: list[Row | bytes] = []
    for number, one in enumerate(events.values()):
        told += [bill(100 + number, amount="1"), one if isinstance(one, bytes) else json.dumps(one).encode()]
    send(place.lake, [*told, bill(1, amount="9")], queues=2, groups=["g"] * (len(told) + 1))


def test_whatever_cannot_be_applied_is_rejected_with_its_reason(place: Place) -> None:
    events = unfit()
    sent(place, events)
    run = place.sync()
    assert run.stopped == {}
    assert run.status.rejected == {"public.bills": len(events) - 3, "public.keyless": 1, "?": 2}
    found = place.aside("reason")
    assert len(found) == len(events)
    for reason, (said,) in zip(events, found, strict=True):
        assert said.startswith(reason), (said, reason)
    assert len(rows(place.into / "bills")) == len(events) + 1


@pytest.mark.parametrize("batch", [1, 2, 5, 100])
def test_batches_of_any_size_set_the_same_aside(place: Place, batch: int) -> None:
    events = unfit()
    sent(place, events)
    assert place.sync(max_events=batch).stopped == {}
    assert len(place.aside("offset")) == len(events)
    assert len(rows(place.into / "bills")) == len(events) + 1


POINTS: list[tuple[str, Moment, str]] = [
    ("fold", "after", ""),
    ("create", "after", "bills"),
    ("set aside", "before", "_rejected"),
    ("set aside", "in", "_rejected"),
    ("set aside", "after", "_rejected"),
    ("merge", "in", "bills"),
    ("merge", "after", "bills"),
    ("progress", "before", ""),
    ("progress", "in", ""),
    ("progress", "after", ""),
]


def plan(place: Place, policy: Policy = "reject", *, steps: SyncSteps = NO_STEPS, **more: Any) -> SyncPlan:
    chosen = SyncOptions(into=place.into, name="s", columns=TYPES, policy=policy, **more)
    return SyncPlan.of(LakePlace.of(place.lake), TOPIC, chosen, steps=steps)


def test_a_driver_that_ends_at_any_step_sets_each_event_aside_once(place: Place) -> None:
    events = unfit()
    sent(place, events)
    for number, (step, moment, what) in enumerate(POINTS):
        point = CrashAt(step, moment, target=what)
        with pytest.raises(Crash, match=f"{moment} {step}"):
            drive_to_the_end(None, plan(place, steps=point, max_events=4 + number % 3))
    drive_to_the_end(None, plan(place))
    assert len(place.aside("offset")) == len({*place.aside("offset", "column")}) == len(events)
    assert len(rows(place.into / "bills")) == len(events) + 1


def test_a_driver_that_ends_at_any_step_notes_each_null_once(place: Place) -> None:
    wrong = {f"{n}": bill(n, amount="many", n="x") for n in range(2, 2 + len(POINTS) + 2)}
    sent(place, wrong)
    for step, moment, what in POINTS:
        point = CrashAt(step, moment, target=what)
        with pytest.raises(Crash, match=f"{moment} {step}"):
            drive_to_the_end(None, plan(place, "null", steps=point, max_events=4))
    drive_to_the_end(None, plan(place, "null"))
    assert place.aside("key", "column") == [(f'{{"id":{n}}}', column) for n in map(int, wrong) for column in ("amount", "n")]
    assert [row for row in rows(place.into / "bills") if 1 < row["id"] < 100] == [
        {"id": n, "amount": None, "n": None} for n in sorted(map(int, wrong), key=lambda n: repr({"id": n}))
    ]


def test_events_that_are_read_again_are_not_set_aside_again(place: Place) -> None:
    events = unfit()
    sent(place, events)
    place.sync(max_events=3, tables=["bills"])
    again = place.sync(max_events=4, tables=["bills", "keyless"])  # one that was not asked for before: from the first event on
    assert (again.status.events, again.stopped) == (2 * len(events) + 1, {})
    assert len(place.aside("offset")) == len(events)


def test_a_run_that_loses_its_lease_around_the_side_table_goes_on(place: Place) -> None:
    sent(place, unfit())
    loses = Loses(place.lake, place.into, [(step, moment) for step, moment, _ in POINTS if step == "set aside"])
    drive_to_the_end(None, plan(place, steps=loses, max_events=4, merges_at_once=1))
    assert len(loses.lost) == 3
    assert len(place.aside("offset")) == len(unfit())


def test_a_table_stands_still_for_what_the_user_chose_and_not_for_an_event(place: Place) -> None:
    place.send(bill(1), bill(2))
    run = place.sync(table_options={"bills": TableOptions(masks={"id": "null"})})
    assert "the mask null may make one row of two" in run.stopped["public.bills"][0].reason
    assert not (place.into / "_rejected").exists()


def test_policies_of_single_tables(place: Place) -> None:
    lines = [event("c", "lines", {"id": 1}, {"id": 1, "n": "x"}), event("c", "lines", {"id": 2}, {"id": 2, "n": "2"})]
    place.send(*lines, bill(1, n="x"), bill(2, n="2"), event("c", "other", {"id": 1}, {"id": 1, "n": "x"}))
    chosen = {"lines": TableOptions(policy="null"), "bills": TableOptions(policy="reject")}
    run = place.sync("stop", table_options=chosen, columns={"*": {"n": "int"}})
    assert set(run.stopped) == {"public.other"}
    assert (run.status.rejected, run.status.nulled) == ({"public.bills": 1}, {"public.lines": 1})
    assert place.aside("table", "action") == [("public.lines", "null"), ("public.bills", "rejected")]


def test_what_is_masked_does_not_stand_aside_either(place: Place) -> None:
    place.send(event("c", "people", {"id": 1}, {"id": 1, "email": "ann@x", "n": "x"}), event("c", "people", {"id": 2}, {"id": 2}))
    place.sync(table_options={"people": TableOptions(masks={"email": "sha256", "id": "sha256"}, columns={"n": "int"})})
    ((key, reason, body),) = place.aside("key", "reason", "body")
    assert (body, json.loads(key).keys(), len(json.loads(key)["id"])) == (None, {"id"}, 64)
    assert "ann@x" not in reason


def test_half_a_character_in_a_key_stands_aside_as_a_question_mark(place: Place) -> None:
    place.send(json.dumps(event("c", "bills", {"id": "\ud800"}, {"id": "\ud800"})).encode())
    assert place.sync(columns={"bills": {"id": "int"}}).stopped == {}
    assert place.aside("key") == [('{"id":"?"}',)]


def test_nothing_is_told_of_an_event_that_may_be_of_a_table_with_masks(place: Place) -> None:
    place.send(b'{"email": "ann@x"', {"key": {"email": "ann@x"}, "value": {"op": "c", "source": {"table": ["ann@x"]}}})
    options = {"people": TableOptions(without_columns=["email"])}
    place.sync(table_options=options)
    reasons = ["this is no JSON", "the event does not name its table"]
    assert place.aside("reason", "body") == [(reason, None) for reason in reasons]
    with pytest.raises(PoisonEvent) as raised:
        place.sync("stop", name="other", into=place.into / "others", table_options=options)
    assert "ann@x" not in str(raised.value)


def test_the_side_table_is_one_sync_s_and_may_have_another_name(place: Place) -> None:
    place.send(bill(1, n="x"), event("c", "lines", {"id": 1}, {"id": 1, "n": "x"}))
    place.sync(name="first", tables=["bills"])
    with pytest.raises(InvalidArgument, match=r"the table of rejected events is another's .*written by sync first.*rejected='_…'"):
        place.sync(name="second", tables=["lines"], columns={"lines": {"n": "int"}})
    place.sync(name="second", tables=["lines"], columns={"lines": {"n": "int"}}, rejected="_of_lines")
    assert place.aside("table", table="_of_lines") == [("public.lines",)]
    write_deltalake(str(place.into / "_mine"), pa.table({"x": [1]}))
    with pytest.raises(InvalidArgument, match="the table of rejected events is another's"):
        place.sync(name="third", rejected="_mine")
    with pytest.raises(InvalidArgument, match=r"the table of rejected events is another's.*observed: no column topic string"):
        place.sync(name="third", rejected="_mine", adopt=True)


@pytest.mark.parametrize("name", ["rejected", "_", "_/x", "_delta_log", "__x", "_x y"])
def test_no_target_can_have_the_name_of_the_side_table(place: Place, name: str) -> None:
    with pytest.raises(InvalidArgument, match="bad name of the table of rejected events"):
        place.sync(rejected=name)


def test_a_table_called_like_the_side_table_gets_a_folder_of_its_own(place: Place) -> None:
    place.send(bill(1, n="x"), event("c", "_rejected", {"id": 1}, {"id": 1}))
    assert place.sync().stopped == {}
    assert rows(place.into / "~5Frejected") == [{"id": 1}]
    assert len(rows(place.into / "_rejected")) == 1


def test_a_side_table_whose_log_was_cleaned_up_goes_on(place: Place) -> None:
    place.send(bill(1, n="x"))
    place.sync()
    table = DeltaTable(str(place.into / "_rejected"))
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    for _ in range(2):
        DeltaTable(str(place.into / "_rejected")).optimize.compact()
        DeltaTable(str(place.into / "_rejected")).create_checkpoint()
    DeltaTable(str(place.into / "_rejected")).cleanup_metadata()
    place.send(bill(2, n="x"))
    assert place.sync().stopped == {}
    assert len(place.aside("offset")) == 2


def spoiled(body: bytes, kind: str) -> bytes:
    """An event like this one that cannot be applied."""
    told = json.loads(body or b"{}")
    if kind == "no JSON" or not isinstance(told.get("value"), dict) or "payload" in told["value"] or "source" not in told["value"]:
        return b"{" + body
    told["value"] |= {"unknown op": {"op": "x"}, "no row": {"op": "u", "after": None}, "no table": {"source": {}}}[kind]
    return json.dumps(told).encode()


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(
    streams(splits=True, max_steps=12),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["no JSON", "unknown op", "no row", "no table"])), max_size=6),
    st.integers(1, 12),
)
def test_drawn_streams_with_spoiled_events_end_as_the_judge_says_without_these(
    told: Stream, spoils: list[tuple[int, str]], batch: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        events = [(one.body, one.table, False) for one in told.told]
        for at, kind in spoils if events else ():
            one = told.told[at % len(told.told)]
            events.insert(at % len(events), (spoiled(one.body, kind), one.table, True))
        send(place.lake, [body for body, *_ in events], groups=[table for _, table, _ in events])
        run = place.sync(columns=told.declared, truncates="queue", max_events=batch)
        assert run.stopped == {}
        bad = {body for body, _, spoilt in events if spoilt}
        messages = stored(place.lake)
        reference = Reference(told.declared)
        for message in messages:
            if message.body not in bad:
                reference.apply([message])
        for (_, table), wanted in reference.rows().items():
            path = place.into / table
            found = [known(row) for row in rows(path)] if DeltaTable.is_deltatable(str(path)) else []
            assert sorted(found, key=repr) == sorted(map(known, wanted.values()), key=repr), table
        aside = place.aside("queue", "offset") if bad else []
        assert aside == sorted((message.queue, message.offset) for message in messages if message.body in bad)


def test_a_batch_tells_what_it_set_aside(place: Place) -> None:
    place.send(bill(1, n="x"), bill(2, n="2"), bill(3, n="y"))
    told = list[BatchReport]()
    place.sync(listener=told.append, max_events=2)
    assert [dict(batch.rejected) for batch in told] == [{"public.bills": 1}, {"public.bills": 1}]


def test_a_bad_policy_is_named(place: Place) -> None:
    with pytest.raises(InvalidArgument, match=r"bad policy .*expected: 'stop', 'null' or 'reject'; observed: 'skip'"):
        place.sync("skip")  # type: ignore[arg-type]

"""Consumer groups' records: kept as they are, checked when they are stated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.groups.codec import decode_group, encode_group
from penstock.coordinator.groups.record import (
    FORMER_TOPICS_MAX,
    Command,
    CommandKind,
    DeadLetterPolicy,
    DeliveryOrder,
    GroupRecord,
    GroupSettings,
    Position,
    check_agreement,
)
from penstock.coordinator.groups.retry import ROCKETMQ_INTERVALS, RetryPolicy, RetrySchedule
from penstock.coordinator.limits import CELL_BYTES_MAX
from penstock.log import MessageType, TopicSettings
from penstock.log.errors import DataDamaged, InvalidArgument, LimitExceeded, NewerFormatError, PenstockError
from penstock.log.limits import QUEUES_MAX
from penstock.log.paths import check_group_name

INTERVALS = st.integers(0, 7 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
RETRIES = st.builds(
    RetryPolicy, schedule=st.sampled_from(RetrySchedule), interval=INTERVALS, interval_max=INTERVALS, jitter=st.floats(0, 1)
)
SETTINGS = st.builds(
    GroupSettings,
    delivery_order=st.just(DeliveryOrder.ORDERLY),
    retry=RETRIES,
    max_attempts=st.none() | st.integers(1, 1000),
    dead_letter_policy=st.sampled_from(DeadLetterPolicy),
    filters=st.dictionaries(st.sampled_from(["orders", "%DLQ%billing"]), st.sampled_from(["a || b", "*"])),
)
OFFSETS = st.integers(0, 2**62)
POSITIONS = st.integers(1, 5).flatmap(
    lambda queues: st.builds(
        Position,
        st.tuples(*[OFFSETS] * queues),
        st.tuples(*[st.integers(0, 9)] * queues),
        st.integers(0, 99),
    )
)
COMMANDS = st.builds(
    lambda number, kind, queue, parked: Command(number, kind, "orders", queue, 7, tuple(sorted(parked)), tuple(parked.values())),
    OFFSETS,
    st.sampled_from(CommandKind),
    st.integers(0, 4),
    st.dictionaries(OFFSETS, st.integers(1, 9), min_size=1, max_size=5),
)
RECORDS = st.builds(
    GroupRecord,
    settings=SETTINGS,
    positions=st.dictionaries(st.sampled_from(["orders", "events"]), POSITIONS),
    members=st.lists(st.text(), unique=True).map(tuple),
    assigned=st.lists(st.text(), unique=True).map(tuple),
    commands=st.lists(COMMANDS).map(tuple),
    commanded=OFFSETS,
    generations=OFFSETS,
    lives=OFFSETS,
    secret=st.binary().map(bytes.hex),
    former_queues=st.dictionaries(st.sampled_from(["orders", "events"]), st.integers(0, QUEUES_MAX)),
    deleted=st.booleans(),
)


@given(RECORDS)
def test_a_record_is_stored_as_it_is(record: GroupRecord) -> None:
    assert decode_group(encode_group(record), where="group") == record


def test_thousands_of_parked_groups_and_queues_fit_into_a_record() -> None:
    record = GroupRecord(settings=GroupSettings()).begun("orders", tuple(range(10**9, 10**9 + 1000)), 0)
    record = record.commanded_to(CommandKind.SKIP, {("orders", 3): dict.fromkeys(range(10**9, 10**9 + 50_000, 7), 17)})
    assert len(encode_group(record)) < CELL_BYTES_MAX / 2


def test_members_join_once_and_leave() -> None:
    record = GroupRecord(settings=GroupSettings()).joined_by("a").joined_by("b").joined_by("a")
    assert record.members == ("a", "b")
    assert record.left_by("a").left_by("c").members == ("b",)
    both = record.assigned_to("c").assigned_to("c")
    assert (both.assigned, both.all_members) == (("c",), ("a", "b", "c"))
    assert both.left_by("a", "c").all_members == ("b",)


def test_every_reset_begins_a_generation_of_its_queues() -> None:
    record = GroupRecord(settings=GroupSettings()).begun("orders", (5, 7), 0).begun("events", (0,), 4).reset("orders", {1: 2})
    assert record.positions == {"orders": Position((5, 2), (0, 2), 0), "events": Position((0,), (1,), 4, since=1)}
    again = record.reset("orders", {1: 2})
    assert again.positions["orders"] == Position((5, 2), (0, 3), 0)
    assert again.begun("orders", (0, 0, 0), 9).positions["orders"] == Position((0, 0, 0), (4, 4, 4), 9, since=4)


def test_queues_that_a_topic_got_later_begin_at_their_first_message_in_a_generation_of_their_own() -> None:
    record = GroupRecord(settings=GroupSettings()).begun("orders", (5, 7), 3)
    grown = record.extended("orders", 4)
    assert grown.positions["orders"] == Position((5, 7, 0, 0), (0, 0, 1, 1), 3)
    assert grown.extended("orders", 4) is grown
    assert grown.extended("orders", 2) is grown
    assert grown.reset("orders", {0: 1, 3: 2}).positions["orders"] == Position((1, 7, 0, 2), (2, 0, 1, 2), 3)


def test_a_topic_that_grows_has_queues_again_that_only_a_former_one_had() -> None:
    record = GroupRecord(settings=GroupSettings()).begun("orders", (0,) * 6, 3).begun("orders", (0, 0), 9)
    assert record.extended("orders", 4).positions["orders"] == Position((0,) * 4, (1, 1, 2, 2), 9, since=1, queues_max=6)
    assert record.extended("orders", 8).positions["orders"].queues_max == 0


def test_a_record_follows_the_topic_as_it_is_seen() -> None:
    record = GroupRecord(settings=GroupSettings()).begun("orders", (5, 7), 3)
    assert record.following("orders", 3, 4) == record.extended("orders", 4)
    assert record.following("orders", 2, 4) is record
    assert record.following("orders", 9, 3) == record.begun("orders", (0, 0, 0), 9)


def test_a_reset_makes_commands_to_its_queues_void_and_no_others() -> None:
    record = GroupRecord(settings=GroupSettings()).begun("orders", (0, 0), 0).begun("events", (0,), 0)
    parked = {("orders", 0): {4: 17}, ("orders", 1): {9: 17, 3: 17}, ("events", 0): {1: 17}}
    record = record.commanded_to(CommandKind.RELEASE, parked)
    assert [(one.number, one.topic, one.queue, one.generation, one.heads) for one in record.commands] == [
        (1, "orders", 0, 0, (4,)),
        (2, "orders", 1, 0, (3, 9)),
        (3, "events", 0, 1, (1,)),
    ]
    assert [one.number for one in record.reset("orders", {1: 0}).commands] == [1, 3]
    assert record.reset("orders", {1: 0}).commanded_to(CommandKind.SKIP, {("orders", 1): {0: 17}}).commands[-1].number == 4


def test_a_deleted_group_keeps_the_numbers_that_were_given() -> None:
    record = GroupRecord(settings=GroupSettings()).begun("orders", (5,), 0).joined_by("a")
    gone = record.commanded_to(CommandKind.SKIP, {("orders", 0): {4: 17}}).gone()
    assert gone == GroupRecord(
        settings=GroupSettings(), commanded=1, generations=1, lives=1, former_queues={"orders": 1}, deleted=True
    )


def test_a_deleted_group_remembers_the_queues_of_the_topics_that_it_began_last() -> None:
    record = GroupRecord(settings=GroupSettings())
    for number in range(FORMER_TOPICS_MAX):
        record = record.begun(f"topic-{number}", (0, 0), 0)
    record = replace(record.gone(), deleted=False).begun("topic-0", (0,), 1).begun("orders", (0,), 1)
    assert record.positions["topic-0"].queues_max == 2
    kept = record.gone().former_queues
    assert list(kept) == [*(f"topic-{number}" for number in range(2, FORMER_TOPICS_MAX)), "topic-0", "orders"]
    assert kept["topic-0"] == 2
    again = record.begun("topic-2", (0,), 2)
    assert not again.former_queues.keys() & again.positions.keys(), "its position knows them"
    assert again.gone().former_queues["topic-2"] == 2
    for number in range(FORMER_TOPICS_MAX):
        again = again.begun(f"later-{number}", (0,), 3)
    assert again.begun("topic-2", (0,), 4).gone().former_queues["topic-2"] == 2, "it was begun last"


def test_the_defaults_are_rocketmqs() -> None:
    ordered, concurrent = (GroupSettings.of(order) for order in DeliveryOrder)
    assert (ordered.max_attempts, ordered.dead_letter_policy) == (17, DeadLetterPolicy.CONTINUE)
    assert [ordered.retry.delay(strikes, 0.5) for strikes in (1, 2, 50)] == [timedelta(seconds=1)] * 3
    delays = [concurrent.retry.delay(strikes, 0.5) for strikes in range(1, 19)]
    assert delays == [*ROCKETMQ_INTERVALS, timedelta(hours=2), timedelta(hours=2)]
    assert sum(delays[:16], timedelta()) == timedelta(hours=4, minutes=45, seconds=40)


def test_exponential_intervals_double_up_to_a_bound_and_jitter_shortens_them() -> None:
    policy = RetryPolicy(schedule=RetrySchedule.EXPONENTIAL, interval=timedelta(seconds=1), interval_max=timedelta(seconds=10))
    assert [policy.delay(strikes, 0.5).total_seconds() for strikes in (1, 2, 3, 4, 5, 99)] == [1, 2, 4, 8, 10, 10]
    shaken = RetryPolicy(interval=timedelta(seconds=8), jitter=0.5)
    assert [shaken.delay(1, chance).total_seconds() for chance in (0.0, 0.5, 1.0)] == [8, 6, 4]


def retry(**given: Any) -> RetryPolicy:
    return RetryPolicy(**given)


def group(**given: Any) -> GroupSettings:
    return GroupSettings(**given)


def test_types_are_named_in_capitals_or_not() -> None:
    settings = GroupSettings(delivery_order="orderly", dead_letter_policy="PARK", retry=RetryPolicy(schedule="Fixed"))  # type: ignore[arg-type]
    assert settings == GroupSettings(dead_letter_policy=DeadLetterPolicy.PARK)
    assert TopicSettings(message_type="fifo").message_type is MessageType.FIFO  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: retry(schedule="never"), InvalidArgument, "no such retry schedule.*fixed, rocketmq, exponential.*never"),
        (lambda: retry(interval=-5), InvalidArgument, "interval is too short.*0 or more.*-5"),
        (lambda: retry(interval_max=timedelta(days=8)), LimitExceeded, "interval_max is too long.*at most 7 days.*8 days"),
        (lambda: retry(jitter=1.5), InvalidArgument, "jitter must be a number from 0 to 1.*1.5"),
        (lambda: group(delivery_order="FIFO"), InvalidArgument, "no such delivery_order.*ORDERLY, CONCURRENT.*FIFO"),
        (lambda: group(dead_letter_policy="drop"), InvalidArgument, "no such dead_letter_policy.*continue, park.*drop"),
        (lambda: group(retry=3), InvalidArgument, "retry must be a RetryPolicy.*int"),
        (lambda: group(max_attempts=0), InvalidArgument, "max_attempts must be a positive whole number, or None"),
        (lambda: group(filters={"orders": "a |"}), InvalidArgument, "bad tag filter.*a |"),
        (lambda: group(filters={"orders": None}), InvalidArgument, "the filter of orders must be a string.*None"),
        (lambda: group(filters="a"), InvalidArgument, "filters must be a mapping of topics to texts.*str"),
        (lambda: GroupSettings.stating({"colour": 1}), InvalidArgument, "has no colour.*delivery_order, retry"),
        (
            lambda: group(delivery_order="CONCURRENT", dead_letter_policy="park"),
            InvalidArgument,
            "only an ORDERLY group can park",
        ),
        (lambda: check_group_name(7), InvalidArgument, "name must be a string.*int"),
        (lambda: check_group_name("a\nb"), InvalidArgument, "bad consumer group name.*ends a line.*a.*b"),
        (lambda: check_group_name("%DLQ%a"), InvalidArgument, "cannot begin like a dead-letter queue's"),
        (lambda: check_group_name("x" * 250), LimitExceeded, "at most 249 characters.*250"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], error: type[PenstockError], said: str) -> None:
    with pytest.raises(error, match=said):
        make()


def test_a_member_that_states_other_settings_is_shown_both() -> None:
    stored = GroupSettings(max_attempts=3, filters={"orders": "a || b"})
    check_agreement({}, stored, "billing")
    check_agreement({"max_attempts": 3, "filters": {"orders": "b||a", "events": "*"}}, stored, "billing")
    with pytest.raises(InvalidArgument, match=r"another max attempts.*billing.*expected.*3.*observed.*any number.*group alter"):
        check_agreement({"max_attempts": None}, stored, "billing")
    with pytest.raises(InvalidArgument, match=r"another filter of orders.*expected.*a \|\| b.*observed.*'c'"):
        check_agreement({"filters": {"orders": "c"}}, stored, "billing")
    with pytest.raises(InvalidArgument, match=r"another filter of events.*expected.*\*.*observed.*'c'"):
        check_agreement({"filters": {"events": "c"}}, stored, "billing")


def test_a_member_of_the_other_delivery_order_is_shown_both() -> None:
    with pytest.raises(InvalidArgument, match=r"another delivery order.*billing.*expected.*CONCURRENT.*observed.*ORDERLY"):
        check_agreement({"delivery_order": "ORDERLY"}, GroupSettings.of("CONCURRENT"), "billing")


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (RetryPolicy(), "every 1 s"),
        (RetryPolicy(schedule=RetrySchedule.ROCKETMQ, jitter=0.5), "by RocketMQ's table, jitter 0.5"),
        (RetryPolicy(schedule=RetrySchedule.EXPONENTIAL), "after 1 s, doubling to 7200 s"),
    ],
)
def test_a_retry_policy_in_an_error_is_a_sentence(policy: RetryPolicy, said: str) -> None:
    other = RetryPolicy(interval=timedelta(seconds=9))
    with pytest.raises(InvalidArgument, match=f"another retry.*{said}.*every 9 s"):
        check_agreement({"retry": other}, GroupSettings(retry=policy), "billing")


def test_other_versions_and_damage_are_named() -> None:
    whole = encode_group(GroupRecord(settings=GroupSettings()))
    lengths = encode_group(GroupRecord(settings=GroupSettings(), positions={"orders": Position((1, 2), (0, 1, 2))}))
    with pytest.raises(NewerFormatError, match=r"another version.*billing.*format 1 or 2.*3"):
        decode_group(whole.replace(b'"format":1', b'"format":3'), where="billing")
    for damaged in (
        b"",
        b"[]",
        b"{}",
        whole[:-1],
        whole.replace(b"ORDERLY", b"CHAOTIC"),
        whole.replace(b"interval", b"fnterval"),
        whole.replace(b'"secret":""', b'"secret":"xy"'),
        whole.replace(b'"secret":""', b'"secret":7'),
        whole.replace(b'"secret":""', b'"protocol":"pigeon"'),
        lengths,
    ):
        with pytest.raises(DataDamaged, match=r"not a consumer group's record.*billing"):
            decode_group(damaged, where="billing")

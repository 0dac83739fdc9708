"""Consumer groups' records: kept as they are, checked when they are stated."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.groups import (
    DeadLetterPolicy,
    DeliveryOrder,
    GroupRecord,
    GroupSettings,
    Position,
    check_agreement,
    check_group_name,
    decode_group,
    encode_group,
)
from penstock.coordinator.retry import ROCKETMQ_INTERVALS, RetryPolicy, Schedule
from penstock.log.errors import DataDamaged, InvalidArgument, LimitExceeded, NewerFormatError, PenstockError

INTERVALS = st.integers(0, 7 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
RETRIES = st.builds(
    RetryPolicy, schedule=st.sampled_from(Schedule), interval=INTERVALS, interval_max=INTERVALS, jitter=st.floats(0, 1)
)
SETTINGS = st.builds(
    GroupSettings,
    delivery_order=st.just(DeliveryOrder.ORDERLY),
    retry=RETRIES,
    max_attempts=st.none() | st.integers(1, 1000),
    dead_letter_policy=st.sampled_from(DeadLetterPolicy),
    filters=st.dictionaries(st.sampled_from(["orders", "%DLQ%billing"]), st.sampled_from(["a || b", "*"])),
)
POSITIONS = st.builds(Position, st.integers(0, 9), st.lists(st.integers(0, 2**62), min_size=1).map(tuple))


@given(SETTINGS, st.dictionaries(st.sampled_from(["orders", "events"]), POSITIONS), st.lists(st.text(), unique=True))
def test_a_record_is_stored_as_it_is(settings: GroupSettings, positions: dict[str, Position], members: list[str]) -> None:
    record = GroupRecord(settings=settings, positions=positions, members=tuple(members))
    assert decode_group(encode_group(record), where="group") == record


def test_members_join_once_and_leave() -> None:
    record = GroupRecord(settings=GroupSettings()).joined_by("a").joined_by("b").joined_by("a")
    assert record.members == ("a", "b")
    assert record.left_by("a").left_by("c").members == ("b",)


def test_every_reset_begins_a_generation_of_its_topic() -> None:
    record = GroupRecord(settings=GroupSettings()).at("orders", (5, 7)).at("events", (0,)).at("orders", (1, 2))
    assert record.positions == {"orders": Position(1, (1, 2)), "events": Position(0, (0,))}


def test_the_defaults_are_rocketmqs() -> None:
    ordered, concurrent = (GroupSettings.of(order) for order in DeliveryOrder)
    assert (ordered.max_attempts, ordered.dead_letter_policy) == (17, DeadLetterPolicy.CONTINUE)
    assert [ordered.retry.delay(strikes, 0.5) for strikes in (1, 2, 50)] == [timedelta(seconds=1)] * 3
    delays = [concurrent.retry.delay(strikes, 0.5) for strikes in range(1, 19)]
    assert delays == [*ROCKETMQ_INTERVALS, timedelta(hours=2), timedelta(hours=2)]
    assert sum(delays[:16], timedelta()) == timedelta(hours=4, minutes=45, seconds=40)


def test_exponential_intervals_double_up_to_a_bound_and_jitter_shortens_them() -> None:
    policy = RetryPolicy(schedule=Schedule.EXPONENTIAL, interval=timedelta(seconds=1), interval_max=timedelta(seconds=10))
    assert [policy.delay(strikes, 0.5).total_seconds() for strikes in (1, 2, 3, 4, 5, 99)] == [1, 2, 4, 8, 10, 10]
    shaken = RetryPolicy(interval=timedelta(seconds=8), jitter=0.5)
    assert [shaken.delay(1, chance).total_seconds() for chance in (0.0, 0.5, 1.0)] == [8, 6, 4]


def retry(**given: Any) -> RetryPolicy:
    return RetryPolicy(**given)


def group(**given: Any) -> GroupSettings:
    return GroupSettings(**given)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: retry(schedule="never"), InvalidArgument, "no such retry schedule.*fixed, rocketmq, exponential.*never"),
        (lambda: retry(interval=5), InvalidArgument, "interval must be a timedelta from 0 to 7 days.*5"),
        (lambda: retry(interval_max=timedelta(days=8)), InvalidArgument, "interval_max must be a timedelta"),
        (lambda: retry(jitter=1.5), InvalidArgument, "jitter must be a number from 0 to 1.*1.5"),
        (lambda: group(delivery_order="FIFO"), InvalidArgument, "no such delivery_order.*ORDERLY, CONCURRENT.*FIFO"),
        (lambda: group(dead_letter_policy="drop"), InvalidArgument, "no such dead_letter_policy.*continue, park.*drop"),
        (lambda: group(retry=3), InvalidArgument, "retry must be a RetryPolicy.*int"),
        (lambda: group(max_attempts=0), InvalidArgument, "max_attempts must be a positive whole number, or None"),
        (lambda: group(filters={"orders": "a |"}), InvalidArgument, "a |"),
        (
            lambda: group(delivery_order="CONCURRENT", dead_letter_policy="park"),
            InvalidArgument,
            "only an ORDERLY group can park",
        ),
        (lambda: check_group_name(7), InvalidArgument, "name must be a string.*int"),
        (lambda: check_group_name("a.b"), InvalidArgument, "bad consumer group name.*letters, digits.*a.b"),
        (lambda: check_group_name("%DLQ%a"), InvalidArgument, "cannot begin like a dead-letter queue's"),
        (lambda: check_group_name("x" * 123), LimitExceeded, "at most 122 characters.*123"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], error: type[PenstockError], said: str) -> None:
    with pytest.raises(error, match=said):
        make()


def test_a_member_that_states_other_settings_is_shown_both() -> None:
    stored = GroupSettings(max_attempts=3)
    check_agreement(GroupSettings(max_attempts=3), stored, "billing")
    with pytest.raises(InvalidArgument, match=r"another max attempts.*billing.*expected.*3.*observed.*17.*group alter"):
        check_agreement(GroupSettings(), stored, "billing")


def test_other_versions_and_damage_are_named() -> None:
    whole = encode_group(GroupRecord(settings=GroupSettings()))
    with pytest.raises(NewerFormatError, match=r"another version.*billing.*format 1.*2"):
        decode_group(whole.replace(b'"format":1', b'"format":2'), where="billing")
    for damaged in (b"", b"[]", b"{}", whole[:-1], whole.replace(b"ORDERLY", b"CHAOTIC"), whole.replace(b"interval", b"fnterval")):
        with pytest.raises(DataDamaged, match=r"not a consumer group's record.*billing"):
            decode_group(damaged, where="billing")

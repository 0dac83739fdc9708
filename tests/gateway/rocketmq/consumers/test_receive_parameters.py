"""What a receive asks for, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.gateway.rocketmq.consumers.filters import check_agreement, filter_of
from penstock.gateway.rocketmq.consumers.receive_parameters import INVISIBLE_DURATION, changed_duration_of, receive_parameters_of
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.status import StatusError
from penstock.log.filter.filters import parse_filter


def receive(*, invisible_s: float | None = 15, poll_s: float | None = None, **others: Any) -> pb.ReceiveMessageRequest:
    request = pb.ReceiveMessageRequest(**({"batch_size": 32} | others))
    if invisible_s is not None:
        request.invisible_duration.FromTimedelta(timedelta(seconds=invisible_s))
    if poll_s is not None:
        request.long_polling_timeout.FromTimedelta(timedelta(seconds=poll_s))
    return request


def test_a_receive_as_simple_consumers_ask() -> None:
    wanted = receive_parameters_of(receive(batch_size=1_000, poll_s=6), remaining_s=9)
    assert (wanted.most, wanted.invisible, wanted.poll) == (32, timedelta(seconds=15), timedelta(seconds=6))
    assert not wanted.is_named


def test_a_receive_as_push_consumers_ask() -> None:
    wanted = receive_parameters_of(receive(invisible_s=None, auto_renew=True, attempt_id="once"), remaining_s=None)
    assert (wanted.invisible, wanted.poll, wanted.attempt_id) == (INVISIBLE_DURATION, timedelta(seconds=20), "once")
    assert wanted.is_named


@pytest.mark.parametrize(("poll_s", "remaining_s", "expected_s"), [(30, 33, 20), (20, 10, 9.5), (0, 3, 0), (None, 100, 20)])
def test_a_poll_ends_before_the_client_gives_up(poll_s: float | None, remaining_s: float, expected_s: float) -> None:
    assert receive_parameters_of(receive(poll_s=poll_s), remaining_s).poll == timedelta(seconds=expected_s)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (receive(batch_size=0), pb.BAD_REQUEST),
        (receive(batch_size=-1), pb.BAD_REQUEST),
        (receive(invisible_s=9.999), pb.ILLEGAL_INVISIBLE_TIME),
        (receive(invisible_s=12 * 3600 + 1), pb.ILLEGAL_INVISIBLE_TIME),
        (receive(invisible_s=None), pb.ILLEGAL_INVISIBLE_TIME),
        (receive(poll_s=-1), pb.ILLEGAL_POLLING_TIME),
    ],
)
def test_what_no_receive_can_ask_for(request_: pb.ReceiveMessageRequest, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        receive_parameters_of(request_, remaining_s=60)
    assert refused.value.code == code


def test_a_deadline_that_leaves_no_time() -> None:
    with pytest.raises(StatusError, match="no time for its answer") as refused:
        receive_parameters_of(receive(), remaining_s=0.2)
    assert refused.value.code == pb.ILLEGAL_POLLING_TIME


def test_absurd_durations_are_no_unforeseen_failures() -> None:
    request = receive()
    request.invisible_duration.seconds = 2**62
    with pytest.raises(StatusError, match="no duration"):
        receive_parameters_of(request, remaining_s=60)
    request = receive()
    request.long_polling_timeout.seconds = 2**62
    assert receive_parameters_of(request, remaining_s=60).poll == timedelta(seconds=20)


def test_a_change_may_end_a_delivery_at_once() -> None:
    assert changed_duration_of(pb.ChangeInvisibleDurationRequest()) == timedelta(0)
    for seconds in (-1, 12 * 3600 + 1):
        request = pb.ChangeInvisibleDurationRequest()
        request.invisible_duration.seconds = seconds
        with pytest.raises(StatusError):
            changed_duration_of(request)


# --- Filters --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "stated"),
    [("*", "*"), ("", "*"), ("  a  ", "a"), ("a||b", "a || b"), ("a ||", "a"), ("|| a", "a"), ("a || *", "a || *")],
)
def test_tag_expressions_mean_what_they_mean_to_rocketmq(expression: str, stated: str) -> None:
    assert filter_of(pb.FilterExpression(type=pb.TAG, expression=expression)) == stated


def test_an_sql_expression_becomes_a_condition() -> None:
    stated = filter_of(pb.FilterExpression(type=pb.SQL, expression="amount > 5"))
    assert parse_filter(stated) == parse_filter("SQL92: amount > 5")


@pytest.mark.parametrize(
    "expression",
    [
        pb.FilterExpression(type=pb.TAG, expression="||"),
        pb.FilterExpression(type=pb.TAG, expression="a | b"),
        pb.FilterExpression(type=pb.TAG, expression="SQL92: a = 1"),
        pb.FilterExpression(type=pb.SQL, expression="amount >"),
        pb.FilterExpression(type=pb.SQL, expression="color LIKE 'r%'"),
    ],
)
def test_wrong_expressions_are_refused(expression: pb.FilterExpression) -> None:
    with pytest.raises(StatusError) as refused:
        filter_of(expression)
    assert refused.value.code == pb.ILLEGAL_FILTER_EXPRESSION


def test_members_agree_on_what_they_take_and_not_on_how_they_say_it() -> None:
    check_agreement("a || b", "b||a", group="billing", topic="orders")
    with pytest.raises(StatusError, match=r"billing has the filter 'a' on topic orders, and this client states '\*'") as refused:
        check_agreement("*", "a", group="billing", topic="orders")
    assert refused.value.code == pb.ILLEGAL_FILTER_EXPRESSION

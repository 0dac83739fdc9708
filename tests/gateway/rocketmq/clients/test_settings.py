"""The settings that a client is told, in the form that its SDK understands."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.coordinator import GroupSettings, RetryPolicy
from penstock.gateway.rocketmq.clients.settings import settings_for
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb

ORDERLY = GroupSettings(retry=RetryPolicy(interval=2), max_attempts=5)
CONCURRENT = GroupSettings.of("CONCURRENT")


def asked(language: pb.Language = pb.PYTHON, *, client_type: pb.ClientType = pb.PUSH_CONSUMER) -> pb.Settings:
    found = pb.Settings(client_type=client_type, user_agent=pb.UA(language=language))
    if client_type == pb.PRODUCER:
        found.publishing.topics.add(name="orders")
    else:
        found.subscription.group.name = "billing"
    return found


def test_a_producer_is_told_the_largest_body_and_that_types_are_checked() -> None:
    told = settings_for(asked(client_type=pb.PRODUCER), body_bytes_max=4096, group=None)
    assert (told.publishing.max_body_size, told.publishing.validate_message_type) == (4096, True)
    assert [one.name for one in told.publishing.topics] == ["orders"]
    assert told.backoff_policy.max_attempts == 3
    assert told.backoff_policy.exponential_backoff.multiplier == 2
    assert not told.metric.on


@pytest.mark.parametrize("language", [pb.PYTHON, pb.JAVA, pb.GOLANG, pb.CPP])
def test_a_consumer_is_told_its_groups_order_and_retries_as_a_list(language: pb.Language) -> None:
    told = settings_for(asked(language), body_bytes_max=0, group=ORDERLY)
    assert told.subscription.fifo
    assert told.subscription.receive_batch_size == (1 if language == pb.GOLANG else 32)
    assert told.subscription.long_polling_timeout.seconds == 20
    assert told.backoff_policy.max_attempts == 5
    assert [one.seconds for one in told.backoff_policy.customized_backoff.next] == [2]


def test_nodes_sdk_is_told_a_power_as_it_ignores_lists() -> None:
    told = settings_for(asked(pb.NODE_JS), body_bytes_max=0, group=CONCURRENT).backoff_policy
    assert told.WhichOneof("strategy") == "exponential_backoff"
    assert (told.exponential_backoff.initial.seconds, told.exponential_backoff.max.seconds) == (10, 7200)
    fixed = settings_for(asked(pb.NODE_JS), body_bytes_max=0, group=ORDERLY).backoff_policy.exponential_backoff
    assert (fixed.initial.seconds, fixed.max.seconds, fixed.multiplier) == (2, 2, 1)


def test_gos_sdk_is_given_ordered_messages_one_by_one_as_it_goes_on_behind_one_that_failed() -> None:
    told = settings_for(asked(pb.GOLANG), body_bytes_max=0, group=ORDERLY).subscription
    assert (told.fifo, told.receive_batch_size) == (True, 1)
    assert settings_for(asked(pb.GOLANG), body_bytes_max=0, group=CONCURRENT).subscription.receive_batch_size == 32


def test_a_concurrent_group_is_told_rocketmqs_table() -> None:
    told = settings_for(asked(), body_bytes_max=0, group=CONCURRENT)
    assert not told.subscription.fifo
    assert [one.seconds for one in told.backoff_policy.customized_backoff.next][:4] == [10, 30, 60, 120]
    assert told.backoff_policy.customized_backoff.next[-1].seconds == 7200


def test_an_unknown_group_is_taken_for_an_orderly_one() -> None:
    assert settings_for(asked(), body_bytes_max=0, group=None).subscription.fifo


def test_pauses_below_a_second_are_told_as_one() -> None:
    quick = GroupSettings(retry=RetryPolicy(interval=timedelta(milliseconds=20)), max_attempts=None)
    told = settings_for(asked(), body_bytes_max=0, group=quick).backoff_policy
    assert [one.seconds for one in told.customized_backoff.next] == [1]
    assert told.max_attempts == 2**31 - 1


def test_what_a_client_says_beside_is_kept() -> None:
    said = asked()
    said.subscription.long_polling_timeout.FromSeconds(5)
    said.access_point.addresses.add(host="h", port=1)
    told = settings_for(said, body_bytes_max=0, group=ORDERLY)
    assert told.subscription.long_polling_timeout.seconds == 5
    assert told.access_point == said.access_point

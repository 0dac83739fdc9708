"""What a group's members do when it is deleted under them, and made again."""

from __future__ import annotations

from datetime import timedelta

import pytest

import penstock
from tests.consumers.heard import AT_ONCE, Heard, consuming, fill
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until


@pytest.mark.parametrize("begun", [False, True])
def test_members_of_a_group_that_was_deleted_and_made_again_end_and_say_so_whether_they_own_queues_or_stand_by(
    lake: penstock.Lake, begun: bool
) -> None:
    """They stated settings for the one that is gone, and began where it began."""
    fill(lake, "a")
    heard = Heard()
    consumers = [lake.push_consumer("orders", group="billing", listener=heard) for _ in range(2)]
    heard.until_done(1)
    wait_until(lambda: len(lake.describe_group("billing").members) == 2, "both are there")
    lake.delete_group("billing", force=True)
    lake.create_group("billing", retry=AT_ONCE)
    if begun:
        lake.reset_offsets("billing", "orders", "earliest")
    for consumer in consumers:
        with pytest.raises(penstock.GroupDeleted, match=r"the consumer group was deleted after.*billing"):
            consumer.wait(timedelta(seconds=TIMEOUT_S))
        with pytest.raises(penstock.GroupDeleted):
            consumer.close()
    assert lake.describe_group("billing").members == ()
    with consuming(lake, heard):
        heard.until_done(2)

"""Keys of cells: every table takes them, and none is the folder of another."""

from __future__ import annotations

from itertools import permutations

from penstock.coordinator.cells.keys import (
    classic_key,
    group_key,
    member_key,
    players_key,
    positions_key,
    queue_key,
    role_key,
    worker_key,
    worker_of,
)
from penstock.coordinator.tables.protocol import check_cell_key
from penstock.log.limits import GROUP_STORED_BYTES_MAX, TOPIC_NAME_CHARS_MAX

GROUP = "g" * GROUP_STORED_BYTES_MAX
TOPIC = "t" * TOPIC_NAME_CHARS_MAX


def test_every_table_takes_the_longest_of_them() -> None:
    for topic in (TOPIC, f"%DLQ%{GROUP}"):
        keys = [
            queue_key(GROUP, topic, 10**6),
            positions_key(GROUP, topic),
            classic_key(GROUP),
            role_key(topic, "maintenance"),
            member_key(GROUP, topic, "m" * 127),
        ]
        for key in [*keys, group_key(GROUP), worker_key("0" * 32)]:
            check_cell_key(key)
            assert "%" not in key


def test_none_is_the_folder_of_another() -> None:
    names = ["orders", "a", "1", "%DLQ%orders", "orders.1", "a.b", "%DLQ%a!2fb"]
    keys = {queue_key(group, name, queue) for name in names for queue in range(12) for group in ("a", "a/orders", "a/orders/1")}
    keys |= {positions_key(group, name) for name in names for group in ("a", "a/orders", "a/orders/1")} | {classic_key("a")}
    keys |= {role_key(name, "maintenance") for name in names} | {member_key("a", name, "1") for name in names}
    keys |= {group_key("a"), group_key("orders"), worker_key("a"), worker_key("orders"), players_key("orders")}
    assert not [(one, other) for one, other in permutations(keys, 2) if other.startswith(f"{one}/")]


def test_a_member_tells_its_worker() -> None:
    assert worker_of("0af3/12") == "0af3"

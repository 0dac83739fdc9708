"""The metrics of all groups of a lake. Several processes have the same: aggregate by ``max by (…)``, never ``sum``."""

from __future__ import annotations

from ...log.metrics import gauge, watched

_TOPIC = ("topic", "consumer_group")

GROUP_CONSUMERS = gauge(
    "penstock_group_consumers", "Live consumers of the group that consume the topic, in any process", labels=_TOPIC, largest=True
)
GROUP_OWNED_QUEUES = gauge(
    "penstock_group_owned_queues", "Queues that a live consumer of the group owns, in any process", labels=_TOPIC, largest=True
)
GROUP_DEAD_LETTERS = watched(
    "penstock_group_dead_letters_total",
    "Messages that the group ever gave up, and that are durable in its dead-letter queue",
    "{message}",
    labels=_TOPIC,
)
LOOK_AGE = gauge("penstock_groups_look_age_seconds", "Time since the last look at all groups ended", "s", labels=())
LOOK_TIME = gauge("penstock_groups_look_seconds", "How long the last look at all groups took", "s", labels=())
UNREAD = watched(
    "penstock_groups_unread_total",
    "Reads that failed in looks at all groups; what they were for is left out",
    labels=("kind", "name"),
)

CATALOGUE = (
    GROUP_CONSUMERS,
    GROUP_OWNED_QUEUES,
    GROUP_DEAD_LETTERS,
    LOOK_AGE,
    LOOK_TIME,
    UNREAD,
)
"""The metrics that only looks have."""

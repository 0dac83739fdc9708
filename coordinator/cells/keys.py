"""The keys of the cells, by names. No key is the folder of another; Delta readers and stores accept all."""

from __future__ import annotations

from ...log.paths import group_folder, topic_folder

WORKERS = "workers/"
GROUPS = "groups/"
QUEUES = "queues/"
FAILURES = "failures/"
ROLES = "roles/"
MEMBERS = "members/"
PLAYERS = "players/"
TIMERS = "timers/"
REDRIVES = "redrives/"
"""What was sent back of dead letters; always in the lake's own store, as timers' cells are."""
TRANSACTIONS = "transactions/"
PRODUCERS = "producers/"
PRODUCER_GROUPS = "producer-groups"
"""All producer groups that ever had a transaction."""
ACCESS = "access"
"""The principals and roles of gateways."""
TABLE = "table"
"""The record of the lake's coordination table; always in the lake's own store."""
LAKE = "lake"
"""The lake that a table outside of it belongs to."""
GATEWAYS = "gateways"
"""The live gateways of RocketMQ's protocol."""
KAFKA_GATEWAYS = "kafka-gateways"
"""The live gateways of Kafka's protocol."""


def worker_key(worker: str) -> str:
    return f"{WORKERS}{worker}"


def group_key(group: str) -> str:
    return f"{GROUPS}{group_folder(group)}"


def queue_key(group: str, topic: str, queue: int) -> str:
    return f"{group_queues(group)}{topic_folder(topic)}/{queue}"


def group_queues(group: str) -> str:
    """The prefix of all `queue_key`, `positions_key` and `classic_key` of a group."""
    return f"{QUEUES}{group_folder(group)}/"


def failures_key(group: str, topic: str, queue: int) -> str:
    """The last failures of a queue's messages."""
    return f"{group_failures(group)}{topic_folder(topic)}/{queue}"


def group_failures(group: str) -> str:
    """The prefix of all `failures_key` of a group."""
    return f"{FAILURES}{group_folder(group)}/"


def classic_key(group: str) -> str:
    """The members of a group of Kafka's clients. No topic's folder begins with ``!``."""
    return f"{group_queues(group)}!members"


def positions_key(group: str, topic: str) -> str:
    """What a group of Kafka's clients has committed on a topic."""
    return f"{group_queues(group)}{topic_folder(topic)}/positions"


def role_key(topic: str, role: str) -> str:
    return f"{ROLES}{topic_folder(topic)}/{role}"


def players_key(role: str) -> str:
    return f"{PLAYERS}{role}"


def transactions_key(member: str) -> str:
    return f"{TRANSACTIONS}{member}"


def producers_key(group: str) -> str:
    """The members of a producer group that may have transactions."""
    return f"{PRODUCERS}{group}"


def member_key(group: str, topic: str, member: str) -> str:
    return f"{MEMBERS}{group_folder(group)}/{topic_folder(topic)}/{member}"


def timer_key(topic: str, log_incarnation: str) -> str:
    return f"{timer_folders(topic)}{log_incarnation}"


def timer_folders(topic: str) -> str:
    return f"{TIMERS}{topic_folder(topic)}/"


def timer_folder(topic: str, log_incarnation: str) -> str:
    """The folder of a topic's timer runs in the lake."""
    return f"{timer_key(topic, log_incarnation)}/"


def worker_of(owner: str) -> str:
    """A member's id is ``<worker>/<number>``."""
    return owner.partition("/")[0]

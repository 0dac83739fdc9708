"""The keys of the cells, by names. No key is the folder of another, and no part has characters that a Delta reader or a store would
mind.
"""

from __future__ import annotations

from ...log.paths import topic_folder

WORKERS = "workers/"
GROUPS = "groups/"
QUEUES = "queues/"
ROLES = "roles/"
MEMBERS = "members/"
PLAYERS = "players/"
TIMERS = "timers/"
TRANSACTIONS = "transactions/"
PRODUCERS = "producers/"
PRODUCER_GROUPS = "producer-groups"
"""The cell that names all producer groups that ever had a transaction."""
ACCESS = "access"
"""The cell of the principals and roles of gateways."""
GATEWAYS = "gateways"
"""The cell that names the live gateways."""


def worker_key(worker: str) -> str:
    """The heartbeat of a worker."""
    return f"{WORKERS}{worker}"


def group_key(group: str) -> str:
    """The record of a consumer group."""
    return f"{GROUPS}{group}"


def queue_key(group: str, topic: str, queue: int) -> str:
    """The group's state of one queue."""
    return f"{QUEUES}{group}/{topic_folder(topic)}/{queue}"


def group_queues(group: str) -> str:
    """The prefix of all `queue_key` of a group."""
    return f"{QUEUES}{group}/"


def role_key(topic: str, role: str) -> str:
    """The player of a role for a topic, such as its maintenance."""
    return f"{ROLES}{topic_folder(topic)}/{role}"


def players_key(role: str) -> str:
    """The players of a role, for any topic."""
    return f"{PLAYERS}{role}"


def transactions_key(member: str) -> str:
    """The transactions of one member of a producer group, whichever that is."""
    return f"{TRANSACTIONS}{member}"


def producers_key(group: str) -> str:
    """The members of a producer group that may have transactions."""
    return f"{PRODUCERS}{group}"


def member_key(group: str, topic: str, member: str) -> str:
    """The progress of a member of a broadcasting group."""
    return f"{MEMBERS}{group}/{topic_folder(topic)}/{member}"


def timer_key(topic: str, log_incarnation: str) -> str:
    """The state of the timers of a topic, for one life of its timer log."""
    return f"{timer_folders(topic)}{log_incarnation}"


def timer_folders(topic: str) -> str:
    """The folder of all `timer_folder` of a topic."""
    return f"{TIMERS}{topic_folder(topic)}/"


def timer_folder(topic: str, log_incarnation: str) -> str:
    """The folder of the runs of a topic's timers, in the lake."""
    return f"{timer_key(topic, log_incarnation)}/"


def worker_of(owner: str) -> str:
    """The worker in which a member lives. A member's id is ``<worker>/<number>``."""
    return owner.partition("/")[0]

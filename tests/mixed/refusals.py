"""What a newer version writes that an older one cannot read: each with the older one's commands that meet it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import penstock
from penstock import aio
from penstock.log.message.routing_type import Routing
from tests.mixed.versions import Version, current

BEFORE_KAFKA: Final = "8720732fd78e21d0ab2fa4afae75baee6e1b6b89"
"""The last commit that knew only two formats of a topic's settings: before topics of type MIXED, routings, configs and groups of Kafka's clients."""


@dataclass(frozen=True)
class Feature:
    """Something that an older version does not know."""

    name: str
    before: str
    """A commit whose version does not know it; empty: the former version."""
    make: Callable[[str], None]
    """Makes use of it in a lake that is told."""
    commands: tuple[tuple[str, ...], ...]
    """Of the older version, each of which must refuse by name."""
    observed: str
    """What it says that it found."""
    besides: tuple[tuple[str, ...], ...] = ()
    """Commands of the older version that go on all the same."""


def mixed_topic(url: str) -> None:
    with penstock.connect(url, maintenance=False) as lake:
        lake.create_topic("mixed", message_type="MIXED")
        lake.create_topic("plain")
        with lake.producer("mixed") as producer:
            producer.send(penstock.Message(b"sent")).result()


def routed_topic(url: str) -> None:
    with penstock.connect(url, maintenance=False) as lake:
        lake.create_topic("routed", routing=Routing.MURMUR2)
        lake.create_topic("plain")


def configured_topic(url: str) -> None:
    with penstock.connect(url, maintenance=False) as lake:
        lake.create_topic("configured")
        lake.alter_topic("configured", configs=(("cleanup.policy", "delete"),))
        lake.create_topic("plain")


def grown_topic(url: str) -> None:
    with penstock.connect(url, maintenance=False) as lake:
        lake.create_topic("grown", queues=4)
        lake.create_topic("plain")
        with lake.producer("grown") as producer:
            producer.send(penstock.Message(b"before")).result()
        lake.alter_topic("grown", queues=8)
        with lake.producer("grown") as producer:
            producer.send(penstock.Message(b"behind")).result()


def kafka_group(url: str) -> None:
    async def make() -> None:
        async with aio.connect(url, maintenance=False) as lake:
            await lake.coordination.groups.ensure_kafka("members")
            await lake.create_group("own")

    asyncio.run(make())


def managing_role(url: str) -> None:
    with penstock.connect(url, maintenance=False) as lake:
        lake.create_topic("plain")
    done = asked(current(), url, ("access", "grant", "role:operators", "--manage", "orders*"))
    assert done.returncode == 0, done.stderr


PLAIN: Final = (("topic", "describe", "plain"), ("produce", "plain", "--body", "sent"))
OF_GROWN: Final = (("topic", "describe", "grown"), ("read", "grown"), ("produce", "grown", "--body", "b"))
FEATURES: Final = (
    Feature("growth to more queues", "", grown_topic, OF_GROWN, "format 6", PLAIN),
    Feature(
        "topic of type MIXED", BEFORE_KAFKA, mixed_topic, (("topic", "describe", "mixed"), ("read", "mixed")), "format 3", PLAIN
    ),
    Feature(
        "routing",
        BEFORE_KAFKA,
        routed_topic,
        (("topic", "describe", "routed"), ("produce", "routed", "--body", "b")),
        "format 3",
        PLAIN,
    ),
    Feature("configs", BEFORE_KAFKA, configured_topic, (("topic", "describe", "configured"),), "format 5", PLAIN),
    Feature(
        "group of Kafka's clients",
        BEFORE_KAFKA,
        kafka_group,
        (("group", "describe", "members"),),
        "format 2",
        (("group", "describe", "own"),),
    ),
    Feature("role that manages topics", BEFORE_KAFKA, managing_role, (("access", "list"),), "format 2", PLAIN),
)


def asked(version: Version, url: str, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """A command of a version on the lake."""
    command = version.penstock("--lake", url, *words)
    return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)

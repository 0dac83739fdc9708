"""What a play is given: an SDK's program, names of its own, and the words in which it says what it saw."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import penstock
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from tests.gateway.programs import ProgramError
from tests.gateway.sdk import Sdk
from tests.waiting import wait_until

PATIENCE_S = 150.0
"""RocketMQ asks about a transaction after up to a minute, and an idle topic's retry waits for the end of a long poll."""
OK = "OK"


@dataclass(frozen=True)
class Group:
    """A consumer group that a play needs."""

    order: penstock.DeliveryOrderLike = "ORDERLY"
    max_attempts: int = 17


@dataclass(frozen=True)
class Play:
    """One program, and what it needs beforehand: topics by their type, and groups."""

    name: str
    what: str
    run: Callable[[Scene], str]
    topics: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)


@dataclass
class Scene:
    """A play by one SDK."""

    play: Play
    sdk: Sdk
    prefix: str
    reset: Callable[[str, str, Literal["earliest", "latest"]], None]
    """Of a group and a topic to ``earliest`` or ``latest``, as an operator does it."""
    timeout_s: int = 30

    def named(self, name: str) -> str:
        """The name that something of this play has everywhere."""
        return f"{self.prefix}-{self.play.name}-{self.sdk.language}-{name}"

    # --- Sending ----------------------------------------------------------------------------------------------------------------

    def producer(self, name: str = "producer", *, topics: list[str] | None = None, **more: Any) -> None:
        named = [self.named(topic) for topic in (self.play.topics if topics is None else topics)]
        self.sdk.call("producer", name=self.named(name), topics=named, timeout_s=self.timeout_s, **more)

    def send(self, topic: str, body: str = "", *, by: str = "producer", **more: Any) -> dict[str, Any]:
        sent: dict[str, Any] = self.sdk.call("send", name=self.named(by), topic=self.named(topic), body=body, **more)
        return sent

    def send_all(self, topic: str, *bodies: str, **more: Any) -> None:
        """Messages whose message group is their first letter."""
        for body in bodies:
            self.send(topic, body, message_group=body[0], **more)

    # --- Consuming --------------------------------------------------------------------------------------------------------------

    def simple(self, group: str, topic: str, expression: str = "*", *, name: str = "consumer", await_s: int = 5) -> None:
        subscriptions = {self.named(topic): expression}
        self.sdk.call(
            "simple",
            name=self.named(name),
            group=self.named(group),
            subscriptions=subscriptions,
            await_s=await_s,
            timeout_s=self.timeout_s,
        )

    def receive(self, *, name: str = "consumer", most: int = 32, invisible_s: int = 30) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.sdk.call("receive", name=self.named(name), max=most, invisible_s=invisible_s)
        return found

    def received(self, count: int, *, seconds: float = PATIENCE_S, ack: bool = False, **more: Any) -> list[dict[str, Any]]:
        """What comes until there are so many, or the time is over."""
        found: list[dict[str, Any]] = []
        deadline_s = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < deadline_s:
            come = self.receive(**more)
            found += come
            for message in come if ack else ():
                self.ack(message, name=more.get("name", "consumer"))
        return found

    def batch(self, count: int, *, invisible_s: int) -> list[dict[str, Any]]:
        """A receive that gave so many at once. What another one gave comes again after its invisible duration."""
        found: list[dict[str, Any]] = []

        def is_whole() -> bool:
            found[:] = self.receive(most=count, invisible_s=invisible_s)
            return len(found) == count

        wait_until(is_whole, f"{self.play.name}: {count} messages come at once", timeout_s=PATIENCE_S)
        return found

    def ack(self, message: dict[str, Any], *, name: str = "consumer") -> None:
        self.sdk.call("ack", name=self.named(name), message=message["ref"])

    def change(self, message: dict[str, Any], seconds: int, *, name: str = "consumer") -> None:
        self.sdk.call("change", name=self.named(name), message=message["ref"], invisible_s=seconds)

    def push(self, group: str, topic: str, expression: str = "*", *, name: str = "consumer", **more: Any) -> None:
        self.sdk.call(
            "push",
            name=self.named(name),
            group=self.named(group),
            subscriptions={self.named(topic): expression},
            timeout_s=self.timeout_s,
            **more,
        )

    def pushed(self, name: str = "consumer") -> list[dict[str, Any]]:
        """The messages that the listener was given so far, in its order."""
        return [one["message"] for one in self._events(name, "message")]

    def pushed_until(self, count: int, name: str = "consumer") -> list[dict[str, Any]]:
        wait_until(lambda: len(self.pushed(name)) >= count, f"{self.play.name}: {count} messages are pushed", timeout_s=PATIENCE_S)
        return self.pushed(name)

    def asked_until(self, count: int, name: str = "producer") -> int:
        """How often the checker was asked, once that is so often."""
        wait_until(
            lambda: len(self._events(name, "check")) >= count, f"{self.play.name}: asked {count} times", timeout_s=PATIENCE_S
        )
        return len(self._events(name, "check"))

    def _events(self, name: str, kind: str) -> list[dict[str, Any]]:
        self.sdk.drain_events()
        return [one for one in list(self.sdk.seen) if one["name"] == self.named(name) and one["event"] == kind]

    def pause(self, seconds: float) -> None:
        """Let an invisible duration pass: what a client does not see happens at the server."""
        deadline_s = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() > deadline_s, "the time is over", timeout_s=seconds + 60)


def outcome(call: Callable[[], object]) -> str:
    """``OK``, or the protocol's word for the refusal."""
    try:
        call()
    except ProgramError as refused:
        if refused.code is None:
            return "the SDK refuses"
        return pb.Code.Name(refused.code) if refused.code in pb.Code.values() else str(refused.code)
    return OK


def outcomes(calls: Mapping[str, Callable[[], object]]) -> str:
    """The outcome of several calls, those with the same one together."""
    by_outcome: dict[str, list[str]] = {}
    for name, call in calls.items():
        by_outcome.setdefault(outcome(call), []).append(name)
    if len(by_outcome) == 1 and len(calls) > 3:
        return f"all: {next(iter(by_outcome))}"
    return "; ".join(f"{', '.join(names)}: {found}" for found, names in by_outcome.items())


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["body"] for message in messages]


def with_attempts(messages: list[dict[str, Any]]) -> str:
    """Bodies with the delivery attempt that the SDK shows."""
    return ", ".join(f"{one['body']} ({one['attempt']})" for one in messages)


def in_order(found: list[str]) -> bool:
    """Whether each message group, which is the first letter, is in order."""
    return all((of := [int(body[1:]) for body in found if body[0] == group]) == sorted(of) for group in {body[0] for body in found})

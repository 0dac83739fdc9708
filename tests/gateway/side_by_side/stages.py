"""Where plays happen: a lake behind a gateway, or a RocketMQ that its own admin tool prepares."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from typing import Literal, Protocol

import penstock

from .scene import Group, Play

Where = Literal["earliest", "latest"]


class Stage(Protocol):
    """Makes what plays need."""

    def prepare(self, plays: Sequence[Play], prefix: str, languages: Sequence[str]) -> None: ...

    def reset(self, group: str, topic: str, where: Where) -> None: ...


class LakeStage:
    """A lake that a gateway serves."""

    def __init__(self, lake: penstock.Lake) -> None:
        self._lake = lake

    def prepare(self, plays: Sequence[Play], prefix: str, languages: Sequence[str]) -> None:
        for topic, kind in topics_of(plays, prefix, languages):
            self._lake.create_topic(topic, message_type=penstock.MessageType(kind), queues=1)
        for name, group in groups_of(plays, prefix, languages):
            retry = penstock.RetryPolicy(interval=1)
            self._lake.create_group(name, delivery_order=group.order, max_attempts=group.max_attempts, retry=retry)

    def reset(self, group: str, topic: str, where: Where) -> None:
        self._lake.reset_offsets(group, topic, where)


class AdminStage:
    """A RocketMQ; `command` reads lines of words for mqadmin, one command each."""

    def __init__(self, command: str, options: str) -> None:
        self._command, self._options = shlex.split(command), options

    def prepare(self, plays: Sequence[Play], prefix: str, languages: Sequence[str]) -> None:
        lines = [
            f"updateTopic -c DefaultCluster -t {topic} -r 1 -w 1 -a +message.type={kind}"
            for topic, kind in topics_of(plays, prefix, languages)
        ]
        lines += [
            f"updateSubGroup -c DefaultCluster -g {name} -o {str(group.order == 'ORDERLY').lower()} -r {group.max_attempts - 1}"
            for name, group in groups_of(plays, prefix, languages)
        ]
        self._run(lines)

    def reset(self, group: str, topic: str, where: Where) -> None:
        self._run([f"resetOffsetByTime -g {group} -t {topic} -s {'0' if where == 'earliest' else 'now'}"])

    def _run(self, lines: Sequence[str]) -> None:
        said = "".join(f"{line} {self._options}\n" for line in lines)
        subprocess.run(self._command, input=said, text=True, check=True, stdout=subprocess.DEVNULL)


def topics_of(plays: Sequence[Play], prefix: str, languages: Sequence[str]) -> list[tuple[str, str]]:
    return [
        (f"{prefix}-{play.name}-{language}-{name}", kind)
        for play in plays
        for language in languages
        for name, kind in play.topics.items()
    ]


def groups_of(plays: Sequence[Play], prefix: str, languages: Sequence[str]) -> list[tuple[str, Group]]:
    return [
        (f"{prefix}-{play.name}-{language}-{name}", group)
        for play in plays
        for language in languages
        for name, group in play.groups.items()
    ]

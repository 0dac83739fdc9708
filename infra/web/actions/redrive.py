"""Redrive of dead letters back to their topics."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import cast

from ....aio import Lake
from ....consumers.dead_letters.redrive import RedriveReport, redrive
from ....consumers.dead_letters.writer import origin_of
from ....log import MessageView
from ....log.errors import InvalidArgument
from ...operating.letters import DeadLetterReader, condition, redriven_sentence
from ..views.letters import words
from ..views.page import Breadcrumb, PageContext
from .action import Action, ActionCount, ActionPreview, ActionResult, AffectedRows
from .fields import flag_of

SENT_MAX = 10_000
LOOKED_MAX = 100_000
CHOSEN_MAX = 1000
SAMPLE = 10
_NO_CONDITIONS = ("group", "offset", "until", "only_group")
_COLUMNS = ("offset", "goes to", "message group", "message id", "stored", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSelection:
    """Dead letters of a group: all, matching ones, or those at some offsets."""

    group: str
    topic: str | None = None
    reason: str | None = None
    message_group: str | None = None
    key: str | None = None
    tags: str | None = None
    message_id: str | None = None
    offset: str | None = None
    """Offsets with commas between them."""
    until: int | None = None
    """Only letters before this offset: later ones were not on the page."""
    only_group: str | None = None
    """``yes``: this group alone gets them."""

    @property
    def given(self) -> dict[str, str | None]:
        """The conditions, without empty ones of forms."""
        return {name: value or None for name, value in asdict(self).items() if name not in _NO_CONDITIONS}

    @property
    def is_for_group_alone(self) -> bool:
        """Raises `InvalidArgument`."""
        return flag_of("only_group", self.only_group or None, operation="redrive") or False

    @property
    def offsets(self) -> frozenset[int]:
        """Raises `InvalidArgument`."""
        texts = [one for one in (self.offset or "").split(",") if one]
        if len(texts) > CHOSEN_MAX or not all(one.isascii() and one.isdecimal() and len(one) <= 18 for one in texts):
            raise InvalidArgument(
                "the offsets of dead letters cannot be read",
                operation="redrive",
                object=self.group,
                expected=f"at most {CHOSEN_MAX} whole numbers with commas between them",
                observed=(self.offset or "")[:200],
            )
        return frozenset(map(int, texts))


@dataclass
class _Watched:
    holds: Callable[[MessageView], bool]
    is_settled: Callable[[int], bool]
    group: str
    looked: int = 0
    offsets: list[int] = field(default_factory=list)
    samples: list[tuple[object, ...]] = field(default_factory=list)

    def __call__(self, letter: MessageView) -> bool:
        self.looked += 1
        if self.looked > LOOKED_MAX:
            raise InvalidArgument(
                "these are too many dead letters to look through here",
                operation="redrive",
                object=self.group,
                expected=f"at most {LOOKED_MAX:,}",
                hint=f"use `penstock dlq redrive {shlex.quote(self.group)}`, which goes through any number",
            )
        if not self.holds(letter):
            return False
        if not self.is_settled(letter.offset):
            self.offsets.append(letter.offset)
            if len(self.samples) < SAMPLE:
                self.samples.append(_sample(letter))
        return True


def _sample(letter: MessageView) -> tuple[object, ...]:
    origin = origin_of(letter.properties)
    topic, reason = (None, None) if origin is None else (origin.topic, origin.reason)
    return letter.offset, topic, letter.message_group, letter.message_id, letter.store_timestamp, reason


async def _run(
    context: PageContext, chosen: DeadLetterSelection, *, only: frozenset[int] | None = None
) -> tuple[RedriveReport, _Watched]:
    """Redrive the chosen letters at these offsets; None: only find them."""
    offsets, until, alone = chosen.offsets, chosen.until, chosen.is_for_group_alone
    matches = condition(**chosen.given, offsets=offsets)

    def holds(letter: MessageView) -> bool:
        known = only is None or letter.offset in only
        return known and (until is None or letter.offset < until) and (matches is None or matches(letter))

    async def work(lake: Lake) -> tuple[RedriveReport, _Watched]:
        redrives = (await DeadLetterReader.open(lake, chosen.group)).redrives
        watched = _Watched(holds, lambda offset: offset in redrives.settled, chosen.group)
        report = await redrive(
            lake, chosen.group, limit=SENT_MAX, where=watched, damaged="skip", dry_run=only is None, only_group=alone
        )
        return report, watched

    return await context.using(work)


async def preview(context: PageContext, chosen: DeadLetterSelection) -> ActionPreview:
    report, watched = await _run(context, chosen)
    topics = tuple((name, count) for name, count in sorted(report.topics.items()))
    refused = tuple((reason, count) for reason, count in report.refused.items())
    samples = (
        AffectedRows(title="Where they go", columns=("topic", "messages"), rows=topics),
        AffectedRows(title="Left where they are", columns=("reason", "messages"), rows=refused),
        AffectedRows(title="The first of them", columns=_COLUMNS, rows=tuple(watched.samples)),
    )
    to = f"Group {chosen.group} alone gets them." if chosen.is_for_group_alone else "Every group that reads the topic gets them."
    return ActionPreview(
        summary=f"{redriven_sentence(chosen.group, report, dry_run=True)} {to}",
        stamp=repr((watched.offsets, topics, refused)),
        counts=_counts(report, "would go back"),
        samples=tuple(one for one in samples if one.rows),
        is_nothing=not report.sent,
        meant=frozenset(watched.offsets),
    )


async def do(context: PageContext, chosen: DeadLetterSelection, preview: ActionPreview) -> ActionResult:
    report, _ = await _run(context, chosen, only=cast("frozenset[int]", preview.meant))
    return ActionResult(summary=redriven_sentence(chosen.group, report, dry_run=False), counts=_counts(report, "sent back"))


def _counts(report: RedriveReport, sent: str) -> tuple[ActionCount, ...]:
    refused = sum(report.refused.values())
    counts = (
        (sent, report.sent),
        ("sent back before", report.duplicates),
        ("cannot go back", refused),
        ("not chosen", report.skipped - refused),
    )
    return tuple(ActionCount(name=name, value=value) for name, value in counts)


def _words(chosen: DeadLetterSelection) -> list[str]:
    found = words("redrive", chosen.group, chosen.given)
    for offset in sorted(chosen.offsets):
        found += ["--offset", str(offset)]
    return found + (["--only-group"] if chosen.is_for_group_alone else [])


REDRIVE = Action(
    name="redrive",
    title="Send dead letters back",
    about="Sends dead letters of a group back to the topics that they came from, each once: chosen ones, or all that match.",
    arguments=DeadLetterSelection,
    preview=preview,
    do=do,
    command=_words,
    back=lambda chosen: Breadcrumb(f"Dead letters of {chosen.group}", "letters", {"group": chosen.group}),
)

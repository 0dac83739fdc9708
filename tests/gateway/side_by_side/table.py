"""The outcomes that are kept, and the page of the documents that is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tree import ROOT

from .played import PLAYS

OUTCOMES = Path(__file__).parent / "outcomes.json"
"""By play: what each SDK saw of RocketMQ and of Penstock."""
PAGE = ROOT / "docs" / "rocketmq-side-by-side.md"
WHY = {
    "delay-limits": "a topic says how long its delays may be (40 days unless told otherwise); 24 h is RocketMQ's bound",
    "recall": "what is not waiting any more cannot be called back, and the sender is told so",
    "beside": "RocketMQ's queue waits for all that is out of it; here only the message group does",
    "after-ack": "what is settled cannot be changed, as RocketMQ's own suite demands; its proxy says OK, and nothing happens",
    "ahead": "RocketMQ loses sight of the acknowledgement, and buries A2 with A1. Here A1 alone is given up, and A2 is acknowledged then",
    "wrong-filter": "the refusal says what is wrong with the expression",
    "other-filter": "RocketMQ takes the last member's filter for all, so that others lose messages; here the refusal names both",
    "unknown-group": "RocketMQ makes it CONCURRENT on the fly, and order is lost by a typing error. `--create-groups` allows it",
    "reserved-group": "a group that nobody made is refused first; each SDK checks names in its own way",
}
"""Why what an SDK sees is not the same."""
BEGIN, END = "<!-- outcomes -->\n", "<!-- end of outcomes -->\n"


def outcomes() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
    return found


def kept(where: str, found: dict[str, dict[str, str]]) -> str:
    """outcomes.json with what was seen at ``where``."""
    both = outcomes()
    for name, seen in found.items():
        both.setdefault(name, {})[where] = {**both.get(name, {}).get(where, {}), **seen}
    ordered = {play.name: both[play.name] for play in PLAYS if play.name in both}
    return json.dumps(ordered, indent=1, ensure_ascii=False) + "\n"


def cell(seen: dict[str, str]) -> str:
    """What both SDKs saw, once where it is the same."""
    if len(set(seen.values())) == 1:
        return next(iter(seen.values()))
    return "<br>".join(f"{language.capitalize()}: {found}" for language, found in seen.items())


def table() -> str:
    rows = ["| play | RocketMQ 5.3.3 | Penstock | why |", "| --- | --- | --- | --- |"]
    both = outcomes()
    for play in PLAYS:
        one = both[play.name]
        ours = "**same**" if one["rocketmq"] == one["penstock"] else cell(one["penstock"])
        rows.append(f"| {play.what} | {cell(one['rocketmq'])} | {ours} | {WHY.get(play.name, '')} |")
    return "\n".join(rows) + "\n"


def written() -> str:
    """The page with the table made anew."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"

"""RocketMQ's page, and why what an SDK sees is not the same."""

from __future__ import annotations

from pathlib import Path

from tests.tree import ROOT

from .page import SideBySide
from .played import PLAYS

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
ROCKETMQ = SideBySide(
    peer="rocketmq",
    title="RocketMQ 5.3.3",
    page=ROOT / "docs" / "rocketmq-side-by-side.md",
    kept_in=Path(__file__).parent / "outcomes.json",
    sections={"": PLAYS},
    why=WHY,
)

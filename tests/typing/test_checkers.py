"""mypy and pyright find a newcomer's mistakes, and find no fault with what is right."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

import penstock
from penstock.coordinator.groups import record, retry
from penstock.log.message import message_type, routing_type
from tests.typing.checkers import CHECKERS

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_the_marked_lines_are_found_and_no_others(checker: str, tmp_path: Path) -> None:
    programs = sorted(PROGRAMS.glob("*.py"))
    marked = {
        (program.name, number, line.strip())
        for program in programs
        for number, line in enumerate(program.read_text().splitlines(), 1)
        if line.endswith("  # wrong")
    }
    assert len(marked) > 70
    found = CHECKERS[checker](programs, tmp_path)
    lines = {(one.file.name, one.line, one.file.read_text().splitlines()[one.line - 1].strip()) for one in found}
    assert lines == marked


@pytest.mark.parametrize(
    ("alias", "kind"),
    [
        (record.DeliveryOrderLike, penstock.DeliveryOrder),
        (record.DeadLetterPolicyLike, penstock.DeadLetterPolicy),
        (retry.RetryScheduleLike, penstock.RetrySchedule),
        (message_type.MessageTypeLike, penstock.MessageType),
        (routing_type.RoutingLike, penstock.Routing),
    ],
)
def test_the_words_of_an_alias_are_those_of_its_enumeration(alias: str, kind: type[StrEnum]) -> None:
    assert re.findall(r"'(\w+)'", alias) == [one.value for one in kind]
    assert alias.partition(" | ")[0] == kind.__name__

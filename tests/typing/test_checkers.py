"""mypy and pyright find a newcomer's mistakes, and find no fault with what is right."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

import penstock
from penstock.coordinator.groups import record, retry
from penstock.log.message import message_type, routing_type
from tests.pages import blocks, user_pages
from tests.tree import ROOT
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


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_what_the_documents_and_examples_show_is_right(checker: str, tmp_path: Path) -> None:
    examples = sorted((ROOT / "examples").glob("*.py"))
    shown = [program for page in user_pages() for program in programs_of(page, tmp_path)]
    assert len(shown) > 30
    found = CHECKERS[checker]([*shown, *examples], tmp_path)
    faults = [(one, line) for one in found if not _is_meant(line := one.file.read_text().splitlines()[one.line - 1])]
    assert faults == []


UNTYPED = """\
# mypy: disable-error-code="no-untyped-def,no-untyped-call,var-annotated,possibly-undefined"
# pyright: standard
"""
"""The examples of pages are short, and most have no types of their own."""
MEANT = (
    "listener=forgets",  # it returns None, to show what happens then
    "listener=fails_for_ann",
    "answer = ",  # of several types in turn
    'lake.topic_schema("orders").arrow',  # a topic may have no schema; this one does
    '(change["after"] or change["before"])["id"]',  # JSON
    '.to_dict("records")',  # pandas
    ".rename(columns=",
)
"""Parts of lines that a checker may find fault with."""


def _is_meant(line: str) -> bool:
    return any(part in line for part in MEANT)


def programs_of(page: Path, folder: Path) -> list[Path]:
    """The page's program, and the files that it writes, with each line where the page has it. Pages of tests have one for each block."""
    name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
    ours = [block for block in blocks(page) if block.language == "python" and (block.is_file or not block.title)]
    apart = [block for block in ours if block.is_file or "\ndef test_" in block.code]
    together = [block for block in ours if block not in apart]
    written = []
    for number, program in enumerate([together, *([block] for block in apart)]):
        if program:
            lines = UNTYPED.splitlines()
            for block in program:
                lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
            written.append(folder / f"{name}_{number}.py")
            written[-1].write_text("\n".join(lines) + "\n")
    return written


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

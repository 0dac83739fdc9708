"""The runbook in the troubleshooting page has each alert, with a page of the console, a command that exists, and three causes."""

from __future__ import annotations

import re
import shlex
from typing import Any

import click
import pytest

from penstock.infra.cli import main
from penstock.infra.web.views.pages import PAGES
from tests.infra.deploy.test_files import rules
from tests.tree import ROOT

PAGE = "docs/troubleshooting.md"
SECTION = re.compile(r"^### (Penstock\w+)\n(.*?)(?=^#|^Not here\?)", re.MULTILINE | re.DOTALL)
PLACES = re.compile(r"^Console: `(/[^`]*)`\. Command: `penstock ([^`]+)`\.$", re.MULTILINE)


def sections() -> dict[str, str]:
    return dict(SECTION.findall((ROOT / PAGE).read_text()))


def test_the_page_has_the_alerts_and_no_others_in_their_order() -> None:
    assert list(sections()) == [rule["alert"] for rule in rules()]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_leads_to_its_page_its_command_and_three_causes(rule: dict[str, Any]) -> None:
    name = rule["alert"]
    assert rule["annotations"]["runbook"] == f"{PAGE}#{name.lower()}"
    text = sections()[name]
    ((path, words),) = PLACES.findall(text)
    assert path in {re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), page.path) for page in PAGES}
    check_command(words)
    assert re.findall(r"^(\d)\. ", text, re.MULTILINE) == ["1", "2", "3"]


def test_the_commands_that_causes_name_exist() -> None:
    for words in re.findall(r"`penstock ([^`]+)`", "".join(sections().values())):
        check_command(words)


def check_command(text: str) -> None:
    found: click.Command = main
    context = click.Context(main)
    for word in shlex.split(text):
        if not isinstance(found, click.Group):
            return
        inner = found.get_command(context, word)
        assert inner is not None, f"there is no command penstock {text}"
        found = inner
    assert not isinstance(found, click.Group), f"penstock {text} is a group of commands"

"""Rights of gateways' clients in the console: shown without secrets, granted and revoked."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock import aio
from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.record import AccessRecord
from penstock.coordinator.access.sealing import SealingKeys, new_key
from tests.infra.web.conftest import Browser, Open, fields
from tests.infra.web.test_actions import audited

HOSTILE = "<img/src=x>'\"&"
"""A group's name, which a pattern may hold."""
SECRET = "a-secret-of-forty-characters-or-somewhat-more"


def changed(folder: Path, *, again: bool = False) -> AccessRecord:
    """Principal ann with a role; ``again``: removed, and made anew."""

    async def run() -> AccessRecord:
        async with aio.connect(folder) as lake:
            access = lake.coordination.access.acting("test")
            path = folder.parent / "access.key"
            path.write_text(new_key(b"k" * 32))
            keys = SealingKeys.load(path)
            if again:
                await access.remove("ann")
            else:
                await access.grant("role:readers", [Grant(Verb.RECEIVE, "orders*"), Grant(Verb.JOIN, f"{HOSTILE}*")])
            await access.add("ann", SECRET, keys, roles=["readers"])
            return await access.grant("ann", [Grant(Verb.SEND, "mails")])

    return asyncio.run(run())


@pytest.fixture
def record(folder: Path) -> AccessRecord:
    return changed(folder)


def rights(folder: Path) -> AccessRecord:
    async def run() -> AccessRecord:
        async with aio.connect(folder, read_only=True) as lake:
            return await lake.coordination.access.read()

    return asyncio.run(run())


def asked(browser: Browser, action: str, given: Mapping[str, str], *, status: int = 200) -> str:
    form = browser.form(f"/actions/{action}/form?who=ann")
    answer = browser.client.post(f"/l/lake/actions/{action}/preview", data={**form, **given})
    assert answer.status_code == status, answer.text
    return answer.text


def confirmed(browser: Browser, action: str, page: str, typed: str, *, status: int = 200) -> str:
    answer = browser.client.post(f"/l/lake/actions/{action}", data={**fields(page), "typed": typed})
    assert answer.status_code == status, answer.text
    return html.unescape(answer.text)


def test_a_lake_without_principals_says_so(console: Open) -> None:
    assert "There are no principals" in console().page("/access")


def test_who_may_do_what_is_shown_and_no_secret(console: Open, folder: Path, record: AccessRecord) -> None:
    browser = console()
    page = browser.page("/access")
    assert "<img" not in page
    assert f"{HOSTILE}*" in html.unescape(page)
    sealed = record.principals["ann"].secrets[0]
    for text in (page, str(browser.api("/access"))):
        assert sealed.sealed not in text
        assert SECRET not in text
    ann, readers = browser.api("/access")["found"]["value"]["rows"]
    assert (ann["who"], ann["roles"], readers["who"]) == ("ann", ["readers"], "role:readers")
    assert [(one["verb"], one["pattern"], one["role"]) for one in ann["grants"]] == [
        ("send", "mails", None),
        ("join", f"{HOSTILE}*", "readers"),
        ("receive", "orders*", "readers"),
    ]


def test_rights_are_granted_and_revoked_by_the_typed_name(console: Open, folder: Path, record: AccessRecord) -> None:
    browser = console()
    page = asked(browser, "grant", {"send": "orders\r\nbills*", "manage": "bills*"})
    assert "penstock access grant ann --send orders --send 'bills*' --manage 'bills*'" in html.unescape(page)
    assert "was not typed" in confirmed(browser, "grant", page, "", status=400)
    assert "Granted to ann" in confirmed(browser, "grant", page, "ann")
    assert rights(folder).principals["ann"].grants == {
        Grant(Verb.SEND, "mails"),
        Grant(Verb.SEND, "orders"),
        Grant(Verb.SEND, "bills*"),
        Grant(Verb.MANAGE, "bills*"),
    }
    assert rights(folder).history[-1].by == "console: local"
    confirmed(browser, "grant", page, "ann", status=409)
    page = asked(browser, "revoke", {"send": "bills*", "roles": "readers"})
    confirmed(browser, "revoke", page, "ann")
    assert rights(folder).principals["ann"].roles == frozenset()
    assert [(one["action"], one["state"]) for one in audited(folder)] == [
        ("grant", "began"),
        ("grant", "done"),
        ("revoke", "began"),
        ("revoke", "done"),
    ]


@pytest.mark.parametrize(
    ("action", "given", "said"),
    [
        ("grant", {}, "nothing is named"),
        ("grant", {"who": "bob", "send": "orders"}, "there is no such principal"),
        ("grant", {"send": "or*ders"}, "bad pattern of topics"),
        ("grant", {"roles": "nobodies"}, "no role of this name has any grants"),
        ("grant", {"who": "role:readers", "roles": "readers"}, "a role has grants, and no roles"),
        ("revoke", {"send": "orders"}, "so nothing was revoked"),
    ],
)
def test_what_cannot_be_granted_is_told(
    console: Open, folder: Path, record: AccessRecord, action: str, given: dict[str, str], said: str
) -> None:
    assert said in html.unescape(asked(console(), action, given, status=400))
    assert rights(folder) == record


@pytest.mark.parametrize("anew", [False, True])
def test_rights_that_another_changed_are_shown_again(console: Open, folder: Path, record: AccessRecord, anew: bool) -> None:
    """Also where the principal was removed, and another of its name has the same rights."""
    browser = console()
    page = asked(browser, "grant", {"send": "orders"})
    if anew:
        changed(folder, again=True)
    else:
        confirmed(console(), "revoke", asked(browser, "revoke", {"send": "mails"}), "ann", status=403)  # another session's form
        other = console()
        confirmed(other, "revoke", asked(other, "revoke", {"send": "mails"}), "ann")
    confirmed(browser, "grant", page, "ann", status=409)
    assert Grant(Verb.SEND, "orders") not in rights(folder).principals["ann"].grants

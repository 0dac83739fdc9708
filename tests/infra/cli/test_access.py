"""`penstock access`, on a lake in a folder."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from penstock import aio
from penstock.coordinator.access.sealing import SealingKeys
from tests.infra.cli.conftest import Penstock


@pytest.fixture
def key_file(penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "access.key"
    assert "Keep a copy" in penstock("access", "key", file).err
    monkeypatch.setenv("PENSTOCK_ACCESS_KEY_FILE", str(file))
    return file


def secrets(lake: Path, name: str, key_file: Path) -> list[str]:
    async def main() -> list[str]:
        async with aio.connect(lake) as opened:
            principal = (await opened.coordination.access.read()).principals[name]
        keys = SealingKeys.load(key_file)
        return [keys.open(one, name=name, id=principal.id) for one in principal.secrets]

    return asyncio.run(main())


def test_a_key_file_is_for_its_owner_and_never_replaced(penstock: Penstock, key_file: Path) -> None:
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    before = key_file.read_text()
    assert "File exists" in penstock("access", "key", key_file, code=2).err
    assert key_file.read_text() == before


def test_a_principal_s_life(penstock: Penstock, lake: Path, key_file: Path) -> None:
    penstock("access", "grant", "role:analysts", "--receive", "orders*", "--join", "analysis-*")
    (made,) = penstock("access", "user", "add", "ann", "--role", "analysts", "--json").rows
    assert secrets(lake, "ann", key_file) == [made["secret"]]
    shown = penstock("access", "user", "rotate", "ann")
    assert secrets(lake, "ann", key_file)[0] in shown.out
    assert "is valid until" in shown.err
    (now,) = penstock("access", "user", "rotate", "ann", "--keep", "0s", "--json").rows
    assert secrets(lake, "ann", key_file) == [now["secret"]]
    assert now["former_until"] is None
    said = penstock("access", "grant", "ann", "--send", "orders", "--send", "bills*").out
    assert said == "ann: send topic bills*, send topic orders, role analysts.\n"
    rows = penstock("access", "list", "ann", "--json").rows
    assert [(row["verb"], row["pattern"], row["role"]) for row in rows] == [
        ("send", "bills*", None),
        ("send", "orders", None),
        ("join", "analysis-*", "analysts"),
        ("receive", "orders*", "analysts"),
    ]
    listed = penstock("access", "list").out
    assert listed.splitlines()[0].split() == ["who", "may", "what", "by", "role"]
    assert "role:analysts" in listed
    penstock("access", "revoke", "ann", "--role", "analysts", "--send", "orders")
    assert [row["pattern"] for row in penstock("access", "list", "ann", "--json").rows] == ["bills*"]
    (user,) = penstock("access", "user", "list", "--json").rows
    assert (user["principal"], user["roles"], user["grants"], user["former_until"]) == ("ann", [], 1, None)
    assert "Would remove" in penstock("access", "user", "remove", "ann", "--dry-run").out
    penstock("access", "user", "remove", "ann", "--yes")
    penstock("access", "user", "list", "--exit-code", code=1)


def test_who_changed_what_is_remembered(penstock: Penstock, lake: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No change is remembered." in penstock("access", "history").err
    made = penstock("access", "user", "add", "ann", "--by", "ops", "--json").rows[0]
    monkeypatch.setenv("PENSTOCK_BY", "pipeline 7")
    penstock("access", "grant", "ann", "--send", "orders")
    monkeypatch.delenv("PENSTOCK_BY")
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    monkeypatch.setattr("socket.gethostname", lambda: "desk")
    penstock("access", "user", "remove", "ann", "--yes")
    rows = penstock("access", "history", "ann", "--json").rows
    assert [(row["by"], row["what"], row["who"], row["detail"]) for row in rows] == [
        ("ops", "add", "ann", None),
        ("pipeline 7", "grant", "ann", "send orders"),
        ("root@desk", "remove", "ann", None),
    ]
    shown = penstock("access", "history").out
    assert "pipeline 7" in shown
    assert made["secret"] not in shown
    assert penstock("access", "history", "ben", "--json").rows == []


def test_a_given_secret_is_taken_and_not_shown(penstock: Penstock, lake: Path, key_file: Path) -> None:
    made = penstock("access", "user", "add", "ann", "--secret-file", "-", stdin="correct-horse-battery\n")
    assert secrets(lake, "ann", key_file) == ["correct-horse-battery"]
    assert "correct" not in made.out + made.err
    (rotated,) = penstock("access", "user", "rotate", "ann", "--secret-file", "-", "--json", stdin="another-horse-battery").rows
    assert "secret" not in rotated


def test_secrets_are_sealed_by_the_first_key(penstock: Penstock, lake: Path, key_file: Path, tmp_path: Path) -> None:
    (made,) = penstock("access", "user", "add", "ann", "--json").rows
    penstock("access", "key", tmp_path / "new.key")
    new = (tmp_path / "new.key").read_text()
    key_file.write_text(new + key_file.read_text())
    assert "Sealed 1 secrets by key" in penstock("access", "reseal").out
    assert secrets(lake, "ann", tmp_path / "new.key") == [made["secret"]]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["user", "add", "a,b"], 2, "bad name of a principal"),
        (["user", "add", "ann"], 2, "the principal exists"),
        (["user", "add", "bob", "--role", "none"], 2, "no role of this name has any grants"),
        (["user", "add", "bob", "--secret-file", "-"], 2, "the secret is too short"),
        (["user", "rotate", "bob"], 2, "there is no such principal"),
        (["user", "remove", "bob", "--yes"], 2, "there is no such principal"),
        (["grant", "ann"], 2, "What? Give --send TOPIC"),
        (["grant", "ann", "--send", "a*b"], 2, "bad pattern of topics"),
        (["grant", "bob", "--send", "a"], 2, "there is no such principal"),
        (["revoke", "ann", "--send", "a"], 2, "this was not granted"),
        (["list", "bob"], 2, "there is no such principal"),
        (["user", "list", "--access-key-file", "x"], 2, "No such option"),
    ],
)
def test_wrong_calls(penstock: Penstock, key_file: Path, args: list[str], code: int, said: str) -> None:
    penstock("access", "user", "add", "ann")
    assert said in penstock("access", *args, code=code, stdin="short").err


def test_a_key_file_that_is_none_is_named(penstock: Penstock, tmp_path: Path) -> None:
    assert "PENSTOCK_ACCESS_KEY_FILE" in penstock("access", "user", "add", "ann", code=2).err
    absent = tmp_path / "absent"
    assert "the key file cannot be read" in penstock("access", "user", "add", "ann", "--access-key-file", absent, code=2).err


def test_topics_are_managed_by_a_right_of_its_own(penstock: Penstock) -> None:
    assert penstock("access", "grant", "role:keepers", "--manage", "orders*").out == "role:keepers: manage topic orders*.\n"

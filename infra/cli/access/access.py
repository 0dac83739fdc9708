"""`penstock access`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

from ...operating.grants import grant_rows
from ...operating.times import time_of
from ...terminal import output
from ...terminal.listing import CommandGroup
from ...terminal.session import CommandSession, confirm, confirm_options, exit_code_option, group_options, options
from ...terminal.user import user_at_host
from ...terminal.values import DurationParam
from ..lake.stored_topics import run_async

if TYPE_CHECKING:
    from ....coordinator.access.grants import Grant
    from ....coordinator.access.record import AccessRecord, Principal
    from ....coordinator.access.registry import AccessRegistry
    from ....coordinator.access.sealing import SealingKeys

T = TypeVar("T")

_SECRET_BYTES = 30
"""Makes 40 characters."""


@click.group(cls=CommandGroup)
def command() -> None:
    """The rights of a gateway's clients: principals with secrets, roles, and what they are granted."""


@command.group(cls=CommandGroup)
def user() -> None:
    """Principals, which prove who they are by an access key (their name) and a secret."""


_key_file_option = click.option(
    "--access-key-file",
    "key_file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="PENSTOCK_ACCESS_KEY_FILE",
    show_envvar=True,
    required=True,
    help="The gateways' key file, by which secrets are sealed.",
)

_secret_option = click.option(
    "--secret-file",
    type=click.File(encoding="utf-8"),
    help="Take the secret from this file, or from - (stdin); otherwise a good one is made, and shown once.",
)

_by_option = click.option(
    "--by",
    metavar="NAME",
    envvar="PENSTOCK_BY",
    show_envvar=True,
    help="Who makes this change, for `penstock access history`. Default: the user at this host.",
)

_grant_options = options(
    click.option("--send", multiple=True, metavar="TOPIC", help="Send to topics, also in transactions; recall."),
    click.option("--receive", multiple=True, metavar="TOPIC", help="Receive from topics, in a group that it may join."),
    click.option("--join", multiple=True, metavar="GROUP", help="Work in consumer groups: receive, settle, reset."),
    click.option(
        "--manage", multiple=True, metavar="TOPIC", help="Make and delete topics, and change their settings, by Kafka's clients."
    ),
    click.option("--role", "roles", multiple=True, metavar="ROLE", help="All that a role is granted; for principals."),
)


@command.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def key(file: Path) -> None:
    """Make a key file, which seals secrets. Every gateway and operator of the lake needs the same one.

    The file is never replaced. To change keys put a new line before the old one at all gateways, run `penstock access reseal`, and drop the
    old line then.
    """
    from ....coordinator.access.sealing import KEY_BYTES, new_key

    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be made: {error.strerror}.") from error
    with os.fdopen(opened, "w", encoding="ascii") as made:
        made.write(new_key(secrets.token_bytes(KEY_BYTES)))
    output.note(f"Made {file}. Keep a copy: without it no secret opens again.")


@command.command()
@_key_file_option
@_by_option
@group_options
@click.pass_obj
def reseal(session: CommandSession, key_file: Path, by: str | None) -> None:
    """Seal all secrets by the first key of the key file."""
    keys = _keys(key_file)
    count = _change(session, by, lambda access: access.reseal(keys))
    if session.as_json:
        output.emit({"resealed": count, "key": keys.current})
    else:
        output.say(f"Sealed {count} secrets by key {keys.current}.")


@user.command()
@click.argument("name")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Give it a role; may be repeated.")
@_secret_option
@_key_file_option
@_by_option
@group_options
@click.pass_obj
def add(
    session: CommandSession, name: str, roles: tuple[str, ...], secret_file: TextIO | None, key_file: Path, by: str | None
) -> None:
    """Make a principal. It may do nothing until it is granted something."""
    keys, secret = _keys(key_file), _secret(secret_file)
    _change(session, by, lambda access: access.add(name, secret, keys, roles=roles))
    note = "The secret is the one of the file." if secret_file else "The secret is not shown again."
    _tell_secret(session, name, None if secret_file else secret, note, roles=sorted(roles))


@user.command()
@click.argument("name")
@click.option("--keep", type=DurationParam(), default="1h", show_default=True, help="How long the former secret is valid still.")
@_secret_option
@_key_file_option
@_by_option
@group_options
@click.pass_obj
def rotate(session: CommandSession, name: str, keep: timedelta, secret_file: TextIO | None, key_file: Path, by: str | None) -> None:
    """Give a principal another secret. Gateways take it within seconds, and the former one for a while."""
    keys, secret = _keys(key_file), _secret(secret_file)
    record = _change(session, by, lambda access: access.rotate(name, secret, keys, keep=keep))
    until = [time_of(one.until_ms) for one in record.principal(name).secrets if one.until_ms is not None]
    ends = f"The former one is valid until {output.time_text(max(until))}." if until else "The former one is not valid any more."
    note = ends if secret_file else f"The secret is not shown again. {ends}"
    _tell_secret(session, name, None if secret_file else secret, note, former_until=max(until, default=None))


@user.command()
@click.argument("name")
@confirm_options
@_by_option
@group_options
@click.pass_obj
def remove(session: CommandSession, name: str, yes: bool, dry_run: bool, by: str | None) -> None:
    """Remove a principal. Gateways refuse it within seconds; a later one of its name begins with no rights."""
    found = _run(session, lambda access: access.read(), read_only=True).principal(name)
    if not dry_run:
        confirm(f"Remove principal {name}, with {_counted(len(found.grants), 'grant')}?", yes=yes)
        _change(session, by, lambda access: access.remove(name))
    if session.as_json:
        output.emit({"principal": name, **({"dry_run": True} if dry_run else {}), "removed": not dry_run})
    else:
        output.say(f"Would remove principal {name}." if dry_run else f"Principal {name} is removed.")


@user.command("list")
@group_options
@click.pass_obj
@exit_code_option
def list_users(session: CommandSession) -> bool:
    """List the principals, their roles, and since when their secrets are theirs."""
    record = _run(session, lambda access: access.read(), read_only=True)
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    rows = []
    for name, one in sorted(record.principals.items()):
        former = max((secret.until_ms for secret in one.secrets[1:] if secret.until_ms and secret.valid_at(now_ms)), default=None)
        since, until = time_of(one.secrets[0].since_ms), None if former is None else time_of(former)
        if session.as_json:
            output.emit(
                {
                    "principal": name,
                    "roles": sorted(one.roles),
                    "grants": len(one.grants),
                    "secret_since": since,
                    "former_until": until,
                    "key": one.secrets[0].key,
                }
            )
        rows.append((name, ", ".join(sorted(one.roles)) or None, len(one.grants), since, until))
    if not session.as_json:
        output.table(("access key", "roles", "grants", "secret since", "former one until"), rows)
    return bool(rows)


@command.command()
@click.argument("who", metavar="PRINCIPAL|role:ROLE")
@_grant_options
@_by_option
@group_options
@click.pass_obj
def grant(session: CommandSession, /, who: str, roles: tuple[str, ...], by: str | None, **patterns: tuple[str, ...]) -> None:
    """Allow a principal or a role something. A TOPIC or GROUP is a name, the beginning of names ('orders*'), or '*'.

    A role is made by its first grant. Gateways heed it within seconds.
    """
    grants = _grants(patterns, roles)
    _show(session, who, _change(session, by, lambda access: access.grant(who, grants, roles)))


@command.command()
@click.argument("who", metavar="PRINCIPAL|role:ROLE")
@_grant_options
@_by_option
@group_options
@click.pass_obj
def revoke(session: CommandSession, /, who: str, roles: tuple[str, ...], by: str | None, **patterns: tuple[str, ...]) -> None:
    """Take away what was granted, pattern by pattern. A role without grants is gone."""
    grants = _grants(patterns, roles)
    _show(session, who, _change(session, by, lambda access: access.revoke(who, grants, roles)))


@command.command("list")
@click.argument("who", metavar="[PRINCIPAL|role:ROLE]", required=False)
@group_options
@click.pass_obj
@exit_code_option
def list_grants(session: CommandSession, who: str | None) -> bool:
    """List what principals and roles may do, and by which role."""
    record = _run(session, lambda access: access.read(), read_only=True)
    rows = [row for row in grant_rows(record) if who in (None, row.who)]
    if who is not None and not who.startswith("role:"):
        record.principal(who)
    if session.as_json:
        for one in rows:
            output.emit({"who": one.who, "verb": one.verb, "pattern": one.pattern, "role": one.role})
    elif rows:
        output.table(
            ("who", "may", "what", "by role"), [(one.who, one.verb, f"{one.noun} {one.pattern}", one.role) for one in rows]
        )
    else:
        output.note("Nothing is granted.")
    return bool(rows)


@command.command()
@click.argument("who", metavar="[PRINCIPAL|role:ROLE]", required=False)
@group_options
@click.pass_obj
@exit_code_option
def history(session: CommandSession, who: str | None) -> bool:
    """Show who changed what when, the oldest first: the last 100 changes, also of principals that are gone.

    Names are as they were stated. Gateways write each change into their audit log as well.
    """
    record = _run(session, lambda access: access.read(), read_only=True)
    rows = [one for one in record.history if who in (None, one.who)]
    if session.as_json:
        for one in rows:
            output.emit({"at": time_of(one.at_ms), "by": one.by, "what": one.what, "who": one.who, "detail": one.detail or None})
    elif rows:
        output.table(
            ("at", "by", "what", "whom", "in detail"),
            [(time_of(one.at_ms), one.by, one.what, one.who, one.detail or None) for one in rows],
        )
    else:
        output.note("No change is remembered.")
    return bool(rows)


def _show(session: CommandSession, who: str, record: AccessRecord) -> None:
    principal: Principal | None = record.principals.get(who)
    own = record.roles.get(who.removeprefix("role:"), frozenset()) if principal is None else principal.grants
    roles = [] if principal is None else sorted(principal.roles)
    if session.as_json:
        output.emit({"who": who, "grants": [{"verb": one.verb, "pattern": one.pattern} for one in sorted(own)], "roles": roles})
        return
    has = [f"{one.verb} {one.verb.noun} {one.pattern}" for one in sorted(own)] + [f"role {one}" for one in roles]
    output.say(f"{who}: {', '.join(has) or 'nothing'}.")


def _tell_secret(session: CommandSession, name: str, secret: str | None, note: str, **facts: object) -> None:
    """``secret``: a made one, which is shown once."""
    if session.as_json:
        output.emit({"principal": name, **({} if secret is None else {"secret": secret}), **facts})
        return
    output.say(f"access key  {name}" + ("" if secret is None else f"\nsecret      {secret}"))
    output.note(note)


def _grants(patterns: Mapping[str, tuple[str, ...]], roles: tuple[str, ...]) -> list[Grant]:
    """``patterns``: what is granted, by the verb's name."""
    from ....coordinator.access.grants import Grant, Verb

    grants = [Grant(verb, pattern) for verb in Verb for pattern in patterns[verb]]
    if not grants and not roles:
        raise click.UsageError("What? Give --send TOPIC, --receive TOPIC, --join GROUP, --manage TOPIC or --role ROLE.")
    return grants


def _keys(file: Path) -> SealingKeys:
    from ....coordinator.access.sealing import SealingKeys

    return SealingKeys.load(file)


def _secret(file: TextIO | None) -> str:
    return secrets.token_urlsafe(_SECRET_BYTES) if file is None else file.read().rstrip("\r\n")


def _change(session: CommandSession, by: str | None, work: Callable[[AccessRegistry], Awaitable[T]]) -> T:
    return _run(session, lambda access: work(access.acting(user_at_host() if by is None else by)))


def _run(session: CommandSession, work: Callable[[AccessRegistry], Awaitable[T]], *, read_only: bool = False) -> T:
    return run_async(session, lambda lake: work(lake.coordination.access), read_only=read_only)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"

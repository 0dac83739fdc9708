"""`penstock gateway list`."""

from __future__ import annotations

import click

from ...json_values import json_value
from ...terminal import output
from ...terminal.session import CommandSession, exit_code_option, group_options
from ..lake.stored_topics import run_async


@click.command("list")
@group_options
@click.pass_obj
@exit_code_option
def listed(session: CommandSession) -> bool:
    """List the gateways of the lake, and what their clients say of themselves: language, version, consumer group, topics.

    Gateways behind one address of all (--advertise) keep no list. One that was killed stays listed until another of its protocol has missed it
    for 35 s.
    """
    from ...operating.gateways import gateways_of

    found = run_async(session, gateways_of, read_only=True)
    if session.as_json:
        for one in found:
            output.emit(json_value(one))
        return bool(found)
    rows: list[tuple[object, ...]] = []
    for one in found:
        where = (one.protocol, one.address, "-" if one.signed is None else "yes" if one.signed else "no")
        for kind in one.alike:
            stated = f"{kind.language} {kind.version}".strip() or None
            rows.append(
                (*where, kind.count, kind.kind, stated, kind.group or None, ", ".join(kind.topics) or None, kind.principal or None)
            )
        if one.clients_left_out or not one.alike:
            rows.append((*where, one.clients_left_out, "others" if one.alike else None, None, None, None, None))
    output.table(("protocol", "address", "signed", "clients", "kind", "language", "group", "topics", "principal"), rows)
    return bool(found)

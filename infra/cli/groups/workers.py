"""`penstock workers`."""

from __future__ import annotations

from datetime import timedelta

import click

from ...operating.workers import consumption_text
from ...terminal import output
from ...terminal.session import CommandSession, exit_code_option, group_options
from ...terminal.values import DurationParam


@click.command()
@click.option(
    "--patience",
    type=DurationParam(),
    default="20s",
    show_default=True,
    help="How long to watch those of which it is not known yet; 0s: only look.",
)
@group_options
@click.pass_obj
@exit_code_option
def command(session: CommandSession, patience: timedelta) -> bool:
    """Show the processes that consume, and whether each lives.

    Each is watched until its heart beats, which takes up to a third of its lease, or until its lease has run out. The states are lives: it
    beats; silent: not while it was watched; expired: not for its lease and a quarter more; fenced: others have taken its queues. Processes
    that ended in order are not listed.
    """
    with session.connect(read_only=True) as lake:
        found = lake.workers(watch=patience)
    rows = []
    for one in found:
        heartbeat = one.heartbeat
        assert heartbeat is not None, "those without one are not listed"
        members = [{"member": f"{one.worker}/{m.number}", "group": m.group, "topics": list(m.topics)} for m in heartbeat.members]
        lease = timedelta(milliseconds=heartbeat.lease_ms)
        if session.as_json:
            document: dict[str, object] = {"worker": one.worker, "label": heartbeat.label, "state": one.state.value}
            output.emit({**document, "lease_s": lease, "members": members})
        consumes = ", ".join(map(consumption_text, heartbeat.members))
        rows.append((one.worker, heartbeat.label or None, one.state.value, lease, consumes or None))
    if not session.as_json:
        output.table(("worker", "process", "state", "lease", "consumes"), rows)
    return bool(rows)

"""`penstock top`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from ...console import output
from ...console.session import Session, group_options
from ...console.values import Duration
from .stored import run_async

if TYPE_CHECKING:
    from ....aio import Lake

_INTERVAL_MIN = timedelta(milliseconds=100)


@click.command()
@click.option("--interval", type=Duration(), default="2s", show_default=True, help="The time between two looks.")
@click.option("--count", type=click.IntRange(min=1), help="End after this many looks; default: go on until Ctrl-C.")
@group_options
@click.pass_obj
def command(session: Session, interval: timedelta, count: int | None) -> None:
    """Watch a lake: its topics and consumer groups, what is stored and settled a second, lag, and what is parked.

    Groups with the greatest lag come first. The rates are those since the look before. Looks cost few requests, and write nothing.
    A worker that died is counted among the consumers until top has watched it for its lease and a quarter more, some 6s.
    """
    if interval < _INTERVAL_MIN:
        raise click.UsageError(f"--interval is at least {output.duration_text(_INTERVAL_MIN)}.")
    run_async(session, lambda lake: _watch(session, lake, interval, count), read_only=True)


async def _watch(session: Session, lake: Lake, interval: timedelta, count: int | None) -> None:
    """Look until there were ``count`` looks. An error that may pass is shown, and the next look may succeed."""
    from ....log import RetryError
    from .top_looks import Look, Looks, documents, drawn

    looks = Looks(lake, interval)
    before: Look | None = None
    now = await looks.look()
    done = 1
    with output.refreshed() as draw:
        while True:
            if session.as_json:
                for document in documents(now, before):
                    output.emit(document)
            else:
                draw(drawn(now, before))
            if done == count:
                return
            await asyncio.sleep(interval.total_seconds())
            try:
                before, now = now, await looks.look()
            except RetryError as error:
                output.note(f"{error.message}; trying again")
            done += 1

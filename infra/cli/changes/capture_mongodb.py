"""`penstock capture mongodb`."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

import click

from ...terminal.session import CommandSession
from .capture_engine import EPILOG, PASSWORD, opened_topic, place_text, source_options
from .capture_topic import CaptureOutput, answer, refuse_password

_URL = "PENSTOCK_MONGODB"
_BODY_BYTES = 68 * 1024 * 1024
"""A document has at most 16 MiB, four times as much as JSON text within JSON."""


@click.command(epilog=EPILOG)
@click.argument("url", envvar=_URL, metavar="URL")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="COLLECTION",
    help="A collection; may be repeated. Default: all of the URL's database.",
)
@source_options
def mongodb(
    session: CommandSession,
    /,
    *,
    url: str,
    topic: str,
    tables: tuple[str, ...],
    **chosen: Any,  # noqa: ANN401 - of options
) -> None:
    """Follow a database of a MongoDB into a topic by its change stream, as Debezium envelopes, exactly once.

    URL is mongodb://user@host:27017/database?replicaSet=rs0. The documents that are there come first, then every change, in order by document. A
    table has the columns _id and document, both JSON text. Needs a replica set, and the role read.
    """
    from ....cdc.mongodb import MongoCapture, MongoOptions, MongoServer
    from ....cdc.mongodb.state import MongoStateStore

    refuse_password("url", _has_password(url), f"set {PASSWORD}, or give the whole URL as {_URL}")
    options = MongoOptions(collections=tables, **chosen)
    server = MongoServer(url, password=None if _has_password(url) else os.environ.get(PASSWORD))
    try:
        answer(session, server.check, options)  # before anything is made
        shown = CaptureOutput(session, topic, place_text)
        with (
            session.signals.held(),
            opened_topic(session, topic, options, MongoStateStore, body_bytes=_BODY_BYTES) as resources,
        ):
            shown.during(MongoCapture(server, options, resources).run)
    finally:
        server.close()


def _has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:  # the driver says what is wrong with it
        return False

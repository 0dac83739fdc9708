"""Names of the lake for the shell's TAB: topics, consumer groups, message ids.

Names that take longer than `PATIENCE_S` or fail are left out; the command itself reports the reason.
"""

from __future__ import annotations

import logging
import os
import shlex
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import click
from click.shell_completion import CompletionItem, split_arg_string

from .session import CommandSession

if TYPE_CHECKING:
    from ...log.stores.protocol import ObjectStore

PATIENCE_S = 3.0
NAMES_MAX = 100
"""The most offered names, a request each."""
_TOPICS_LOOKED_AT = 8
_QUEUES_LOOKED_AT = 16
_IDS_OF_A_TOPIC = 50
_ID_COLUMNS = ["store_timestamp", "message_id"]
_OF_OUR_OWN = "%"
"""The first character of Penstock's own topics, offered only after it."""

Names: TypeAlias = list[CompletionItem]
Look: TypeAlias = "Callable[[ObjectStore], Awaitable[Names]]"


def topics(ctx: click.Context, _: click.Parameter, incomplete: str) -> Names:
    """The topics of the lake, for ``shell_complete``."""
    return _looked_up(ctx, _topics_from(incomplete))


def groups(ctx: click.Context, _: click.Parameter, incomplete: str) -> Names:
    """The consumer groups of the lake, for ``shell_complete``."""
    return _looked_up(ctx, _groups_from(_given(ctx, "coordination"), incomplete))


def message_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> Names:
    """Newest ids of the command's topic, its group's dead letters, or some topics, for ``shell_complete``."""
    from ...log.errors import PenstockError
    from ...log.paths import dead_letter_topic

    topic, group = _stated(ctx, "topic"), _stated(ctx, "group")
    if ctx.command_path.startswith("penstock dlq") and group:
        try:
            topic = dead_letter_topic(group)
        except PenstockError:  # no group's name
            return []
    elif ctx.command_path.startswith("penstock timer") and topic:
        topic = f"%TIMER%{topic}"
    return _looked_up(ctx, _message_ids_from(topic, incomplete))


def rejoin_words(words: Sequence[str], cursor: int) -> tuple[list[str], int]:
    """The words of a line as written (bash splits them at ``:`` and ``=`` too), and the number of the word at the cursor."""
    joined: list[str] = []
    glue = False
    at = cursor
    for place, word in enumerate(words):
        splits = word in {":", "="}
        if joined and (splits or glue):
            joined[-1] += word
            at -= place <= cursor
        else:
            joined.append(word)
        glue = splits
    return joined, at


def rejoin_words_of_bash() -> None:
    if os.environ.get("_PENSTOCK_COMPLETE") == "bash_complete":
        line = os.environ.get("COMP_WORDS", "")
        plain = not {"'", '"', "\\"} & {*line}
        words = line.split(" ") if plain else split_arg_string(line)  # a word that is empty yet stands between two blanks
        words, cursor = rejoin_words(words, int(os.environ["COMP_CWORD"]))
        os.environ |= {"COMP_WORDS": shlex.join(words), "COMP_CWORD": str(cursor)}


def _stated(ctx: click.Context, name: str) -> str | None:
    """Where an option waits for its value, click has not named the arguments."""
    found: str | None = ctx.params.get(name)
    first = next((one for one in ctx.command.params if isinstance(one, click.Argument)), None)
    return ctx.args[0] if found is None and ctx.args and first is not None and first.name == name else found


def _given(ctx: click.Context, option: str) -> str | None:
    """The value of ``--lake`` or ``--coordination`` anywhere on the line, else the environment's."""
    found: str | None = ctx.find_root().params.get(option)
    words = split_arg_string(os.environ.get("COMP_WORDS", ""))
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == f"--{option}":
            found = following or found
        elif word.startswith(f"--{option}="):
            found = word.partition("=")[2] or found
    return found


def _quoted(name: str) -> str:
    """The name as one word of the line: zsh and fish quote it themselves."""
    return shlex.quote(name) if os.environ.get("_PENSTOCK_COMPLETE") == "bash_complete" else name


def _looked_up(ctx: click.Context, look: Look) -> Names:
    import asyncio

    from ...log.stores.open import open_store

    url = _given(ctx, "lake")
    if not url:
        return []
    found: Names = []

    async def ask() -> Names:
        store = open_store(url)
        try:
            return await look(store)
        finally:
            await store.close()

    def work() -> None:
        try:
            found.extend(asyncio.run(ask()))
        except Exception:  # noqa: BLE001 - see the top of the page
            return

    thread = threading.Thread(target=work, name="penstock-completion", daemon=True)
    silenced = logging.root.manager.disable
    logging.disable()
    try:
        thread.start()
        thread.join(PATIENCE_S)
    finally:
        logging.disable(silenced)
    if thread.is_alive():
        session = ctx.find_object(CommandSession)
        assert session is not None, "main made it"
        session.abandoned = True
        return []
    return found


# What is imported is imported before the clock runs.


def _topics_from(incomplete: str) -> Look:
    import asyncio

    from ...log.paths import TopicPaths
    from ...log.topic.records import read_record, topic_names

    async def look(store: ObjectStore) -> Names:
        begun = [name for name in await topic_names(store) if name.startswith(incomplete)]
        wanted = [name for name in begun if incomplete or not name.startswith(_OF_OUR_OWN)][:NAMES_MAX]
        records = await asyncio.gather(*(read_record(store, TopicPaths.of(name)) for name in wanted), return_exceptions=True)
        return [
            CompletionItem(_quoted(name), help=f"{record[0].settings.message_type}, {record[0].settings.queues} queues")
            for name, record in zip(wanted, records, strict=True)
            if isinstance(record, tuple) and not record[0].deleted
        ]

    return look


def _groups_from(coordination: str | None, incomplete: str) -> Look:
    import asyncio

    from ...coordinator.cells.cells import Cells
    from ...coordinator.cells.keys import GROUPS
    from ...coordinator.groups.codec import decode_group
    from ...coordinator.tables.open import open_table
    from ...log.paths import group_folder, group_name
    from ...log.runtime.runtime import Runtime

    async def look(store: ObjectStore) -> Names:
        runtime = Runtime()
        table = open_table(coordination, store=store, runtime=runtime)
        try:
            cells = Cells(table, runtime)
            keys = (await cells.keys(GROUPS + (group_folder(incomplete) if incomplete else "")))[:NAMES_MAX]
            found = await asyncio.gather(*map(cells.read, keys))
        finally:
            await table.close()
        records = [(key, decode_group(one.data, where=key)) for key, one in zip(keys, found, strict=True) if one is not None]
        return [
            CompletionItem(_quoted(group_name(key.removeprefix(GROUPS))), help=str(record.settings.delivery_order))
            for key, record in records
            if not record.deleted
        ]

    return look


def _message_ids_from(topic: str | None, incomplete: str) -> Look:
    import pyarrow as pa

    from ...log.lake import LogLake

    pa.array([0])  # Arrow's first conversion imports pandas, where it is installed
    topics_of = _topics_from("")

    async def look(store: ObjectStore) -> Names:
        lake = LogLake(store, read_only=True)
        names = [topic] if topic else [item.value for item in (await topics_of(store))[:_TOPICS_LOOKED_AT]]
        found: list[tuple[datetime, str, str]] = []
        for name in names:
            reader = await lake.reader(name)
            kept = {queue: span for queue, span in (await reader.offsets()).items() if span[1] > span[0]}
            share = _IDS_OF_A_TOPIC // max(1, min(len(kept), _QUEUES_LOOKED_AT))
            for queue, (earliest, following) in islice(kept.items(), _QUEUES_LOOKED_AT):
                start = max(earliest, following - share)
                async for batch in reader.read(queue=queue, start=start, columns=_ID_COLUMNS, damaged="skip"):
                    rows = batch.select(_ID_COLUMNS).to_pylist()
                    found += [(row["store_timestamp"], row["message_id"], name) for row in rows]
        newest = sorted({one for one in found if one[1].startswith(incomplete)}, reverse=True)
        return [CompletionItem(message_id, help=name) for _, message_id, name in newest[:NAMES_MAX]]

    return look

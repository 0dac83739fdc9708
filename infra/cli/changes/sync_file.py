"""The file of `penstock sync --config`: its settings, and the options of single tables, checked before anything is done.

into = "s3://bucket/tables"
tables = ["sales.*", "crm.customers"]

[rename]
"crm.customers" = "customers"

[table."sales.*"]
masks = { email = "sha256" }
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click

from ....cdc.choice.option_types import Period, Whole
from ....cdc.choice.tables import TableOptions
from ....cdc.target import TableDeclarations
from ....log.errors import InvalidArgument
from .sync_options import SETTINGS

_RENAME, _TABLE = "rename", "table"


@dataclass(frozen=True)
class SyncFile:
    """The content of a file."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The command's values, by its own names of them."""
    rename: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The options of tables, by name or pattern and by the options' names in `TableOptions`."""


def read_file(path: Path, params: Iterable[click.Parameter]) -> SyncFile:
    """Read a file. ``params``: the options of the command. Raises `InvalidArgument` with the line and the option."""
    try:
        text = path.read_text("utf-8")
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument("the file is no TOML", operation="sync", object=str(path), observed=str(error)) from error
    return _Reader(path, text, {param.name or "": param for param in params}).read(found)


class _Reader:
    def __init__(self, path: Path, text: str, params: Mapping[str, click.Parameter]) -> None:
        self._path, self._lines, self._params = path, text.splitlines(), params

    def read(self, found: Mapping[str, Any]) -> SyncFile:
        for name in found:
            self._check_known("setting", name, [*SETTINGS, _RENAME, _TABLE], [])
        return SyncFile(
            {name: self._setting(name, value) for name, value in found.items() if name in SETTINGS},
            self._rename(found.get(_RENAME, {})),
            self._tables(found.get(_TABLE, {})),
        )

    def _setting(self, name: str, value: object) -> object:
        type_, param = SETTINGS[name], self._params[name]
        if isinstance(value, str) and isinstance(type_, Period | Whole):  # as on the command line: 7d, 64MiB
            try:
                return param.type.convert(value, param, None)
            except click.UsageError as error:
                raise self._wrong(f"bad {name}", [name], expected=error.message, observed=value) from error
        if isinstance(type_, Period) or not type_.accepts(value):
            raise self._wrong(f"bad {name}", [name], expected=type_.expected, observed=value)
        return (["all"] if value else []) if name == "history" and isinstance(value, bool) else value

    def _rename(self, found: object) -> Mapping[str, str]:
        if not isinstance(found, dict) or not all(isinstance(target, str) for target in found.values()):
            raise self._wrong(f"bad {_RENAME}", [_RENAME], expected="names of targets by table", observed=found, hint=_QUOTED)
        for table, target in found.items():
            self._checked([_RENAME, table], table, {"target": target})
        return found

    def _tables(self, found: object) -> Mapping[str, Mapping[str, Any]]:
        if not isinstance(found, dict):
            raise self._wrong(f"bad {_TABLE}", [_TABLE], expected=f'sections such as [{_TABLE}."sales.orders"]', observed=found)
        for table, options in found.items():
            if not isinstance(options, dict):
                raise self._wrong(
                    f"bad {_TABLE}", [_TABLE, table], expected=f'sections such as [{_TABLE}."{table}"]', observed=options
                )
            for option, value in options.items():
                hint = _QUOTED if isinstance(value, dict) else None
                self._check_known("option of a table", option, _OPTIONS, [_TABLE, table], hint=hint)
                self._checked([_TABLE, table, option], table, {option: value})
            self._checked([_TABLE, table], table, options)
        return found

    def _checked(self, keys: Sequence[str], table: str, options: Mapping[str, Any]) -> None:
        try:
            TableOptions(**options).checked(table)
            TableDeclarations.of({table: options.get("columns", {})}, None)
        except InvalidArgument as error:
            raise self._wrong(error.message, keys, expected=error.expected, observed=error.observed, hint=error.hint) from error

    def _check_known(self, what: str, name: str, known: Sequence[str], keys: Sequence[str], *, hint: str | None = None) -> None:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise self._wrong(
                f"there is no such {what}",
                [*keys, name],
                expected=", ".join(known),
                observed=name,
                hint=f"did you mean {near[0]}?" if near else hint,
            )

    def _wrong(
        self, message: str, keys: Sequence[str], *, expected: object, observed: object, hint: str | None = None
    ) -> InvalidArgument:
        where = f"{self._path}, line {self._line(keys)}: {'.'.join(keys)}"
        shown = observed if isinstance(observed, str) or observed is None else repr(observed)
        return InvalidArgument(message, operation="sync", object=where, expected=expected, observed=shown, hint=hint)

    def _line(self, keys: Sequence[str]) -> int:
        """Each key is searched from the line of the one before."""
        number = 0
        for key in keys:
            word = re.compile(rf"(?<![\w*-]){re.escape(key)}(?![\w*-])")
            number = next((at for at in range(number, len(self._lines)) if word.search(self._lines[at].partition("#")[0])), number)
        return number + 1


_OPTIONS = [one.name for one in fields(TableOptions)]
_QUOTED = f'a name with a dot, or a pattern, stands in quotes: [{_TABLE}."sales.orders"]'

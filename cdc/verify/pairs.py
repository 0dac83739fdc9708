"""The pairs of a dump and the target that it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ...log.errors import InvalidArgument
from .dump_format import DumpFormat
from .dumps import Dump, Opener

_ENDS = {"csv": DumpFormat.CSV, "jsonl": DumpFormat.JSONL, "ndjson": DumpFormat.JSONL, "parquet": DumpFormat.PARQUET}
_FORMATS = "<table>.csv, .jsonl or .parquet, each also with .gz"


class DumpOptions(NamedTuple):
    """How dumps are read."""

    open: Opener
    format: DumpFormat | None = None
    null: str = ""


def find_dumps(source: str, options: DumpOptions) -> list[Dump]:
    """The dumps of a file, a URL, or a folder on this machine, where each file or folder of files is a table.

    Raises `InvalidArgument` without any, or for a file's name without a format.
    """
    if "://" in source or not Path(source).expanduser().is_dir():
        return [_dump(table_of(source), [source], options)]
    folder = Path(source).expanduser()
    visible = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    dumps = []
    for path in visible:
        if path.is_dir():
            parts = [part for part in sorted(path.iterdir()) if not part.name.startswith((".", "_")) and _known(part.name)]
            if parts:
                dumps.append(_dump(table_of(path.name), [str(part) for part in parts], options))
        elif _known(path.name):
            dumps.append(_dump(table_of(path.name), [str(path)], options))
    if not dumps:
        raise InvalidArgument("there is nothing to compare with", operation="compare", object=source, expected=_FORMATS)
    return dumps


def table_of(source: str) -> str:
    """The name of a file without the endings of its format."""
    name = PurePosixPath(unquote(urlsplit(source).path) if "://" in source else source).name
    plain = name.removesuffix(".gz")
    stem, _, end = plain.rpartition(".")
    return stem if stem and end.lower() in _ENDS else plain


def keys_of(given: Iterable[str]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Keys are ``a`` and ``a,b`` for every table, ``orders=id,line`` for one. Raises `InvalidArgument`."""
    of_all: list[str] = []
    by_table: dict[str, tuple[str, ...]] = {}
    for one in given:
        table, is_one, names = one.rpartition("=")
        columns = tuple(name.strip() for name in names.split(","))
        if not all(columns) or (is_one and not table):
            raise InvalidArgument("not a key", operation="compare", expected="COLUMN[,COLUMN…] or TABLE=COLUMN[,…]", observed=one)
        if is_one:
            by_table[table] = (*by_table.get(table, ()), *columns)
        else:
            of_all += columns
    return tuple(of_all), by_table


def _known(name: str) -> bool:
    return name.lower().removesuffix(".gz").rpartition(".")[2] in _ENDS


def _dump(table: str, files: Sequence[str], options: DumpOptions) -> Dump:
    found = options.format
    if found is None:
        kinds = {
            _ENDS.get(PurePosixPath(urlsplit(file).path).name.lower().removesuffix(".gz").rpartition(".")[2]) for file in files
        }
        known = kinds.pop() if len(kinds) == 1 else None
        if known is None:
            raise InvalidArgument(
                "the dump's name does not say what it holds",
                operation="compare",
                object=files[0] if len(files) == 1 else table,
                expected=_FORMATS,
                hint="say it with --format",
            )
        found = known
    return Dump(table, files, found, options.open, options.null)

"""The lakes of a console: one of the command line, or several of a file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ....aio import Lake, connect
from ....log.errors import InvalidArgument, PenstockError
from ....log.runtime.runtime import Runtime
from ....log.stores import open_store
from ....log.stores.counting import CountingStore
from .source import LakeSource

DEFAULT_NAME = "lake"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_REFRESH_NEAR, _REFRESH_FAR = timedelta(seconds=2), timedelta(seconds=60)


class LakeNotServed(PenstockError):
    """An unknown lake."""

    kind = "lake_not_served"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOptions:
    """One lake to serve."""

    name: str
    url: str
    coordination: str | None = None
    refresh: timedelta | None = None
    """The time of a look. None: 2 s for folders and memory, 60 s for stores that count requests."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidArgument(
                "a lake's name is part of its pages' URLs",
                operation="console",
                object=self.name,
                expected="1 to 40 letters, digits, '_' and '-', the first a letter or digit",
            )
        if self.refresh is not None and not timedelta(milliseconds=100) <= self.refresh <= timedelta(hours=1):
            raise InvalidArgument(
                "refresh is out of range", operation="console", object=self.name, expected="100ms to 1h", observed=self.refresh
            )

    @property
    def looks_kept(self) -> timedelta:
        if self.refresh is not None:
            return self.refresh
        return _REFRESH_FAR if self.is_far else _REFRESH_NEAR

    @property
    def is_far(self) -> bool:
        """Whether the store counts requests."""
        return "://" in self.url and not self.url.startswith(("file://", "memory://"))

    @property
    def is_thrifty(self) -> bool:
        """Whether open pages look less often where a look costs more."""
        return self.is_far and self.refresh is None


def lakes_of_file(path: Path, *, refresh: timedelta | None = None) -> tuple[LakeOptions, ...]:
    """The lakes of a TOML file: a table ``[lakes.NAME]`` each, with ``url`` and optionally ``coordination``. Raises `InvalidArgument`."""
    try:
        read = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidArgument(
            "the file of lakes cannot be read", operation="console", object=str(path), observed=str(error)
        ) from error
    tables = read.get("lakes")
    if not isinstance(tables, dict) or not tables or read.keys() != {"lakes"}:
        raise InvalidArgument(
            "the file names no lakes",
            operation="console",
            object=str(path),
            expected='tables such as [lakes.shop] with url = "s3://bucket/prefix", and nothing else',
        )
    return tuple(_lake_of_table(path, name, table, refresh) for name, table in tables.items())


def _lake_of_table(path: Path, name: str, table: object, refresh: timedelta | None) -> LakeOptions:
    known = {"url", "coordination"}
    if (
        not isinstance(table, dict)
        or "url" not in table
        or table.keys() - known
        or not all(isinstance(one, str) for one in table.values())
    ):
        raise InvalidArgument(
            "a lake of the file is described otherwise",
            operation="console",
            object=f"{path}: lakes.{name}",
            expected="url, and perhaps coordination, as texts",
            observed=table,
        )
    return LakeOptions(name=name, url=table["url"], coordination=table.get("coordination"), refresh=refresh)


class ServedLakes:
    """The lakes by name."""

    def __init__(self, sources: Sequence[LakeSource]) -> None:
        self._sources: Mapping[str, LakeSource] = {one.name: one for one in sources}

    @staticmethod
    def of(options: Sequence[LakeOptions], runtime: Runtime, *, read_only: bool) -> ServedLakes:
        def source(one: LakeOptions) -> LakeSource:
            def open_it() -> Lake:
                store = CountingStore(open_store(one.url, runtime=runtime))
                return connect(store=store, runtime=runtime, read_only=read_only, coordination=one.coordination, maintenance=False)

            return LakeSource(
                one.name, open_it, runtime, one.looks_kept, one.coordination, is_far=one.is_far, is_thrifty=one.is_thrifty
            )

        return ServedLakes([source(one) for one in options])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._sources)

    def __getitem__(self, name: str) -> LakeSource:
        try:
            return self._sources[name]
        except KeyError:
            raise LakeNotServed(
                "this console serves no such lake", operation="console", object=name, expected=", ".join(self._sources)
            ) from None

    async def close(self) -> None:
        for one in self._sources.values():
            await one.close()

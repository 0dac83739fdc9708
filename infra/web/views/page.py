"""The seam of the pages, each one value of `PageDefinition`.

To add a page: write a module with a frozen dataclass, an asynchronous function that gathers it, and a `PageDefinition`; name it in `pages.py`, and
write `templates/NAME.html`. Its HTML, its JSON below ``/api``, its part of the OpenAPI document and its live values follow. A file to keep is a
`Download` there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ....log.errors import InvalidArgument, PenstockError
from ....log.message.message import from_ms
from ..faults import PagePart, page_part
from ..json_schemas import Json
from ..lakes.source import LakeSource

if TYPE_CHECKING:
    from ....aio import Lake

T = TypeVar("T")

TEXT_CHARS_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParameter:
    """A parameter of a page's query, and its bounds."""

    name: str
    help: str
    kind: type[str | int] = str
    default: str | int | None = None
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    example: str | None = None

    @property
    def schema(self) -> Json:
        """The JSON schema of its values."""
        schema: Json = {"type": "integer" if self.kind is int else "string"}
        schema |= {} if self.default is None else {"default": self.default}
        schema |= {} if self.least is None else {"minimum": self.least}
        schema |= {} if self.most is None else {"maximum": self.most}
        return schema | ({"enum": list(self.choices)} if self.choices else {})

    def parsed(self, text: str | None) -> str | int | None:
        """The value of a text. An empty one is the default. Raises `InvalidArgument`."""
        if text is None or text == "":
            return self.default
        if self.kind is str:
            if len(text) > TEXT_CHARS_MAX or (self.choices and text not in self.choices):
                raise self._bad(", ".join(self.choices) or f"at most {TEXT_CHARS_MAX} characters", text[:200])
            return text
        least, most = self.least or 0, 2**63 - 1 if self.most is None else self.most
        if not re.fullmatch(r"-?\d{1,19}", text, re.ASCII) or not least <= int(text) <= most:
            raise self._bad(f"a whole number, {least} to {most}", text[:200])
        return int(text)

    def _bad(self, expected: str, observed: str) -> InvalidArgument:
        return InvalidArgument(
            "a parameter is out of range", operation="show a page", object=self.name, expected=expected, observed=observed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request's path and query."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str | int | None] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.path[name]

    def text(self, name: str) -> str | None:
        value = self.query.get(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> int:
        value = self.query[name]
        assert isinstance(value, int), "the page declares it as a number with a default"
        return value

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of a request."""
        return (*sorted(self.path.items()), *sorted(self.query.items(), key=lambda item: item[0]))


@dataclass(frozen=True, slots=True)
class PageContext:
    """The context of a page's gathering: one lake, and this moment."""

    source: LakeSource
    who: str = ""
    """The actor; empty: it is a look."""

    @property
    def now(self) -> datetime:
        return from_ms(self.source.runtime.clock.wall_ms())

    async def part(self, work: Callable[[Lake], Awaitable[T]], *, fatal: tuple[type[PenstockError], ...] = ()) -> PagePart[T]:
        """A part that may fail alone, but for ``fatal`` errors: those are the page's."""
        return await page_part(self.source.using(work), fatal=fatal)

    async def using(self, work: Callable[[Lake], Awaitable[T]]) -> T:
        """An indispensable part: its error is the page's."""
        return await self.source.using(work)


@dataclass(frozen=True, slots=True)
class Breadcrumb:
    """A step of the way to a page; None: no link."""

    label: str
    page: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def _nothing_live(shown: Any) -> Mapping[str, object]:  # noqa: ANN401 - of any page
    return {}


@dataclass(frozen=True, kw_only=True)
class LakeResource:
    """A part of a lake with a URL."""

    name: str
    """The name for `url`, the OpenAPI document, and the template without ``.html``."""
    path: str
    """The path below ``/l/{lake}``, such as ``/topics/{topic}``."""
    about: str
    """A sentence for the OpenAPI document and programs."""
    parameters: tuple[QueryParameter, ...] = ()

    @property
    def defaults(self) -> dict[str, str | int | None]:
        """What parameters are that a query does not give."""
        return {one.name: one.default for one in self.parameters}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(re.findall(r"\{(\w+)(?::path)?\}", self.path))

    def parse_request(self, path: Mapping[str, str], query: Mapping[str, str]) -> PageRequest:
        """A request with its parameters checked. Raises `InvalidArgument`."""
        known = {one.name for one in self.parameters}
        if unknown := query.keys() - known:
            raise InvalidArgument(
                "the page has no such parameter",
                operation="show a page",
                object=self.name,
                expected=", ".join(sorted(known)) or "none",
                observed=", ".join(sorted(unknown))[:200],
            )
        names = {name: path[name] for name in self.names}
        return PageRequest(path=names, query={one.name: one.parsed(query.get(one.name)) for one in self.parameters})


@dataclass(frozen=True, slots=True)
class DownloadContent:
    """A file's content."""

    name: str
    data: bytes | AsyncIterator[bytes]
    """All, or in parts if large."""


@dataclass(frozen=True, kw_only=True)
class Download(LakeResource):
    """A file of a lake, below ``/files``, which no browser shows as a page."""

    gather: Callable[[PageContext, PageRequest], Awaitable[DownloadContent]]


@dataclass(frozen=True, kw_only=True)
class PageDefinition(LakeResource, Generic[T]):
    """A page of a lake."""

    title: str
    """A format with names of the path."""
    shows: type[T]
    gather: Callable[[PageContext, PageRequest], Awaitable[T]]
    """Parts that may fail alone are `PagePart`s; a raised error is the whole page's."""
    command: Callable[[PageRequest], Sequence[str]]
    """The same as words behind ``penstock``."""
    menu: str | None = None
    """None: not in the menu."""
    crumbs: Callable[[PageRequest], Sequence[Breadcrumb]] = lambda request: ()
    """The pages between the overview and it."""
    live: Callable[[T], Mapping[str, object]] = _nothing_live
    """Live values by key: the template shows them by ``live(key)``."""
    answer: Callable[[T], PagePart[Any] | None] = lambda shown: None
    """The part that answers the query. Its fault is on the page, and an error for programs."""
    begin: Callable[[PageContext, PageRequest], Awaitable[None]] | None = None
    """Costly work that an operator begins by a form; a link begins nothing."""
    is_kept: bool = True
    """Whether equal requests within a moment share a look; False for large ones."""

    async def shown(self, context: PageContext, request: PageRequest) -> T:
        async def make() -> T:
            return await self.gather(context, request)

        return await context.source.cached((self.name, request.key), make) if self.is_kept else await make()

    async def answer_for_programs(self, context: PageContext, request: PageRequest) -> T:
        """The content, or the error of its answer."""
        shown = await self.shown(context, request)
        if (answer := self.answer(shown)) is not None:
            answer.check_answer()
        return shown

    def title_of(self, request: PageRequest) -> str:
        return self.title.format_map(request.path)


def shell_line(source: LakeSource, words: Sequence[str]) -> str:
    coordination = [] if source.coordination is None else ["--coordination", source.coordination]
    return shlex.join(["penstock", *words, "--lake", source.shown, *coordination])


PAGE_ROWS = 50

FILTER = QueryParameter(name="filter", help="Only names that hold this text.")
NUMBER = QueryParameter(name="page", help="The number of the page, from 1.", kind=int, default=1, least=1, most=1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pagination:
    """The place of a page's rows among all."""

    page: int
    pages: int
    first: int
    """The first row's number, from 1; 0: there is none."""
    last: int
    total: int

    @staticmethod
    def of(total: int, page: int, *, rows: int = PAGE_ROWS) -> Pagination:
        """Too great a number means the last page."""
        pages = max(1, -(-total // rows))
        page = min(page, pages)
        return Pagination(
            page=page, pages=pages, first=min(total, (page - 1) * rows + 1), last=min(total, page * rows), total=total
        )

    @property
    def slice(self) -> slice:
        return slice(max(0, self.first - 1), self.last)

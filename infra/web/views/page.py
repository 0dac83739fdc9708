"""The seam of the pages. A page is one value of `PageDefinition`: its place, what it shows as a dataclass, who gathers that, and the template.

To add a page: write a module with a frozen dataclass, an asynchronous function that gathers it, and a `PageDefinition`. Name it in `pages.py`, and
write `templates/NAME.html`. Its HTML, its JSON below ``/api``, its part of the OpenAPI document and its live values follow.
A file to keep is a `Download` there.
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
from ..faults import PagePart, part
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
    """What a field of a form shows until somebody types."""

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
    """What a viewer asks a page for: the names in its path, and the parameters of its query."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str | int | None] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        """A name of the path."""
        return self.path[name]

    def text(self, name: str) -> str | None:
        value = self.query.get(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> int:
        """A parameter with a default."""
        value = self.query[name]
        assert isinstance(value, int), "the page declares it as a number with a default"
        return value

    @property
    def key(self) -> tuple[object, ...]:
        """What tells two requests for a page apart."""
        return (*sorted(self.path.items()), *sorted(self.query.items(), key=lambda item: item[0]))


@dataclass(frozen=True, slots=True)
class PageContext:
    """What a page's gatherer works with: one lake, and this moment."""

    source: LakeSource

    @property
    def now(self) -> datetime:
        return from_ms(self.source.runtime.clock.wall_ms())

    async def part(self, work: Callable[[Lake], Awaitable[T]], *, fatal: tuple[type[PenstockError], ...] = ()) -> PagePart[T]:
        """A part of a page that may fail alone, but for ``fatal`` errors, which are the page's: what it is about is not there."""
        return await part(self.source.using(work), fatal=fatal)

    async def using(self, work: Callable[[Lake], Awaitable[T]]) -> T:
        """What the whole page needs: its error is the page's."""
        return await self.source.using(work)


@dataclass(frozen=True, slots=True)
class Breadcrumb:
    """A step of the way to a page: its label, and the page with its names; None: no link."""

    label: str
    page: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)


def _nothing_live(shown: Any) -> Mapping[str, object]:  # noqa: ANN401 - of any page
    return {}


@dataclass(frozen=True, kw_only=True)
class LakeResource:
    """Something of a lake that has a URL."""

    name: str
    """The name for `url`, in the OpenAPI document, and of a page's template without ``.html``."""
    path: str
    """The path below ``/l/{lake}``, such as ``/topics/{topic}``."""
    about: str
    """A sentence on what it shows, for the OpenAPI document and other programs."""
    parameters: tuple[QueryParameter, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(re.findall(r"\{(\w+)(?::path)?\}", self.path))

    def asked(self, path: Mapping[str, str], query: Mapping[str, str]) -> PageRequest:
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
    """A file for the viewer to keep."""

    name: str
    data: bytes | AsyncIterator[bytes]
    """All of it, or part by part where it may be large."""


@dataclass(frozen=True, kw_only=True)
class Download(LakeResource):
    """A file of a lake, below ``/files``. No browser shows it as a page."""

    gather: Callable[[PageContext, PageRequest], Awaitable[DownloadContent]]


@dataclass(frozen=True, kw_only=True)
class PageDefinition(LakeResource, Generic[T]):
    """A page of a lake."""

    title: str
    """The title; names of the path may stand in it."""
    shows: type[T]
    gather: Callable[[PageContext, PageRequest], Awaitable[T]]
    """Gathers what it shows. Parts that may fail alone are `PagePart`s; an error that is raised is the whole page's."""
    command: Callable[[PageRequest], Sequence[str]]
    """The words behind ``penstock`` that show the same in a shell."""
    menu: str | None = None
    """The label in the menu; None: it is not in the menu."""
    crumbs: Callable[[PageRequest], Sequence[Breadcrumb]] = lambda asked: ()
    """The pages above it, below the overview."""
    live: Callable[[T], Mapping[str, object]] = _nothing_live
    """The values that change while a viewer watches, by the key of their place: the template shows them by ``live(key)``."""
    answer: Callable[[T], PagePart[Any] | None] = lambda shown: None
    """The part that answers what the query asks for. People see its fault on the page, with what they asked; programs get an error."""
    begin: Callable[[PageContext, PageRequest], Awaitable[None]] | None = None
    """Costly work that an operator may begin from the page, by a form: a link that somebody follows begins nothing."""
    is_kept: bool = True
    """Whether a look is shared with who asks for the same within a moment. Not for what is large."""

    async def shown(self, scene: PageContext, asked: PageRequest) -> T:
        """What the page shows now, shared with others who ask the same."""

        async def make() -> T:
            return await self.gather(scene, asked)

        return await scene.source.cached((self.name, asked.key), make) if self.is_kept else await make()

    async def answer_for_programs(self, scene: PageContext, asked: PageRequest) -> T:
        """What programs get: the same, or the error of an answer to what cannot be asked."""
        shown = await self.shown(scene, asked)
        if (answer := self.answer(shown)) is not None:
            answer.check_asked()
        return shown

    def title_of(self, asked: PageRequest) -> str:
        return self.title.format_map(asked.path)


def shell_line(source: LakeSource, words: Sequence[str]) -> str:
    """A command for a shell, with the lake that it is about."""
    coordination = [] if source.coordination is None else ["--coordination", source.coordination]
    return shlex.join(["penstock", *words, "--lake", source.shown, *coordination])


PAGE_ROWS = 50

FILTER = QueryParameter(name="filter", help="Only names that hold this text.")
NUMBER = QueryParameter(name="page", help="The number of the page, from 1.", kind=int, default=1, least=1, most=1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pagination:
    """Where a page's rows are among all."""

    page: int
    pages: int
    first: int
    """The number of the first row, from 1; 0: there is none."""
    last: int
    total: int

    @staticmethod
    def of(total: int, page: int, *, rows: int = PAGE_ROWS) -> Pagination:
        """The rows of a page; a number behind the last page means the last."""
        pages = max(1, -(-total // rows))
        page = min(page, pages)
        return Pagination(
            page=page, pages=pages, first=min(total, (page - 1) * rows + 1), last=min(total, page * rows), total=total
        )

    @property
    def slice(self) -> slice:
        return slice(max(0, self.first - 1), self.last)

"""The cell that names the table's lake: two lakes in one table would mix up their consumer groups."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from ...log.format.stored_json import StoredForm, parse_stored
from ...log.runtime.runtime import Runtime
from ..tables import TableMismatch
from .cells import Cells
from .document import Codec, Document

KEY = "lake"


class _Form(StoredForm, frozen=True):
    lake: str


def _encode(lake: str | None) -> bytes:
    return json.dumps({"lake": lake}).encode()


def _decode(data: bytes, *, where: str) -> str | None:
    return parse_stored(data, _Form, what="the name of a lake", where=where).lake


class LakeCell:
    """The name, in a table outside of the lake, of the table's lake, as two lakes would mix up their groups; written with the first group.

    ``lake=None``: the table lies in the lake, and nothing is written or read.
    """

    def __init__(self, cells: Cells, runtime: Runtime, lake: str | None) -> None:
        self._cells = cells
        self._clock = runtime.clock
        self._lake = None if lake is None else lake_name(lake)
        self._agreed = lake is None

    async def check(self) -> None:
        """Raise `TableMismatch` when the table is another lake's."""
        if not self._agreed:
            self._compare(await self._name().read())

    async def claim(self) -> None:
        """`check`, and make an unclaimed table this lake's."""
        if not self._agreed:
            self._compare(await self._name().change(lambda owner: self._lake if owner is None else owner))

    def _name(self) -> Document[str | None]:
        return Document(self._cells, self._clock, KEY, Codec(_encode, _decode), absent=None)

    def _compare(self, owner: str | None) -> None:
        if owner is None:
            return
        if owner != self._lake:
            raise TableMismatch(
                "the coordination table is another lake's",
                operation="coordinate",
                object=self._cells.url,
                expected=self._lake,
                observed=owner,
                hint="give each lake a prefix or a file of its own (dynamodb://table/prefix); if this is that lake, and was moved, delete "
                f"the cell {KEY!r}",
            )
        self._agreed = True


def lake_name(url: str) -> str:
    """The URL without its opener's options."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"

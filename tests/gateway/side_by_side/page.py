"""What was seen of a peer and of Penstock: the outcomes that are kept, and the page of the documents that is made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

Seen: TypeAlias = str | dict[str, str]
"""What was seen in a play; by client, where several play it."""
BEGIN, END = "<!-- outcomes -->\n", "<!-- end of outcomes -->\n"


class Case(Protocol):
    """A play as the page shows it."""

    @property
    def name(self) -> str: ...
    @property
    def what(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """A page, and what it is made of."""

    peer: str
    """The key of its outcomes."""
    title: str
    page: Path
    kept_in: Path
    """By play: what was seen of the peer and of Penstock."""
    sections: Mapping[str, Sequence[Case]]
    """The plays by headings; a single section needs none."""
    why: Mapping[str, str]
    """The reasons why what is seen is not the same, by play."""

    @property
    def plays(self) -> list[Case]:
        return [play for plays in self.sections.values() for play in plays]

    def outcomes(self) -> dict[str, dict[str, Seen]]:
        found: dict[str, dict[str, Seen]] = json.loads(self.kept_in.read_text()) if self.kept_in.exists() else {}
        return found

    def differing(self) -> set[str]:
        return {name for name, one in self.outcomes().items() if one[self.peer] != one["penstock"]}

    def kept(self, where: str, found: Mapping[str, Seen]) -> str:
        """The outcomes with what was seen at ``where``."""
        both = self.outcomes()
        for name, seen in found.items():
            before = both.setdefault(name, {}).get(where)
            both[name][where] = {**before, **seen} if isinstance(before, dict) and isinstance(seen, dict) else seen
        ordered = {play.name: both[play.name] for play in self.plays if play.name in both}
        return json.dumps(ordered, indent=1, ensure_ascii=False) + "\n"

    def written(self) -> str:
        """The page with the tables made anew."""
        tables = "\n".join(
            f"{heading and f'### {heading}'}\n\n{self._table(plays)}".lstrip() for heading, plays in self.sections.items()
        )
        before, _, rest = self.page.read_text().partition(BEGIN)
        return f"{before}{BEGIN}\n{tables}\n{END}{rest.partition(END)[2]}"

    def _table(self, plays: Sequence[Case]) -> str:
        rows = [f"| play | {self.title} | Penstock | why |", "| --- | --- | --- | --- |"]
        both = self.outcomes()
        for play in plays:
            one = both[play.name]
            ours = "**same**" if one[self.peer] == one["penstock"] else _cell(one["penstock"])
            rows.append(f"| {play.what} | {_cell(one[self.peer])} | {ours} | {self.why.get(play.name, '')} |")
        return "\n".join(rows) + "\n"


def _cell(seen: Seen) -> str:
    """What all clients saw, once where it is the same."""
    if isinstance(seen, str):
        return seen
    if len(set(seen.values())) == 1:
        return next(iter(seen.values()))
    return "<br>".join(f"{client.capitalize()}: {found}" for client, found in seen.items())

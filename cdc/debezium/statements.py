"""What the statements of a binlog do to tables and their rows, apart from what events of rows tell; pure.

A row binlog has statements too: definitions of tables, transactions of two phases, and changes of rows where a session has told the server to
write these as statements. Names are taken as they stand there; whether a table is captured is for others to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Name = tuple[str, str]
"""A database and a table, of which either may have dots: joined by one, they do not tell which dot that is."""

Does = Literal["nothing", "rows", "ends", "redefined", "unreadable", "prepares", "prepared", "commits", "rolls back"]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a statement does."""

    does: Does = "nothing"
    """``rows``: changes rows. ``ends``: rows or tables go, or other ones come by a name. ``redefined``: columns or keys may be others.
    ``unreadable``: the connector's parser refuses it. The rest are steps of a transaction of two phases.
    """
    tables: tuple[Name, ...] = ()
    """The tables that it names; of ``ends`` those whose rows are no longer what they were."""
    read: tuple[Name, ...] = ()
    """The tables of ``ends`` that have other rows now, of which no event tells."""
    databases: tuple[str, ...] = ()
    """The databases that it drops."""
    xid: str = ""
    """The transaction of two phases."""
    text: str = ""
    """Its beginning, for people."""


_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*|--(?=\s|$)[^\n]*|/\*(?!M?!).*?\*/|/\*M?!\d*|\*/)"""
    r"""|(?P<quoted>`(?:[^`]|``)*`)"""
    r"""|(?P<text>[xXbBnN]?'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"""|(?P<word>[\w$\u0080-\uffff]+)"""
    r"""|(?P<sign>.)""",
    re.DOTALL,
)
_ROWS = {"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "SELECT", "DO", "EXECUTE", "HANDLER", "IMPORT"}
_NOTHING = {
    *(
        "BEGIN",
        "START",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT",
        "RELEASE",
        "SET",
        "USE",
        "FLUSH",
        "RESET",
        "PURGE",
        "CHANGE",
        "KILL",
        "STOP",
    ),
    *("GRANT", "REVOKE", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "CHECKSUM", "CACHE", "LOCK", "UNLOCK", "INSTALL", "UNINSTALL"),
    *("BACKUP", "SHUTDOWN", "BINLOG", "PREPARE", "DEALLOCATE", "TRUNCATE"),  # a truncate has an event of its own
}
_XA = {"START": "prepares", "BEGIN": "prepares", "PREPARE": "prepared", "COMMIT": "commits", "ROLLBACK": "rolls back"}
_PARTITIONS = {"TRUNCATE", "DROP", "EXCHANGE", "CONVERT"}
_BETWEEN_NAMES = ("TO", "IF", "EXISTS", "WAIT", "NOWAIT", "RESTRICT", "CASCADE")
_TEXT_MAX = 120


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def upper(self) -> str:
        """A word in capitals; nothing of what is quoted."""
        return self.text.upper() if self.kind in ("word", "sign") else ""

    @property
    def name(self) -> str | None:
        """The name that it is, or may be: quotes of one kind mean names or texts, as the session has it."""
        if self.kind == "word":
            return self.text
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text[1:-1].replace('""', '"') if self.text[:1] == '"' else None


def statement_of(sql: str, database: str) -> Statement:
    """What a statement does whose session was in this database."""
    tokens = [_Token(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(sql) if found.lastgroup != "space"]
    if [token.upper for token in tokens[:2]] == ["SET", "STATEMENT"]:
        behind = next((place for place, token in enumerate(tokens) if token.upper == "FOR"), len(tokens))
        tokens = tokens[behind + 1 :]
    text = " ".join(sql.split())[:_TEXT_MAX]
    words = [token.upper for token in tokens]
    match words:
        case []:
            return Statement()
        case ["XA", verb, *_]:
            does = _XA.get(verb, "nothing")
            return Statement(does, xid=_xid(tokens[2:]), text=text)  # type: ignore[arg-type]
        case ["CREATE" | "DROP" | "ALTER" | "RENAME", *_]:
            return _definition(tokens, words, database, text)
        case [first, *_] if first in _NOTHING:
            return Statement()
        case _:  # what is not known may change rows
            return Statement("rows", tuple(dict.fromkeys(_names(tokens, database))), text=text)


def xid_text(gtrid: bytes, bqual: bytes, format_id: int) -> str:
    """The id of a transaction of two phases as servers write it into their logs."""
    return f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}"


def _xid(tokens: Sequence[_Token]) -> str:
    """The same from a statement's words: two texts and a number."""
    return "".join(token.text for token in tokens if token.kind == "text" or token.text == "," or token.text.isdigit())


def _definition(tokens: list[_Token], words: list[str], database: str, text: str) -> Statement:
    """What a definition of a table or a database does."""
    kind = next((place for place, word in enumerate(words[:8]) if word in ("TABLE", "TABLES", "DATABASE", "SCHEMA")), None)
    if kind is None or "TEMPORARY" in words[:kind]:
        return Statement()
    others = {
        "VIEW",
        "TRIGGER",
        "PROCEDURE",
        "FUNCTION",
        "EVENT",
        "INDEX",
        "SEQUENCE",
        "USER",
        "ROLE",
        "SERVER",
        "TABLESPACE",
        "PACKAGE",
    }
    if others & set(words[:kind]):
        return Statement()
    begins = kind + 1
    while begins < len(words) and words[begins] in ("IF", "NOT", "EXISTS", "WAIT", "NOWAIT"):
        begins += 1
    rest, verbs = tokens[begins:], words[begins:]
    replaces = words[:3] == ["CREATE", "OR", "REPLACE"]
    if words[kind] in ("DATABASE", "SCHEMA"):
        goes = words[0] == "DROP" or replaces
        return Statement("ends", databases=(rest[0].name or "",), text=text) if goes and rest else Statement()
    if words[0] in ("DROP", "RENAME"):
        listed = _listed(rest, database)
        read = listed[1::2] if words[0] == "RENAME" else []
        return Statement("ends", tuple(dict.fromkeys(listed)), tuple(dict.fromkeys(read)), text=text)
    named = _name_at(rest, 0, database)
    if named is None:
        return Statement("rows", text=text)
    table, after = named
    if words[0] == "CREATE":
        return Statement("ends" if replaces else "redefined", (table,), text=text)
    return _altered(table, rest[after:], verbs[after:], database, text)


def _altered(table: Name, rest: list[_Token], verbs: list[str], database: str, text: str) -> Statement:
    """What an ALTER TABLE does."""
    tables = [table]
    depth = 0
    for place, word in enumerate(verbs):
        depth += (word == "(") - (word == ")")
        if depth or (place and verbs[place - 1] != "," and not _begins_an_action(verbs, place)):
            continue
        following = verbs[place + 1 : place + 3]
        if word == "RENAME" and following[:1] and following[0] not in ("COLUMN", "INDEX", "KEY"):
            named = _name_at(rest, place + 1 + (following[0] in ("TO", "AS", "=")), database)
            tables += [named[0]] if named else []
        elif _changes_rows(verbs, place):
            tables += _tables_behind(rest, verbs, place, database)
        else:
            continue
        read = tables[1:] if word == "RENAME" else tables
        return Statement("ends", tuple(dict.fromkeys(tables)), tuple(dict.fromkeys(read)), text=text)
    return Statement("redefined", (table,), text=text)


def _changes_rows(verbs: list[str], place: int) -> bool:
    """Whether an action gives a table other rows without an event of rows."""
    match verbs[place : place + 2]:
        case [verb, "PARTITION"]:
            return verb in _PARTITIONS
        case ["CONVERT", "TABLE"]:
            return True
        case [verb, *_]:
            return verb in ("IMPORT", "DISCARD") and "TABLESPACE" in verbs
    return False


def _begins_an_action(verbs: list[str], place: int) -> bool:
    """Whether a word may begin an action though no comma is before it, as behind ALGORITHM=INPLACE or NOWAIT."""
    return verbs[place] in (*_PARTITIONS, "IMPORT", "DISCARD") and verbs[place + 1 : place + 2] in (["PARTITION"], ["TABLESPACE"])


def _tables_behind(rest: list[_Token], verbs: list[str], place: int, database: str) -> list[Name]:
    """The other tables of an exchange or a conversion of a partition."""
    return [
        named[0]
        for behind in range(place, len(verbs))
        if verbs[behind] == "TABLE" and (named := _name_at(rest, behind + 1, database)) is not None
    ]


def _listed(tokens: list[_Token], database: str) -> list[Name]:
    """The tables of a list of names, with those that others are renamed to."""
    names, place = [], 0
    while place < len(tokens):
        word = tokens[place].upper
        counts = bool(place) and tokens[place - 1].upper == "WAIT" and word.isdigit()
        if word in _BETWEEN_NAMES or counts or tokens[place].kind == "sign":
            place += 1
        elif (named := _name_at(tokens, place, database)) is not None:
            names.append(named[0])
            place = named[1]
        else:
            place += 1
    return names


def _name_at(tokens: list[_Token], place: int, database: str) -> tuple[Name, int] | None:
    """The table that is named there, and where the name ends."""
    first = tokens[place].name if place < len(tokens) else None
    if first is None:
        return None
    if place + 2 < len(tokens) and tokens[place + 1].text == "." and (second := tokens[place + 2].name) is not None:
        return (first, second), place + 3
    return (database, first), place + 1


def _names(tokens: list[_Token], database: str) -> list[Name]:
    """All that may be a name of a table."""
    names, place = [], 0
    while place < len(tokens):
        named = _name_at(tokens, place, database)
        names += [named[0]] if named else []
        place = named[1] if named else place + 1
    return names

"""The effects of a binlog's statements on tables and rows; pure.

A row binlog has statements too: definitions, transactions of two phases, and row changes of sessions that ask for statements.
Names stay as written, captured or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

Name = tuple[str, str]
"""A database and a table. Either may have dots, so a joined name is ambiguous."""

StatementEffect = Literal["nothing", "rows", "ends", "redefined", "filled", "prepares", "prepared", "commits", "rolls back"]


@dataclass(frozen=True, slots=True)
class BinlogStatement:
    """The effects of a statement."""

    does: StatementEffect = "nothing"
    """``rows``: changes rows. ``ends``: rows or tables go, or a name gets others. ``redefined``: columns or keys may change.
    ``filled``: also rows get values without events. The rest are steps of a transaction of two phases.
    """
    tables: tuple[Name, ...] = ()
    """The named tables; of ``ends`` those whose rows change."""
    read: tuple[Name, ...] = ()
    """The tables of ``ends`` that get rows without events."""
    databases: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """The columns of ``filled``, in small letters."""
    makes: tuple[Name, ...] = ()
    """The tables afterwards whose form it determines."""
    unknown: tuple[Name, ...] = ()
    """The tables whose columns it leaves unknown."""
    anew: bool = False
    """Whether what it makes was missing before, whatever the connector knows."""
    told: str | None = None
    """The replacement text for the connector, which would misread it."""
    xid: str = ""
    text: str = ""

    def lowered(self) -> BinlogStatement:
        tables, read, makes, unknown = (
            tuple(dict.fromkeys((database.lower(), table.lower()) for database, table in names))
            for names in (self.tables, self.read, self.makes, self.unknown)
        )
        databases = tuple(database.lower() for database in self.databases)
        return replace(self, tables=tables, read=read, databases=databases, makes=makes, unknown=unknown)

    def of_key(self, key: Iterable[str]) -> BinlogStatement:
        """The statement for a table with this key before it: new values of the key make other rows."""
        if self.does != "filled" or not {*self.columns} & {name.lower() for name in key}:
            return self
        return replace(self, does="ends", read=self.tables)


_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*|--(?=\s|$)[^\n]*|/\*(?!M?!).*?\*/|/\*M?!\d*|\*/)"""
    r"""|(?P<quoted>`(?:[^`]|``)*`)"""
    r"""|(?P<text>[xXbBnN]?'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"""|(?P<word>[\w$\u0080-\uffff]+)"""
    r"""|(?P<sign>.)""",
    re.DOTALL,
)
_COMMENTS = re.compile(
    r"""(?P<comment>/\*M?!.*?\*/)|(?P<rest>/\*.*?\*/|\#[^\n]*|--(?=\s|$)[^\n]*|`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|.)""",
    re.DOTALL,
)
"""Executed comments, and other text with their signs."""
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
_ADDS_NO_COLUMN = {"INDEX", "KEY", "UNIQUE", "PRIMARY", "FOREIGN", "FULLTEXT", "SPATIAL", "CONSTRAINT", "CHECK", "PARTITION"}
_VALUES = {"PRIMARY", "AUTO_INCREMENT", "SERIAL", "TIMESTAMP", "AS"}
"""Words by which a new column gives existing rows a value, besides NOT NULL and DEFAULT."""
_BETWEEN_NAMES = ("TO", "IF", "EXISTS", "WAIT", "NOWAIT", "RESTRICT", "CASCADE")
_TEXT_MAX = 120


_EXECUTED = re.compile(r"/\*M?!\d*+\s*+(?!COMPRESSED)(.*?)\*/", re.DOTALL | re.IGNORECASE)
"""A comment that a server executes. The connector's parser skips all of them, and does not know the word COMPRESSED."""
_SAYS_NOTHING = "XA RECOVER"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    begins: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind in ("word", "sign") else ""

    @property
    def name(self) -> str | None:
        """The possible name: quotes of one kind mean names or texts, by the session."""
        if self.kind == "word":
            return self.text
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text[1:-1].replace('""', '"') if self.text[:1] == '"' else None


def statement_of(sql: str, database: str, *, of_session: bool = False) -> BinlogStatement:
    """The effects of a statement in this database. ``of_session``: its tables may be the session's own, which hide others."""
    opened = _opened(sql)
    tokens = _tokens(opened)
    if [token.upper for token in tokens[:2]] == ["SET", "STATEMENT"]:
        behind = next((place for place, token in enumerate(tokens) if token.upper == "FOR"), len(tokens))
        tokens = tokens[behind + 1 :]
    text = " ".join(sql.split())[:_TEXT_MAX]
    words = [token.upper for token in tokens]
    match words:
        case []:
            return BinlogStatement()
        case ["XA", verb, *_]:
            does = _XA.get(verb, "nothing")
            return BinlogStatement(does, xid=_xid(tokens[2:]), text=text)  # type: ignore[arg-type]
        case ["CREATE" | "DROP" | "ALTER" | "RENAME", *_]:
            said = _definition(tokens, words, database, text, opened)
        case ["TRUNCATE", *_] if of_session:
            listed = tuple(_listed(tokens[1 + (words[1:2] == ["TABLE"]) :], database))
            return BinlogStatement("ends", listed, listed, told=_SAYS_NOTHING, text=text)
        case [first, *_] if first in _NOTHING:
            said = BinlogStatement()
        case _:  # what is not known may change rows
            return BinlogStatement("rows", tuple(dict.fromkeys(_names(tokens, database))), text=text)
    if of_session and said.makes and (words[0] != "CREATE" or "LIKE" in words):
        said = _unknown(said, tuple(dict.fromkeys((*said.tables, *said.makes))))
    return said if said.told is not None or opened == sql else replace(said, told=opened)


def _tokens(sql: str) -> list[_Token]:
    return [_Token(str(found.lastgroup), found[0], found.start()) for found in _TOKEN.finditer(sql) if found.lastgroup != "space"]


def _opened(sql: str) -> str:
    if "/*!" not in sql and "/*M!" not in sql:
        return sql
    return "".join(
        (_EXECUTED.sub(r" \1 ", found[0]) if found.lastgroup == "comment" else found[0]) for found in _COMMENTS.finditer(sql)
    )


def _unknown(statement: BinlogStatement, tables: tuple[Name, ...]) -> BinlogStatement:
    """A statement that leaves tables' columns unknown, so that the connector has to forget them."""
    gone = "DROP TABLE IF EXISTS " + ", ".join(map(quoted_name, tables))
    every = tuple(dict.fromkeys((*statement.tables, *tables)))
    return replace(statement, does="ends", tables=every, unknown=tables, told=gone)


def quoted_name(parts: Sequence[str]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def xid_text(gtrid: bytes, bqual: bytes, format_id: int) -> str:
    """The id of a transaction of two phases, as in servers' logs."""
    return f"X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}"


def _xid(tokens: Sequence[_Token]) -> str:
    return "".join(token.text for token in tokens if token.kind == "text" or token.text == "," or token.text.isdigit())


def _definition(tokens: list[_Token], words: list[str], database: str, text: str, sql: str) -> BinlogStatement:
    kind = next((place for place, word in enumerate(words[:8]) if word in ("TABLE", "TABLES", "DATABASE", "SCHEMA")), None)
    if kind is None:
        return BinlogStatement()
    if "TEMPORARY" in words[:kind]:
        return BinlogStatement(told=_SAYS_NOTHING)
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
        return BinlogStatement()
    begins = kind + 1
    while begins < len(words) and words[begins] in ("IF", "NOT", "EXISTS", "WAIT", "NOWAIT"):
        begins += 1
    rest, verbs = tokens[begins:], words[begins:]
    replaces = words[:3] == ["CREATE", "OR", "REPLACE"]
    if words[kind] in ("DATABASE", "SCHEMA"):
        goes = words[0] == "DROP" or replaces
        if not goes or not rest:
            return BinlogStatement()
        gone = f"DROP DATABASE IF EXISTS {quoted_name((rest[0].name or '',))}"
        told = f"{gone}; CREATE {sql[tokens[3].begins :]}" if replaces else None
        return BinlogStatement("ends", databases=(rest[0].name or "",), anew=replaces, told=told, text=text)
    if words[0] == "DROP":
        return BinlogStatement("ends", tuple(dict.fromkeys(_listed(rest, database))), text=text)
    if words[0] == "RENAME":
        listed = _listed(rest, database)
        there: dict[Name, None] = {}
        for old, new in zip(listed[::2], listed[1::2], strict=False):
            there.pop(old, None)
            there[new] = None
        return BinlogStatement("ends", tuple(dict.fromkeys(listed)), tuple(there), makes=tuple(there), text=text)
    named = _name_at(rest, 0, database)
    if named is None:
        return BinlogStatement("rows", text=text)
    table, after = named
    if words[0] == "CREATE":
        made = BinlogStatement("ends" if replaces else "redefined", (table,), makes=(table,), text=text)
        if _is_of_a_query(verbs[after:]):
            return _unknown(replace(made, read=(table,)), (table,))
        # Two statements, as the connector reads its history by itself: there nobody has it forget the table.
        told = f"DROP TABLE IF EXISTS {quoted_name(table)}; CREATE {sql[tokens[3].begins :]}" if replaces else None
        return replace(made, anew="EXISTS" not in words[kind:begins], told=told)
    after += {"WAIT": 2, "NOWAIT": 1}.get("".join(verbs[after : after + 1]), 0)
    # IGNORE drops rows that a new key has twice, or that do not fit.
    return _altered(table, rest[after:], verbs[after:], database, text, changes="IGNORE" in words[:kind])


def _is_of_a_query(verbs: list[str]) -> bool:
    pairs = zip(verbs, [*verbs[1:], ""], strict=True)
    return any(word in ("SELECT", "TABLE") or (word == "VALUES" and following == "(") for word, following in pairs)


def _altered(table: Name, rest: list[_Token], verbs: list[str], database: str, text: str, *, changes: bool) -> BinlogStatement:
    """``changes``: whether it may change rows under any action."""
    tables, filled, fills = [table], dict[str, None](), False
    depth = 0
    for place, word in enumerate(verbs):
        depth += (word == "(") - (word == ")")
        if depth or (place and verbs[place - 1] != "," and not _begins_an_action(verbs, place)):
            continue
        following = verbs[place + 1 : place + 3]
        if word == "RENAME" and following[:1] and following[0] not in ("COLUMN", "INDEX", "KEY"):
            named = _name_at(rest, place + 1 + (following[0] in ("TO", "AS", "=")), database)
            if named is not None:
                return BinlogStatement("ends", tuple(dict.fromkeys((table, named[0]))), (named[0],), makes=(named[0],), text=text)
        elif _changes_rows(verbs, place):
            tables += _tables_behind(rest, verbs, place, database)
            changes = True
        action = _action(rest[place:])
        if _gives_values([token.upper for token in action]):
            fills = True
            filled |= dict.fromkeys(_columns_of(action))
    every = tuple(dict.fromkeys(tables))
    if changes:
        return BinlogStatement("ends", every, every, makes=every, text=text)
    if fills:
        return BinlogStatement("filled", every, columns=tuple(filled), makes=every, text=text)
    return BinlogStatement("redefined", every, makes=every, text=text)


def _action(tokens: list[_Token]) -> list[_Token]:
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.upper == "(") - (token.upper == ")")
        if token.upper == "," and not depth:
            return tokens[:place]
    return tokens


def _changes_rows(verbs: list[str], place: int) -> bool:
    match verbs[place : place + 2]:
        case [verb, "PARTITION"]:
            return verb in _PARTITIONS
        case ["CONVERT", "TABLE"]:
            return True
        case [verb, *_]:
            return verb in ("IMPORT", "DISCARD") and "TABLESPACE" in verbs
    return False


def _gives_values(action: list[str]) -> bool:
    """Whether an action gives existing rows a column's values without events: a default, a conversion, or another's name."""
    match action:
        case ["MODIFY" | "CHANGE", *_] | ["RENAME", "COLUMN", *_]:
            return True
        case ["ADD", *added] if not _ADDS_NO_COLUMN & {*added[:1]}:
            pairs = [*pairwise(added)]
            has_default = any(word == "DEFAULT" and value != "NULL" for word, value in pairs)
            return has_default or ("NOT", "NULL") in pairs or bool(_VALUES & {*added})
    return False


def _columns_of(action: list[_Token]) -> list[str]:
    """The columns, in small letters, that such an action fills or converts."""
    place = 1
    while place < len(action) and action[place].upper in ("COLUMN", "IF", "NOT", "EXISTS"):
        place += 1
    names = {"CHANGE": 2, "RENAME": 3}.get(action[0].upper, 1)  # RENAME COLUMN a TO b
    if place < len(action) and action[place].upper == "(":
        names = len(action)
    return [token.name.lower() for token in action[place : place + names] if token.name is not None]


def _begins_an_action(verbs: list[str], place: int) -> bool:
    """Whether a word may begin an action without a comma before it, as after ALGORITHM=INPLACE or NOWAIT."""
    return verbs[place] in (*_PARTITIONS, "IMPORT", "DISCARD") and verbs[place + 1 : place + 2] in (["PARTITION"], ["TABLESPACE"])


def _tables_behind(rest: list[_Token], verbs: list[str], place: int, database: str) -> list[Name]:
    """The other tables of an exchange or a conversion of a partition."""
    return [
        named[0]
        for behind in range(place, len(verbs))
        if verbs[behind] == "TABLE" and (named := _name_at(rest, behind + 1, database)) is not None
    ]


def _listed(tokens: list[_Token], database: str) -> list[Name]:
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
    first = tokens[place].name if place < len(tokens) else None
    if first is None:
        return None
    if place + 2 < len(tokens) and tokens[place + 1].text == "." and (second := tokens[place + 2].name) is not None:
        return (first, second), place + 3
    return (database, first), place + 1


def _names(tokens: list[_Token], database: str) -> list[Name]:
    names, place = [], 0
    while place < len(tokens):
        named = _name_at(tokens, place, database)
        names += [named[0]] if named else []
        place = named[1] if named else place + 1
    return names

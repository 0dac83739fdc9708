"""Schemas in Spark's SQL: ``id bigint not null, amount decimal(12,2), items array<struct<sku: string, count: int>>``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from ..errors import InvalidArgument, LimitExceeded
from ..limits import plain
from .fields import ELEMENT, KEY, VALUE, DecimalType, Field, FieldType, MapType, PrimitiveType, StructType, array_of, join
from .rules import DEPTH_MAX, too_deep

DDL_CHARS_MAX = 1_000_000
_OPERATION = "read a schema"
_EXAMPLE = "such as: id bigint not null, amount decimal(12,2), at timestamp"
_ALIASES = {
    **{str(kind): kind for kind in PrimitiveType},
    "bool": PrimitiveType.BOOLEAN,
    "byte": PrimitiveType.TINYINT,
    "short": PrimitiveType.SMALLINT,
    "integer": PrimitiveType.INT,
    "long": PrimitiveType.BIGINT,
    "real": PrimitiveType.FLOAT,
    "text": PrimitiveType.STRING,
    "varchar": PrimitiveType.STRING,
    "bytes": PrimitiveType.BINARY,
    "timestamp_ltz": PrimitiveType.TIMESTAMP,
    "timestamptz": PrimitiveType.TIMESTAMP,
}
_FILE_NAME = re.compile(r"\S+\.(sql|ddl|json|avsc|txt)|\.{0,2}/\S+", re.IGNORECASE)
_DECIMALS = {"decimal", "dec", "numeric"}
_BLANK = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<word>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)*)`|(?P<number>\d+)|(?P<text>'(?:[^'\\]|\\.)*')|(?P<mark>[<>(),:])""",
    re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_ddl(text: str) -> tuple[Field, ...]:
    """Raises `InvalidArgument`, naming field and place."""
    if len(text) > DDL_CHARS_MAX:
        raise LimitExceeded("the schema's text is too long", operation=_OPERATION, expected=f"at most {DDL_CHARS_MAX} characters")
    return _Parser(text).schema()


def parse_type(text: str, *, path: str) -> FieldType:
    """One type, such as ``decimal(12,2)``."""
    return _Parser(text).single_type(path)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0

    def schema(self) -> tuple[Field, ...]:
        fields = self._fields("", 1, colon=False)
        self._end()
        return fields

    def single_type(self, path: str) -> FieldType:
        found = self._type(path, 0)
        self._end()
        return found

    def _end(self) -> None:
        if self._token.kind != "end":
            self._refuse("the end, or a comma")

    def _fields(self, under: str, depth: int, *, colon: bool) -> tuple[Field, ...]:
        fields = [self._field(under, depth, colon=colon)]
        while self._take(","):
            fields.append(self._field(under, depth, colon=colon))
        return tuple(fields)

    def _field(self, under: str, depth: int, *, colon: bool) -> Field:
        token = self._token
        if token.kind not in ("word", "quoted"):
            self._refuse("a field's name")
        self._next += 1
        path = join(under, token.text)
        if colon:
            self._take(":")
        type_ = self._type(path, depth)
        nullable = True
        if self._word("not"):
            if not self._word("null"):
                self._refuse("null, after not", path)
            nullable = False
        doc = ""
        if self._word("comment"):
            if self._token.kind != "text":
                self._refuse("a text in single quotes, after comment", path)
            doc = re.sub(r"\\(.)", r"\1", self._token.text[1:-1], flags=re.DOTALL)
            self._next += 1
        return Field(token.text, type_, nullable, doc)

    def _type(self, path: str, depth: int) -> FieldType:
        if depth > DEPTH_MAX:
            raise too_deep(path)
        token = self._token
        name = token.text.lower()
        if token.kind != "word":
            self._refuse("a type", path)
        self._next += 1
        if name in _DECIMALS:
            return self._decimal(path)
        if name == "array":
            self._expect("<", path)
            element = self._type(join(path, ELEMENT), depth + 1)
            self._expect(">", path)
            return array_of(element)
        if name == "map":
            self._expect("<", path)
            key = Field(KEY, self._type(join(path, KEY), depth + 1), nullable=False)
            self._expect(",", path)
            value = Field(VALUE, self._type(join(path, VALUE), depth + 1))
            self._expect(">", path)
            return MapType(key, value)
        if name == "struct":
            self._expect("<", path)
            fields = self._fields(path, depth + 1, colon=True)
            self._expect(">", path)
            return StructType(fields)
        if name not in _ALIASES:
            self._next -= 1
            self._refuse(f"one of {', '.join(PrimitiveType)}, decimal(p,s), array<…>, map<…, …>, struct<…>", path)
        if name == "double":
            self._word("precision")
        if self._token.text == "(":
            self._refuse(f"{name} without a length", path)
        return _ALIASES[name]

    def _decimal(self, path: str) -> DecimalType:
        if not self._take("("):
            return DecimalType(10, 0)  # as Spark reads it
        precision = self._number(path)
        scale = self._number(path) if self._take(",") else 0
        self._expect(")", path)
        return DecimalType(precision, scale)

    def _number(self, path: str) -> int:
        token = self._token
        if token.kind != "number" or len(token.text) > 9:
            self._refuse("a number of digits", path)
        self._next += 1
        return int(token.text)

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _word(self, word: str) -> bool:
        found = self._token.kind == "word" and self._token.text.lower() == word
        self._next += found
        return found

    def _take(self, mark: str) -> bool:
        found = self._token.kind == "mark" and self._token.text == mark
        self._next += found
        return found

    def _expect(self, mark: str, path: str) -> None:
        if not self._take(mark):
            self._refuse(mark, path)

    def _refuse(self, expected: str, path: str | None = None) -> NoReturn:
        token = self._token
        raise InvalidArgument(
            f"the schema cannot be read at character {token.at + 1}",
            operation=_OPERATION,
            object=None if path is None else plain(path),
            expected=expected,
            observed=plain(self._text[token.at :]) if token.kind != "end" else "the end",
            hint=self._hint(),
        )

    def _hint(self) -> str:
        text = self._text.strip()
        if text.startswith("{"):
            return "JSON Schema and Avro are given as a dict, or as a file: a Path, or --schema @FILE"
        if _FILE_NAME.fullmatch(text):
            return "a file is given as a Path, or as --schema @FILE"
        return _EXAMPLE


def _tokens(text: str) -> Iterator[_Token]:
    at = _end_of_blank(text, 0)
    while found := _TOKEN.match(text, at):
        kind = str(found.lastgroup)
        value = found[kind].replace("``", "`") if kind == "quoted" else found[kind]
        yield _Token(kind, value, found.start(kind))
        at = _end_of_blank(text, found.end())
    if at < len(text):
        yield _Token("unknown", text[at:].strip(), at)
    yield _Token("end", "", len(text))


def _end_of_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at

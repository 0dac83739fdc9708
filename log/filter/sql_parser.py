"""Parses tokens into an expression. The grammar is RocketMQ's (``filter/…/SelectorParser.jj``), which comes from JMS, plus fields.

Precedence, weakest first: OR, AND, equality (``=``, ``<>``, IS), comparison (``>``, ``>=``, ``<``, ``<=``, BETWEEN, IN, CONTAINS,
STARTSWITH, ENDSWITH), unary (``+``, ``-``, NOT), operands and parentheses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, TypeGuard, cast

from ..errors import InvalidArgument, LimitExceeded
from ..limits import FILTER_CHARS_MAX, FILTER_DEPTH_MAX
from .sql_expressions import (
    And,
    BodyField,
    Cast,
    Compare,
    Condition,
    Equal,
    Expression,
    FieldReference,
    In,
    IsNull,
    Literal,
    Matches,
    Matching,
    Not,
    Or,
    Ordering,
    Property,
    Scalar,
)
from .sql_tokens import FIELD_PART, Token, refusal, tokens
from .tags import is_unicode

_Operand: TypeAlias = Property | FieldReference | Literal
_INT64 = range(-(2**63), 2**63)


def parse(expression: str) -> Condition:
    """Raises `InvalidArgument`, naming mistake and column, and `LimitExceeded`."""
    if not is_unicode(expression):
        raise InvalidArgument(
            "a condition is a text", operation="filter", expected="a str of Unicode characters", observed=repr(expression)
        )
    if len(expression) > FILTER_CHARS_MAX:
        raise LimitExceeded(
            "the expression is too long",
            operation="filter",
            expected=f"at most {FILTER_CHARS_MAX} characters",
            observed=f"{len(expression)} characters",
        )
    return _Parser(expression).whole()


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens = list(tokens(expression))
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._condition(self._either)
        if self._token.kind != "end":
            raise self._unexpected("an operator, AND, OR, or the end")
        return condition

    # --- From the weakest operator to the strongest -------------------------------------------------------------------------

    def _either(self) -> Expression:
        start, first = self._token, self._both()
        if not self._take("OR"):
            return first
        terms = [self._truth(first, start), self._condition(self._both)]
        while self._take("OR"):
            terms.append(self._condition(self._both))
        return Or(tuple(terms))

    def _both(self) -> Expression:
        start, first = self._token, self._equality()
        if not self._take("AND"):
            return first
        terms = [self._truth(first, start), self._condition(self._equality)]
        while self._take("AND"):
            terms.append(self._condition(self._equality))
        return And(tuple(terms))

    def _equality(self) -> Expression:
        start, left = self._token, self._comparison()
        for _ in range(FILTER_DEPTH_MAX):
            if self._take("="):
                if self._token.text == "=":
                    raise refusal("the expression cannot be read", self._expression, self._token.at - 1, hint="equal is =")
                left = self._equal(left, start)
            elif self._take("<>"):
                left = Not(self._equal(left, start))
            elif self._take("IS"):
                negated = self._take("NOT")
                self._expect("NULL")
                left = Not(IsNull(left)) if negated else IsNull(left)
            else:
                return left
        raise self._too_deep()

    def _equal(self, left: Expression, start: Token) -> Equal:
        place, right = self._token, self._comparison()
        for side, at in ((left, start), (right, place)):
            if side == Literal(None):
                raise refusal("nothing is equal to NULL", self._expression, at.at, hint="write IS NULL or IS NOT NULL")
        for side, other in ((left, right), (right, left)):
            if _is_value(side) and not isinstance(other, Property | FieldReference) and not _is_value(other):
                raise refusal("a truth value is compared with another value", self._expression, place.at, hint=_not_alone(left))
        return Equal(left, right)

    def _comparison(self) -> Expression:
        start, left = self._token, self._unary()
        for _ in range(FILTER_DEPTH_MAX):
            token = self._token
            if token.kind == "symbol" and token.text in (">", ">=", "<", "<="):
                self._next += 1
                left = self._ordered(cast(Ordering, token.text), self._number(left, start))
                continue
            negated = token.text == "NOT" and token.kind == "keyword"
            word = self._tokens[self._next + negated]
            if word.kind != "keyword" or word.text not in ("BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH"):
                return left
            self._next += 1 + negated
            if word.text == "BETWEEN":
                left = self._between(self._number(left, start), negated=negated)
            elif word.text == "IN":
                left = self._in(left, start, negated=negated)
            else:
                left = Matches(cast(Matching, word.text), left, self._text(), negated)
        raise self._too_deep()

    def _ordered(self, symbol: Ordering, left: _Operand) -> Compare:
        return Compare(symbol, left, self._operand(beside=left))

    def _between(self, value: _Operand, *, negated: bool) -> Condition:
        start, low = self._token, self._operand(beside=value)
        self._expect("AND")
        high = self._operand(beside=value)
        if _is_number(low) and _is_number(high) and cast(float, low.value) > cast(float, high.value):
            raise refusal("nothing is between them: the first is above the second", self._expression, start.at)
        if negated:
            return Or((Compare("<", value, low), Compare(">", value, high)))
        return And((Compare(">=", value, low), Compare("<=", value, high)))

    def _in(self, left: Expression, start: Token, *, negated: bool) -> In:
        if not isinstance(left, Property | FieldReference):
            raise refusal("IN is asked of something else than a property", self._expression, start.at, expected="a property")
        read = self._text if isinstance(left, Property) else self._text_or_number
        self._expect("(")
        values = [read()]
        while self._take(","):
            values.append(read())
        self._expect(")")
        return In(left, tuple(values), negated)

    def _unary(self) -> Expression:
        if self._take("+"):
            return self._deeper(self._unary)
        if self._take("-"):
            return self._negative()
        if self._take("NOT"):
            start = self._token
            return Not(self._truth(self._deeper(self._unary), start))
        return self._primary()

    def _negative(self) -> Literal:
        start = self._token
        if start.kind == "integer":  # without its sign the number of -2⁶³ is out of range
            self._next += 1
            return self._in_range(-_integer(start), start)
        of = self._deeper(self._unary)
        value = of.value if isinstance(of, Literal) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refusal("minus stands before a number only", self._expression, start.at, hint="there is no arithmetic")
        return self._in_range(-value, start)

    def _primary(self) -> Expression:
        token = self._token
        self._next += 1
        match token.kind:
            case "text":
                return Literal(_unquoted(token))
            case "integer":
                return self._in_range(_integer(token), token)
            case "float":
                return self._in_range(float(token.text), token)
            case "word":
                return Property(token.text)
            case "field":
                return FieldReference(_parts(token))
            case "body":
                return BodyField.of(_parts(token))
        literals: dict[str, Scalar] = {"TRUE": True, "FALSE": False, "NULL": None}
        if token.kind == "keyword" and token.text in literals:
            return Literal(literals[token.text])
        if token.kind == "symbol" and token.text == "(":
            inner = self._deeper(self._either)
            self._expect(")")
            return inner
        self._next -= 1
        raise self._unexpected("a property, a literal or a condition in parentheses")

    # --- What is called for -------------------------------------------------------------------------------------------------

    def _condition(self, read: Callable[[], Expression]) -> Condition:
        start = self._token
        return self._truth(read(), start)

    def _truth(self, found: Expression, start: Token) -> Condition:
        if isinstance(found, Property | FieldReference):
            return Cast(found)
        if _is_value(found):
            raise refusal("a value stands where a condition is called for", self._expression, start.at, expected="a condition")
        return found

    def _operand(self, *, beside: _Operand) -> _Operand:
        """The other side of a comparison: a number, or a text that states a time if ``beside`` is a field."""
        start, found = self._token, self._unary()
        if isinstance(beside, FieldReference) and isinstance(found, Literal) and isinstance(found.value, str):
            return found
        return self._number(found, start)

    def _number(self, found: Expression, start: Token) -> _Operand:
        if isinstance(found, Property | FieldReference) or _is_number(found):
            return found
        raise refusal(
            "only numbers are more or less than others",
            self._expression,
            start.at,
            expected="a property or a number",
            hint=_not_alone(found),
        )

    def _in_range(self, number: float, token: Token) -> Literal:
        if (isinstance(number, int) and number not in _INT64) or not math.isfinite(number):
            raise refusal("the number is out of range", self._expression, token.at, expected="64 bits, or a double")
        return Literal(number)

    def _text(self) -> str:
        token = self._token
        if token.kind != "text":
            raise self._unexpected("a text in single quotes")
        self._next += 1
        return _unquoted(token)

    def _text_or_number(self) -> str | int | float:
        if self._token.kind == "text":
            return self._text()
        start, found = self._token, self._unary()
        if not _is_number(found):
            raise refusal(
                "the expression cannot be read", self._expression, start.at, expected="a text in single quotes or a number"
            )
        return cast(float, found.value)

    # --- Tokens -------------------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self, text: str) -> bool:
        taken = self._token.text == text and self._token.kind in ("keyword", "symbol")
        self._next += taken
        return taken

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._unexpected(text)

    def _unexpected(self, expected: str) -> Exception:
        return refusal(
            "the expression cannot be read", self._expression, self._token.at, expected=expected, hint=self._not_in_the_language()
        )

    def _not_in_the_language(self) -> str | None:
        here = self._tokens[self._next :]
        word = here[1] if here[0].text == "NOT" else here[0]
        if word.kind == "word" and word.text.upper() == "LIKE":
            return "there is CONTAINS, STARTSWITH and ENDSWITH"
        before = self._tokens[self._next - 1]
        if self._next and here[0].text == "(" and before.kind == "word":
            return f"there are no functions: {before.text} would be a property"
        return None

    def _deeper(self, read: Callable[[], Expression]) -> Expression:
        self._depth += 1
        if self._depth > FILTER_DEPTH_MAX:
            raise self._too_deep()
        found = read()
        self._depth -= 1
        return found

    def _too_deep(self) -> LimitExceeded:
        return LimitExceeded(
            "the expression is nested too deeply",
            operation="filter",
            expected=f"at most {FILTER_DEPTH_MAX} levels",
            observed=f"column {self._token.at + 1}",
        )


def _is_number(of: Expression) -> TypeGuard[Literal]:
    return isinstance(of, Literal) and isinstance(of.value, int | float) and not isinstance(of.value, bool)


def _is_value(of: Expression) -> bool:
    return isinstance(of, Literal) and of.value is not None and not isinstance(of.value, bool)


def _not_alone(left: Expression) -> str | None:
    return "NOT binds what follows it alone: write NOT (…)" if isinstance(left, Not) else None


def _parts(token: Token) -> tuple[str, ...]:
    return tuple(name.strip("`") for name in FIELD_PART.findall(token.text)[1:])


def _integer(token: Token) -> int:
    return int(token.text.rstrip("lL"))


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")

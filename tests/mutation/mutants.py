"""What is taken away: every guard (`if …: raise/return/continue/break`) and every comparison of a module, one at a time."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import CodeType

_EXITS = (ast.Raise, ast.Return, ast.Continue, ast.Break)
_OTHERWISE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a module's text. Its name does not depend on line numbers, so that it can be told again after an edit."""

    path: str
    line: int
    function: str
    """The name inside the module, or empty for what runs at import."""
    text: str
    """The expression as it stands, on one line."""
    change: str
    start: int
    """Bytes of the source from here …"""
    end: int
    """… to here are replaced by `new`."""
    new: str
    nth: int = 0
    """Of those that would have the same name."""

    @property
    def name(self) -> str:
        nth = f" #{self.nth + 1}" if self.nth else ""
        return f"{self.path} {self.function or 'import'}: {self.change}: {self.text}{nth}"

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """All changes of one module, in the order of its lines."""
    counted: Counter[str] = Counter()
    found = []
    for mutant in sorted(_Walk(path, source).mutants(), key=lambda one: (one.start, one.end, one.change)):
        found.append(replace(mutant, nth=counted[mutant.name]))
        counted[mutant.name] += 1
    return found


def changed_function(before: CodeType, after: CodeType) -> tuple[CodeType, CodeType] | None:
    """The outermost function whose code differs, of two compilations of a module; None when the difference is outside of functions."""
    for old, new in zip(before.co_consts, after.co_consts, strict=False):
        if isinstance(old, CodeType) and isinstance(new, CodeType) and old != new:
            if old.co_flags & _OPTIMIZED:
                return old, new
            return changed_function(old, new)
    return None


_OPTIMIZED = 0x1
"""Set for functions, not for the bodies of classes."""


class _Walk:
    def __init__(self, path: str, source: bytes) -> None:
        self._path, self._source = path, source
        lengths = [len(line) for line in source.split(b"\n")]
        self._line_starts = [0]
        for length in lengths:
            self._line_starts.append(self._line_starts[-1] + length + 1)

    def mutants(self) -> Iterator[Mutant]:
        yield from self._below(ast.parse(self._source), "")

    def _below(self, node: ast.AST, function: str) -> Iterator[Mutant]:
        for child in ast.iter_child_nodes(node):
            inner = function
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{function}.{child.name}" if function else child.name
            if isinstance(child, ast.If) and isinstance(child.body[-1], _EXITS) and "TYPE_CHECKING" not in ast.unparse(child.test):
                yield self._guard(child, inner)
            if isinstance(child, ast.Compare):
                yield from self._comparisons(child, inner)
            yield from self._below(child, inner)

    def _guard(self, node: ast.If, function: str) -> Mutant:
        start, end = self._span(node.test)
        # What the condition assigns on its way is still assigned.
        new = f"(({self._source[start:end].decode()}) and False)"
        exit_ = type(node.body[-1]).__name__.lower()
        return self._mutant(node.test, function, f"never {exit_}", start, end, new)

    def _comparisons(self, node: ast.Compare, function: str) -> Iterator[Mutant]:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old, new = _OTHERWISE[type(operator)]
            _, start = self._span(left)
            end, _ = self._span(right)
            between = self._source[start:end].decode()
            if between.count(old) == 1:
                yield self._mutant(node, function, f"{old} → {new}", start, end, between.replace(old, new))
            left = right

    def _mutant(self, node: ast.expr, function: str, change: str, start: int, end: int, new: str) -> Mutant:
        return Mutant(self._path, node.lineno, function, " ".join(ast.unparse(node).split()), change, start, end, new)

    def _span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._line_starts[node.lineno - 1] + node.col_offset, self._line_starts[node.end_lineno - 1] + node.end_col_offset

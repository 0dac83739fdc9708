"""The script that makes the synchronous face, on small classes; and what users see of the face that it made."""

from __future__ import annotations

import importlib.util
import inspect
import pydoc
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

import penstock
from tests.tree import ROOT


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, as it is on a tree of its own."""
    spec = importlib.util.spec_from_file_location("blocking_face", ROOT / "infra" / "scripts" / "blocking_face.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "ruff.toml").write_text("line-length = 132\n")
    return module


def made(script: ModuleType, root: Path, source: str, *, without: str = "", is_awaited: bool = False) -> str:
    """What it makes of a class named Thing, with nothing above the class."""
    package = root / "penstock" / "things"
    package.mkdir(parents=True, exist_ok=True)
    (package / "thing.py").write_text(dedent(source))
    face = script.Face("Thing", ("penstock.things.thing",), "Face", without=without, is_awaited=is_awaited)
    (text,) = script.made([script.Module("things", "Things.", (face,))]).values()
    return str(text)


def body(text: str) -> str:
    return text[text.index("class Thing") :]


def test_what_waits_and_what_does_not(script: ModuleType, tmp_path: Path) -> None:
    source = '''
        class Thing:
            """Does things. Use it in an ``async with`` block.

            On an event loop it does them there.
            """

            name: str
            """What it is called."""
            _secret: int

            def __init__(self) -> None: ...

            @property
            def size(self) -> int:
                """How large it is."""

            async def save(self) -> None:
                """Save it: ``await thing.save()``."""

            async def find(self, key: str, *others: str, deep: bool = False, **more: object) -> list[str]:
                """Find some."""

            def count(self, kind: str = "all") -> int:
                """How many there are."""

            async def _hidden(self) -> None: ...

            async def inner(self) -> None:
                """For others of ours."""
    '''
    assert body(made(script, tmp_path, source, without="inner")) == dedent('''\
        class Thing(Face[AsyncThing]):
            """Does things. Use it in a ``with`` block."""

            @property
            def name(self) -> str:
                """What it is called."""
                return self._core.name

            @property
            def size(self) -> int:
                """How large it is."""
                return self._core.size

            def save(self) -> None:
                """Save it: ``thing.save()``."""
                self._portal.run(self._core.save)

            def find(self, key: str, *others: str, deep: bool = False, **more: object) -> list[str]:
                """Find some."""
                return self._portal.run(lambda: self._core.find(key, *others, deep=deep, **more))

            def count(self, kind: str = "all") -> int:
                """How many there are."""
                return self._core.count(kind)
    ''')


def test_what_gives_or_takes_a_synchronous_object(script: ModuleType, tmp_path: Path) -> None:
    source = '''
        class Thing:
            """One."""

            async def copied(self) -> Thing:
                """Another one."""

            def part(self, of: Thing | None = None) -> Thing:
                """A part."""
    '''
    text = made(script, tmp_path, source)
    assert "return Thing(self._portal.run(self._core.copied), self._portal)" in text
    assert "return Thing(self._begun(lambda: self._core.part(core_of(of))), self._portal)" in text
    assert "import Face, core_of" in text
    awaited = made(script, tmp_path, source, is_awaited=True)
    assert "return Thing(self._joined(lambda: self._core.part(core_of(of))), self._portal)" in awaited


def test_iterations_and_closing(script: ModuleType, tmp_path: Path) -> None:
    source = '''
        from collections.abc import AsyncGenerator

        class Thing:
            """One."""

            async def rows(self, start: int) -> AsyncGenerator[int, None]:
                """Row by row."""

            async def close(self) -> None:
                """Close it."""
    '''
    assert body(made(script, tmp_path, source)) == dedent('''\
        class Thing(Face[AsyncThing]):
            """One."""

            def rows(self, start: int) -> Iterator[int]:
                """Row by row."""
                return iterated(self._portal, self._core.rows(start))

            def close(self) -> None:
                """Close it."""
                if not self._portal.stopped:
                    self._portal.run(self._core.close)
    ''')


def test_overloads_are_copied(script: ModuleType, tmp_path: Path) -> None:
    source = '''
        from collections.abc import AsyncGenerator
        from typing import overload

        from .sizes import LEAST, Size

        class Thing:
            """One."""

            @overload
            async def cut(self, to: Size, *, much: None = None) -> Thing: ...
            @overload
            async def cut(self, to: str, *, much: int = LEAST) -> Thing: ...
            async def cut(self, to: object, *, much: int | None = None) -> Thing:
                """Cut it."""

            @overload
            def rows(self, start: int) -> AsyncGenerator[int, None]: ...
            @overload
            def rows(self, start: str) -> AsyncGenerator[str, None]: ...
            def rows(self, start: int | str) -> AsyncGenerator[int | str, None]:
                """Row by row."""
    '''
    text = made(script, tmp_path, source)
    assert body(text) == dedent('''\
        class Thing(Face[AsyncThing]):
            """One."""

            @overload
            def cut(self, to: Size, *, much: None = None) -> Thing: ...
            @overload
            def cut(self, to: str, *, much: int = LEAST) -> Thing: ...
            def cut(self, to: object, *, much: int | None = None) -> Thing:
                """Cut it."""
                return Thing(self._portal.run(lambda: self._core.cut(to, much=much)), self._portal)

            @overload
            def rows(self, start: int) -> Iterator[int]: ...
            @overload
            def rows(self, start: str) -> Iterator[str]: ...
            def rows(self, start: int | str) -> Iterator[int | str]:
                """Row by row."""
                return iterated(self._portal, self._core.rows(start))
    ''')
    assert "from penstock.things.sizes import LEAST, Size\n" in text
    assert "from typing import overload\n" in text


def test_types_and_defaults_are_imported_from_where_the_source_has_them(script: ModuleType, tmp_path: Path) -> None:
    source = '''
        import pyarrow as pa

        from ..log import errors
        from .sizes import Size as Extent
        from . import sizes

        MOST = 5

        class Row: ...

        class Thing:
            """One."""

            async def cut(self, to: Extent, most: int = MOST, least: int = sizes.LEAST) -> list[Row]:
                """Cut it."""

            async def table(self) -> pa.Table:
                """All."""
    '''
    text = made(script, tmp_path, source)
    imports = text[text.index("from __future__") : text.index("class Thing")]
    assert {line for line in imports.splitlines() if line} == {
        "from __future__ import annotations",
        "import pyarrow as pa",
        "from penstock.things import sizes",
        "from penstock.things.sizes import Size as Extent",
        "from penstock.things.thing import MOST, Row",
        "from penstock.things.thing import Thing as AsyncThing",
        "from .face import Face",
    }


def test_what_has_no_docstring_is_refused(script: ModuleType, tmp_path: Path) -> None:
    source = '''
        class Thing:
            """One."""

            async def save(self) -> None: ...
    '''
    with pytest.raises(SystemExit, match=r"Thing\.save has no docstring"):
        made(script, tmp_path, source)


def test_the_public_methods_say_what_they_do() -> None:
    kinds = [getattr(penstock, name) for name in vars(penstock)["__all__"]]
    faces = [kind for kind in kinds if inspect.isclass(kind) and kind.__module__.startswith("penstock.blocking")]
    assert faces
    for face in faces:
        assert face.__doc__ is not None
        assert "async" not in face.__doc__
        public = [member for name, member in inspect.getmembers(face) if not name.startswith("_")]
        assert all(member.__doc__ and "``async" not in member.__doc__ and "``await " not in member.__doc__ for member in public)


def test_help_on_a_producer_shows_send() -> None:
    shown = pydoc.plain(pydoc.render_doc(penstock.Producer))
    assert "send(self, message: 'Message', *, queue: 'int | None' = None, sequence: 'int | None' = None) -> 'Receipt'" in shown
    assert "The receipt resolves when the message is durable." in shown


def test_a_producer_sends_without_a_call_in_between() -> None:
    with penstock.connect("memory://", maintenance=False) as lake:
        lake.create_topic("orders", message_type="FIFO", queues=1)
        with lake.producer("orders") as producer:
            assert vars(producer)["send"] == producer._core.send

"""The rules of the house that no tool knows. Each failure names the place and what to do."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.tree import AREAS, CONFIG, DOOR, ROOT, absolute_imports, dotted, files, modules

LINES_MAX = 600
# Longer ones, each with the reason why it is one thing.
LONG = {
    "tests/simulation/log/test_interleavings.py": "the interleavings of note 0001, one after another",
}

# Who may wait for real time in tests; everyone else uses tests/waiting.py or the simulation's clock.
WAITING = {
    "tests/waiting.py": "is the helper",
    "tests/servers.py": "waits for a server's port",
    "tests/coordinator/stage.py": "is simulated",
    "tests/mutation/plugin.py": "waits for its forks, none of which is a test",
    "tests/processes/consuming/worker.py": "has listeners that take their time",
    "tests/gateway/clients/client.py": "has listeners that take their time, and an SDK that is ready later than it says",
}

# Who imports this runs in the simulation's time, as it does itself.
STAGES = {"tests.coordinator.stage", "tests.coordinator.transactions.stage", "tests.log.stores.virtual_time"}

# Who may catch everything and say nothing.
SWALLOWING = {
    "tests/simulation/loop.py": "closes what crashed processes left, whatever it answers",
}

# Put together, so that this file does not name them itself.
FOLDERS = "|".join(["wo" + "rk", "fa" + "rm", "ro" + "ot", "Us" + "ers"])
MACHINE_PATHS = re.compile(rf"(?:^|[^A-Za-z0-9.~_}}-])/(?:{FOLDERS})/", re.MULTILINE)
HOSTS = ("py" + "pi.org", "pythonh" + "osted", "maven" + ".org", "proxy.go" + "lang", "npm" + "js", "crates" + ".io")
REGISTRIES = re.compile("|".join(map(re.escape, HOSTS)), re.IGNORECASE)
LEFTOVERS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X{3})\b")

# The synchronous classes have the names of the asynchronous ones that they are generated from.
BLOCKING = "penstock/blocking/"
NAMED_FILE = re.compile(r"`([a-z_][\w/]*/\w+\.py)(?:`|::)")

OURS = {"examples", "penstock", "tests"}
STARTED_MODULE = re.compile(rf"-m[ \"',]+((?:{'|'.join(sorted(OURS))})(?:\.\w+)+)")
MADE_UP = {"tests/test_blocking_face.py"}
"""Tests whose programs import packages that they write themselves."""

# Folders whose docstrings are checked: each opens with its subject or verb, and its sentences are short.
PLAIN = ("cdc", "consumers", "coordinator", "gateway", "infra", "log", "penstock", "spark")
SENTENCE_WORDS_MAX = 40
PARAGRAPH_LINES_MAX = 8
LINE_CHARS_MAX = 150
BARE_WORDS = re.compile(
    r"(?:After|Again|And|As|At|Before|Behind|By|For|From|In|Not|Of|On|Since|So|Than|That|Those|These|To|Under|Until|Which|While|Who|"
    r"Whose|With)\b"
)


def texts() -> Iterator[tuple[str, str]]:
    for path in files():
        try:
            yield str(path.relative_to(ROOT)), path.read_text()
        except UnicodeDecodeError:
            continue


def places(pattern: re.Pattern[str]) -> list[str]:
    """Where a pattern occurs in the repository's texts, as file:line."""
    return [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}"
        for path, text in texts()
        for match in pattern.finditer(text)
    ]


def calls(tree: ast.AST, *names: str) -> Iterator[int]:
    """The lines that call one of the functions, each named as it is written there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) in names:
            yield node.lineno


def test_a_class_name_occurs_once() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in modules(*AREAS, DOOR):
        if not path.startswith(BLOCKING):
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(path)
    assert len(places) > 1000
    assert not {name: found for name, found in places.items() if len(found) > 1}, "name the class by what only it is"


def test_pages_name_files_that_exist() -> None:
    ends = {"/".join(path.parts[start:]) for one in files() for path in [one.relative_to(ROOT)] for start in range(len(path.parts))}
    pages = {path: path.read_text() for path in files() if path.suffix == ".md"}
    gone = {
        f"{page.relative_to(ROOT)}: {name}" for page, text in pages.items() for name in NAMED_FILE.findall(text) if name not in ends
    }
    assert not gone


def test_programs_within_texts_import_what_exists() -> None:
    """A child process is started by a module's name, or by a program in a string: no type checker sees either."""
    named = {(path, name) for path, tree in modules() if path not in MADE_UP for name in named_in_strings(path, tree)}
    assert not {f"{path}: {name}" for path, name in named if not exists(name)}
    assert not {f"{path}: {name}" for path, text in texts() for name in STARTED_MODULE.findall(text) if not exists(name)}


def test_programs_within_texts_are_found() -> None:
    tree = ast.parse(
        """
        one = "import penstock.gone, json; from penstock import Message, nothing"
        two = f"{__package__}.absent"
        """.replace(8 * " ", "")
    )
    names = set(named_in_strings("spark/here.py", tree))
    assert names == {"penstock.gone", "penstock.Message", "penstock.nothing", "penstock.spark.absent"}
    assert [name for name in sorted(names) if exists(name)] == ["penstock.Message"]
    assert STARTED_MODULE.findall('"-m", "penstock' + '.gone"') == ["penstock.gone"]


def named_in_strings(path: str, tree: ast.Module) -> Iterator[str]:
    """The names of ours that programs within strings import, and those put together from a module's own package."""
    folder = Path(path).parent.parts
    package = ".".join(("penstock", *folder) if folder and folder[0] in AREAS else folder)
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr([ast.FormattedValue(ast.Name("__package__")), ast.Constant(str(rest))]):
                yield package + rest
            case ast.Constant(str(text)) if "import " in text:
                try:
                    program = ast.parse(textwrap.dedent(text))
                except SyntaxError:
                    continue
                yield from (name for name in imported(program) if name.partition(".")[0] in OURS)


def imported(program: ast.Module) -> Iterator[str]:
    for node in ast.walk(program):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def exists(name: str) -> bool:
    """Whether a name of ours is a module, or is had by one."""
    above, _, last = name.rpartition(".")
    return is_module(name) or (is_module(above) and hasattr(importlib.import_module(above), last))


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what is above it is none
        return False


def test_modules_are_short() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files() if path.suffix == ".py"}
    long = {path for path, length in lengths.items() if length > LINES_MAX}
    assert not {f"{path} has {lengths[path]} lines: which part is a thing of its own?" for path in long - LONG.keys()}
    assert not {f"{path} is short now: take it off the list" for path in LONG.keys() - long}


def test_docstrings_are_plain() -> None:
    odd = [
        f"{path}:{line}: {problem}"
        for path, tree in modules(*{folder.partition("/")[0] for folder in PLAIN})
        if path.startswith(tuple(f"{folder}/" for folder in PLAIN)) and not path.startswith("infra/scripts/")
        for line, text in docstrings(tree)
        for problem in oddities(text)
    ]
    assert not odd


def test_odd_docstrings_are_found() -> None:
    long = " ".join(["word"] * (SENTENCE_WORDS_MAX + 1))
    assert [*oddities("Of the topic's life.")] == ["opens with Of: name the subject, or say what it does"]
    assert [*oddities(f"Short.\n\nAlso short. {long}.")] == [f"{SENTENCE_WORDS_MAX + 1} words in a sentence: one thought in each"]
    assert not [*oddities(f"The name of a topic: of its life.\n\n    {long}\n\n{long[:-5]}. It ends.")]
    tree = ast.parse('"""Module."""\nclass Some:\n    """Class."""\n    one = 1\n    """Attribute."""\n')
    assert [*docstrings(tree)] == [(1, "Module."), (3, "Class."), (5, "Attribute.")]


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, its classes, functions and attributes, with their lines."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for step in body if isinstance(body, list) else ():
            match step:
                case ast.Expr(ast.Constant(str(text))):
                    yield step.lineno, inspect.cleandoc(text)


def oddities(docstring: str) -> Iterator[str]:
    """What makes a docstring hard to read. Indented blocks and tables are not prose."""
    if bare := BARE_WORDS.match(docstring):
        yield f"opens with {bare[0]}: name the subject, or say what it does"
    for paragraph in re.split(r"\n\s*\n", docstring):
        if re.search(r"^(?: |==|\|)", paragraph, re.MULTILINE):
            continue
        for sentence in re.split(r"(?<=[.!?])\s+", paragraph):
            if (words := len(sentence.split())) > SENTENCE_WORDS_MAX:
                yield f"{words} words in a sentence: one thought in each"


def test_pages_are_plain() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    odd = [f"{page.relative_to(ROOT)}:{line}: {problem}" for page in pages for line, problem in hard_to_read(page.read_text())]
    assert not odd


def test_odd_prose_is_found() -> None:
    long = " ".join("a" * (SENTENCE_WORDS_MAX + 1))
    high = "A line.\n" * (PARAGRAPH_LINES_MAX + 1)
    wide = "word " * 40
    code = f"`{long}`, as is, and [a link](to/a/page.md)"
    assert [*hard_to_read(f"# A page\n\nShort. It is: {long}.\n")] == [(3, "43 words in a sentence: one thought in each")]
    assert [*hard_to_read(f"1. One.\n2. {long[:40]}\n   {long[40:]}.\n")] == [(2, "41 words in a sentence: one thought in each")]
    assert [*hard_to_read(f"One.\n\n{high}")] == [(3, "9 lines in a paragraph: what is a paragraph or list of its own?")]
    assert [*hard_to_read(f"One.\n{wide}")] == [(1, "a line of 200 characters: wrap it")]
    assert [line for line, problem in hard_to_read("```\nx = 1\n\nIt is one.\n") if "fence" in problem] == [1]
    assert not [*hard_to_read(f"{code}.\n\n| {long} |\n\n```\n{long}\n\n{high}{wide}\n```\n\n## {long}\n" + "- One.\n" * 9)]


def hard_to_read(page: str) -> Iterator[tuple[int, str]]:
    """What makes a page's prose hard to read, by the lines where a paragraph or an item of a list begins."""
    if len(fences := [number for number, line in enumerate(page.splitlines(), 1) if line.lstrip().startswith("```")]) % 2:
        yield fences[-1], "a fence that opens or closes nothing: all behind it is taken for code, or for prose"
    for begun, lines in paragraphs(page):
        for words in map(len, map(str.split, sentences(" ".join(lines)))):
            if words > SENTENCE_WORDS_MAX:
                yield begun, f"{words} words in a sentence: one thought in each"
        if len(lines) > PARAGRAPH_LINES_MAX:
            yield begun, f"{len(lines)} lines in a paragraph: what is a paragraph or list of its own?"
        if (chars := max(map(len, lines))) > LINE_CHARS_MAX:
            yield begun, f"a line of {chars} characters: wrap it"


def paragraphs(page: str) -> Iterator[tuple[int, list[str]]]:
    """The paragraphs and items of lists, with their first lines. Code, tables, headings, HTML and what mkdocstrings fills in are not prose."""
    lines, begun, is_code = list[str](), 0, False
    for number, line in enumerate([*page.splitlines(), ""], 1):
        is_fence = line.lstrip().startswith("```")
        is_prose = not (is_code or is_fence or re.match(r"\s*$|[|#<]|:::", line))
        if lines and (not is_prose or re.match(r"\s*(?:[-*]|\d+\.) ", line)):
            yield begun, lines
            lines = []
        if is_prose:
            begun = begun if lines else number
            lines.append(line)
        is_code ^= is_fence


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph. What stands in backquotes counts as one word."""
    return re.split(r"(?<=[.!?])[)*\"]*\s+", re.sub(r"`[^`]*`", "code", paragraph))


def test_no_error_is_swallowed() -> None:
    swallowed = [
        f"{path}:{line}: say which errors, and why they do not matter"
        for path, tree in modules()
        if path not in SWALLOWING
        for line in swallowing(tree)
    ]
    assert not swallowed


def swallowing(tree: ast.Module) -> Iterator[int]:
    """The lines that catch everything and do nothing about it."""
    everything = {"Exception", "BaseException"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            if (node.type is None or dotted(node.type) in everything) and all(map(does_nothing, node.body)):
                yield node.lineno
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("suppress") and everything & {*map(dotted, node.args)}:
            yield node.lineno


def does_nothing(step: ast.stmt) -> bool:
    return isinstance(step, (ast.Pass, ast.Continue)) or (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))


def test_no_test_sleeps() -> None:
    slept = [
        f"{path}:{line}: use tests/waiting.py"
        for path, tree in modules("tests")
        if not path.startswith("tests/benchmarks/") and path not in WAITING
        for line in calls(tree, "time.sleep", "sleep")
    ]
    assert not slept


def test_real_time_passes_in_no_asyncio_test() -> None:
    # In the simulation asyncio.sleep costs nothing; elsewhere only giving way (0) is free.
    slept = [
        f"{path}:{node.lineno}: simulate it, or wait for the event itself"
        for path, tree in modules("tests")
        if not path.startswith(("tests/benchmarks/", "tests/simulation/"))
        and path not in WAITING
        and not STAGES & set(absolute_imports(tree))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and dotted(node.func) == "asyncio.sleep" and ast.unparse(node) != "asyncio.sleep(0)"
    ]
    assert not slept


def test_types_of_msgspec_are_looked_at_in_one_place() -> None:
    """Two threads that do so for the first time end the process. Modules that make their decoders when they are imported are safe."""
    found = [
        f"{path}:{line}"
        for path in files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in AREAS and path.name != "forms.py"
        for line in looks_at_types(ast.parse(path.read_text()))
    ]
    assert not found, "use log/format/forms.py"


def test_looks_at_types_are_found() -> None:
    assert [*looks_at_types(ast.parse("msgspec.convert(x, X)\nmsgspec.json.decode(x)\nmsgspec.json.decode(x, type=X)"))] == [1, 3]
    assert [*looks_at_types(ast.parse("D = msgspec.json.Decoder(X)\ndef f():\n    return msgspec.json.Decoder(X)"))] == [3]


def looks_at_types(tree: ast.Module) -> Iterator[int]:
    yield from calls(tree, "msgspec.convert")
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and dotted(node.func) == "msgspec.json.decode"
            and any(one.arg == "type" for one in node.keywords)
        ):
            yield node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from calls(node, "msgspec.json.Decoder")


def test_delta_tables_are_read_in_one_place() -> None:
    """Other ways of deltalake's show NULL in columns that are mapped."""
    found = [
        f"{path}:{line}" for path, tree in modules(*AREAS, DOOR) if path != "cdc/delta/reader.py" for line in reads_of_delta(tree)
    ]
    assert not found, "use cdc/delta/reader.py"


def test_reads_of_delta_tables_are_found() -> None:
    found = "DeltaTable(p)\ndeltalake.DeltaTable(p)\nx.to_pyarrow_table()\nx.delta().to_pyarrow_dataset(1)\nQueryBuilder()\nimport duckdb"
    assert {*reads_of_delta(ast.parse(f"{found}\nfrom polars import scan_delta"))} == {*range(1, 8)}
    assert not [*reads_of_delta(ast.parse("DeltaTable.forPath(s, p)\nfrom deltalake import DeltaTable\nwrite_deltalake()"))]


READS_OF_DELTA = {"DeltaTable", "QueryBuilder", "to_pyarrow_table", "to_pyarrow_dataset", "load_cdf", "scan_delta", "read_delta"}


def reads_of_delta(tree: ast.Module) -> Iterator[int]:
    """The lines that read a Delta table by deltalake, or by something that may not know all of Delta."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name(name) | ast.Attribute(attr=name)) if name in READS_OF_DELTA:
                yield node.lineno
            case ast.Import() if any(one.name.partition(".")[0] == "duckdb" for one in node.names):
                yield node.lineno
            case ast.ImportFrom() if any(one.name in READS_OF_DELTA - {"DeltaTable", "QueryBuilder"} for one in node.names):
                yield node.lineno


def test_no_scan_holds_memory_of_pythons() -> None:
    found = [f"{path}:{line}" for path, tree in modules(*AREAS, DOOR, "tests") for line in scans_of_memory(tree)]
    assert not found, (
        "Arrow's threads may let go of it after the interpreter's end, and abort: ParquetFile(…).read(use_threads=False)"
    )


def test_scans_of_memory_are_found() -> None:
    found = "pq.read_table(io.BytesIO(d), columns=[])\nread_table(pa.BufferReader(d))"
    assert [*scans_of_memory(ast.parse(f"{found}\npq.read_table(path)\npq.read_table(Path(p))"))] == [1, 2]


def scans_of_memory(tree: ast.Module) -> Iterator[int]:
    """The lines that read Parquet in memory by Arrow's scanner, which has threads also where it is told not to use them."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                ast.Name("read_table") | ast.Attribute(attr="read_table"),
                [ast.Call(ast.Name("BytesIO" | "BufferReader") | ast.Attribute(attr="BytesIO" | "BufferReader")), *_],
            ):
                yield node.lineno


def test_bans_are_lifted_per_file_and_not_in_a_line() -> None:
    lifted = re.compile("no" + "qa:[^#\n]*TID251")
    assert not places(lifted), "say it in pyproject.toml, per-file-ignores, with the reason"


def test_bans_are_lifted_for_few_files_of_the_library() -> None:
    lifted = {
        pattern
        for pattern, rules in CONFIG["tool"]["ruff"]["lint"]["per-file-ignores"].items()
        if "TID251" in rules and pattern.partition("/")[0] in AREAS - {"infra"}
    }
    assert lifted == {"log/runtime/runtime.py"}


def test_no_path_of_one_machine() -> None:
    assert not places(MACHINE_PATHS)


def test_no_address_of_a_package_registry() -> None:
    assert not places(REGISTRIES), "their clients know them"


def test_nothing_is_left_for_later() -> None:
    assert not places(LEFTOVERS), "do it, or file an issue"


def test_links_in_documents_lead_somewhere() -> None:
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    dead = [
        f"{path}: {target}"
        for path, text in texts()
        if path.endswith(".md")
        for target in link.findall(text)
        if "://" not in target and not (ROOT / Path(path).parent / target).exists()
    ]
    assert not dead


def test_contributors_are_sent_to_files_that_exist() -> None:
    named = set(re.findall(r"[\w./]*\w\.py\b", (ROOT / "CONTRIBUTING.md").read_text()))
    paths = [f"/{path.relative_to(ROOT)}" for path in files()]
    assert not [name for name in named if not any(path.endswith(f"/{name}") for path in paths)]


def test_changelog_knows_the_version() -> None:
    assert f"## [{CONFIG['project']['version']}]" in (ROOT / "CHANGELOG.md").read_text()

"""`penstock doctor`, and its checks, each with its fix."""

from __future__ import annotations

import asyncio
import importlib.metadata
import operator
import platform
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from ....log import PenstockError, Runtime, open_store
from ....log.errors import MissingDependency, install_hint
from ....log.limits import CLOCK_SKEW_MAX_MS
from ....log.stores import Put, probe_conditional_writes
from ...terminal import output
from ...terminal.exit_codes import OTHER
from ...terminal.session import CommandSession, group_options
from ...terminal.wording import in_shell

if TYPE_CHECKING:
    from ....log import LogLake, ObjectStore

_PYTHON = (3, 11)
_PATIENCE_S = 60.0
_KEY = ".doctor/{}"
_TABLE = "coordination"


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """The result of one check."""

    name: str
    status: Literal["ok", "problem", "note"]
    observed: str
    fix: str = ""


Found: TypeAlias = Callable[[DoctorCheck], None]
"""Called with each check once it is done."""


def check_store(url: str, found: Found) -> None:
    """Check the store: reaching it, permissions, conditional writes, clock. Leaves no object behind."""
    try:
        store = open_store(url)
    except PenstockError as error:
        found(_problem("URL", error, "Give a folder, s3://bucket/prefix, gs://… or az://…"))
        return
    found(DoctorCheck("URL", "ok", store.url))
    asyncio.run(_check_store(store, Runtime(), found))


async def _check_store(store: ObjectStore, runtime: Runtime, found: Found) -> None:
    key = _KEY.format(runtime.new_id())

    async def listing() -> str:
        return f"may list; topics: {len(await store.list_folders('topics/'))}"

    async def writing() -> str:
        await store.put(key, b"doctor", mode=Put.REPLACE)
        return "may write"

    async def reading() -> str:
        data = (await store.get(key)).data
        return "may read" if data == b"doctor" else "other bytes came back"

    async def deleting() -> str:
        await store.delete(key)
        return "may delete"

    async def conditions() -> str:
        await probe_conditional_writes(store, runtime)
        return "honoured, also in races"

    found(await _checked("credentials, list", listing, "Check the credentials, and allow listing the bucket (s3:ListBucket)"))
    may_write = await _checked(
        "write", writing, "Allow putting objects (s3:PutObject); reading works without, with read-only access"
    )
    found(may_write)
    if may_write.status == "ok":
        found(await _checked("read", reading, "Allow getting objects (s3:GetObject)"))
        found(await _checked("delete", deleting, "Allow deleting objects (s3:DeleteObject)"))
        found(await _checked("conditional writes", conditions, "Use a store that knows If-None-Match and If-Match"))
        found(await _clock(store, runtime))
        with suppress(PenstockError):  # if deleting is not allowed, the check above has said so
            await store.delete(key)
    await store.close()


async def _checked(name: str, work: Callable[[], Awaitable[str]], fix: str) -> DoctorCheck:
    try:
        return DoctorCheck(name, "ok", await asyncio.wait_for(work(), _PATIENCE_S))
    except PenstockError as error:
        return _problem(name, error, fix)
    except TimeoutError:
        return DoctorCheck(name, "problem", f"no answer within {_PATIENCE_S:.0f} s", "Check the network, the endpoint and proxies")


def _problem(name: str, error: PenstockError, fix: str) -> DoctorCheck:
    from ....log.stores.remote_errors import REFUSED_HINT

    observed = f"{error.message} ({error.observed})" if error.observed else error.message
    # The store's own hint knows more, unless it only says that something is not allowed. Then `fix` says what is to be allowed.
    return DoctorCheck(name, "problem", observed, fix if error.hint is None or (fix and error.hint == REFUSED_HINT) else error.hint)


async def _clock(store: ObjectStore, runtime: Runtime) -> DoctorCheck:
    fix = "Set this machine's clock, by NTP for example"
    try:
        before_ms = runtime.clock.wall_ms()
        store_ms = await store.clock_ms()
        offset_ms = (before_ms + runtime.clock.wall_ms()) // 2 - store_ms
    except PenstockError as error:
        return _problem("clock", error, fix)
    observed = f"{abs(offset_ms) / 1000:.1f} s {'ahead of' if offset_ms > 0 else 'behind'} the store's"
    if abs(offset_ms) > CLOCK_SKEW_MAX_MS:
        return DoctorCheck("clock", "problem", f"{observed}; five minutes is too much", fix)
    return DoctorCheck("clock", "ok", observed)


async def check_lake(session: CommandSession, found: Found) -> None:
    """Check what lies in the lake. The store may be right for what this machine is to do, even where the lake cannot be read: that is a note."""
    from .growth_check import check_growth
    from .routing_check import check_routing

    async with session.open_async(read_only=True) as lake:
        table = await check_table(lake, session.coordination)
        found(table)
        looks = [("routing", "topics", check_routing), ("queues", "consumer groups", check_growth)]
        for name, looked_at, check in looks if table.status == "ok" else looks[:1]:
            try:
                await asyncio.wait_for(check(lake, found), _PATIENCE_S)
            except TimeoutError:
                found(DoctorCheck(name, "note", f"not all {looked_at} were looked at within {_PATIENCE_S:.0f} s"))
            except PenstockError as error:
                found(DoctorCheck(name, "note", f"the {looked_at} cannot be looked at: {error.message}", error.hint or ""))


async def check_table(lake: LogLake, url: str | None) -> DoctorCheck:
    """Check that the table of consumer groups answers and is the lake's. One that nobody named (``url``) may be none of this machine's business."""
    from ....coordinator.cells.table_record import shown_table
    from ....coordinator.operators.lake_table import table_status

    async def answering() -> str:
        status = await table_status(url, store=lake.store, runtime=lake.runtime)
        if (problem := status.problem) is not None:
            raise type(problem)(problem.message, observed=f"{problem.expected}, not {problem.observed}", hint=problem.hint)
        return shown_table(status.named.url, status.named_id)

    check = await _checked(_TABLE, answering, "Let this machine reach the table of --coordination, or name another")
    return replace(check, status="note") if check.status == "problem" and url is None else check


def machine_checks() -> Iterator[DoctorCheck]:
    """The checks of this machine: Python, libraries, Java, JARs."""
    yield _python()
    yield from _libraries()
    yield from _spark()


def _python() -> DoctorCheck:
    observed = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < _PYTHON:
        return DoctorCheck("Python", "problem", observed, f"Install Python {_PYTHON[0]}.{_PYTHON[1]} or newer")
    return DoctorCheck("Python", "ok", observed)


def _libraries() -> Iterator[DoctorCheck]:
    seen = {"penstock"}
    for requirement in map(Requirement.parse, importlib.metadata.requires("penstock") or []):
        name = requirement.name
        if name in seen:
            continue
        seen.add(name)
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if requirement.extra:
                said = f"not installed; only the extra {requirement.extra} needs it"
                yield DoctorCheck(name, "note", said, install_hint(requirement.extra))
            else:
                yield DoctorCheck(name, "problem", "not installed", f"pip install '{name}{requirement.versions}'")
            continue
        if requirement.fits(version):
            yield DoctorCheck(name, "ok", version)
        else:
            yield DoctorCheck(name, "problem", f"{version} does not fit", f"pip install '{name}{requirement.versions}'")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A required library, in the plain form of pyproject.toml."""

    name: str
    versions: str
    """The versions, such as ``>=1.6,<2``."""
    extra: str | None

    @staticmethod
    def parse(text: str) -> Requirement:
        """A requirement from the metadata of an installed package."""
        match = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*([^;]*)(?:;.*extra == ['\"](\w+)['\"])?", text)
        assert match is not None, "installers write nothing else"
        return Requirement(match[1], match[2].strip(), match[3])

    def fits(self, version: str) -> bool:
        """Whether a version is among the required ones."""
        clauses = re.findall(r"([<>=!]=|[<>])\s*([\d.]+)", self.versions)
        return all(_COMPARE[relation](_numbers(version), _numbers(bound)) for relation, bound in clauses)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


def _numbers(version: str) -> list[int]:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:4]]
    return numbers + [0] * (4 - len(numbers))


def _spark() -> Iterator[DoctorCheck]:
    from ....spark import jars, java, versions

    wanted: Literal["problem", "note"] = "note"
    if (release := versions.installed_release("pyspark")) is not None:
        wanted = "problem"
        try:
            versions.check_versions()
            yield DoctorCheck("Spark", "ok", f"pyspark {release} with delta-spark {versions.DELTA}")
        except MissingDependency as error:
            yield DoctorCheck("Spark", "note", f"{error.observed}; Delta tables in Spark need {error.expected}", error.hint or "")
    try:
        found = java.find_java()
        yield DoctorCheck("Java", "ok", f"{found.major} in {found.home}")
    except MissingDependency as error:
        yield DoctorCheck("Java", wanted, f"{error.observed}; Spark needs {error.expected}", error.hint or "")
    missing = jars.missing_jars()
    if missing:
        names = f"{len(missing)} of {len(jars.jar_list())} are not in {jars.cache_folder()}"
        yield DoctorCheck(
            "JARs", "note", f"{names}; the first session fetches them", "python -m penstock.spark.prefetch, with a network"
        )
    else:
        yield DoctorCheck("JARs", "ok", f"{len(jars.jar_list())} in {jars.cache_folder()}")


_COLOURS = {"ok": "green", "problem": "red", "note": "yellow"}


@click.command()
@click.argument("url", required=False)
@group_options
@click.pass_obj
def command(session: CommandSession, url: str | None) -> int:
    """Check the store at URL (default: the lake), the table of --coordination and this machine, and say what to do about every problem.

    Writes a few objects under .probe/ and .doctor/, and removes them. Of the newest messages it looks whether each message group lies in
    the queue that the topic's routing says, and of consumer groups whether more queues would help them. The exit code is 1 when there is a problem.
    Notes are about parts that only some uses need.
    """
    problems = 0

    def found(check: DoctorCheck) -> None:
        nonlocal problems
        problems += check.status == "problem"
        _show(session, check)

    session.url = url or session.lake_url
    check_store(session.url, found)
    if not problems:
        asyncio.run(check_lake(session, found))
    for check in machine_checks():
        found(check)
    return OTHER if problems else 0


def _show(session: CommandSession, check: DoctorCheck) -> None:
    if session.as_json:
        output.emit(output.fields(check))
        return
    status = click.style(f"{check.status:<8}", fg=_COLOURS[check.status])
    output.say(f"{status} {check.name:<20} {check.observed}")
    if check.fix:
        output.say(f"{'':<8} {'':<20} fix: {in_shell(check.fix)}")

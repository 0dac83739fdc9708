"""The command `penstock` itself: its commands, and how every one of them ends."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TextIO

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ..terminal.exit_codes import EXIT_CODES, report_error
from ..terminal.session import CommandSession, Interrupted, OutputFailed, Signals, json_option, writing_output
from ..terminal.values import DurationParam


@dataclass(frozen=True, slots=True)
class _Command:
    module: str
    help: str


COMMANDS = {
    "topic": _Command("lake.topics", "Create, list, describe, alter and delete topics."),
    "produce": _Command("messages.produce", "Send JSON lines, CSV, Parquet or Debezium events to a topic."),
    "send": _Command("lake.send", "Send one message to a topic, as for a test."),
    "read": _Command("messages.read", "Show or export messages of a topic."),
    "tail": _Command("messages.tail", "Show messages as they arrive."),
    "trace": _Command("messages.trace", "Tell the life of one message, by its id."),
    "consume": _Command(
        "consuming.consume", "Consume a topic in a consumer group: print messages, run a command, call a function."
    ),
    "run": _Command("consuming.run", "Run the listeners of an application in one or several processes."),
    "capture": _Command("changes.capture", "Follow a database's changes into a topic."),
    "sync": _Command("changes.sync", "Apply a topic's change events to Delta tables, exactly once."),
    "cuts": _Command("changes.cuts", "All tables of a sync as of one source transaction: list, show, export."),
    "group": _Command(
        "groups.groups", "Consumer groups: create, list, describe, alter, delete, reset; lag; parked message groups."
    ),
    "dlq": _Command("groups.dlq", "Dead letters of consumer groups: list, read, send back."),
    "timer": _Command("lake.timers", "Delayed messages that wait: list, call back."),
    "tx": _Command("lake.tx", "Transactions of producer groups: list, describe, commit, roll back."),
    "access": _Command("access.access", "The rights of a gateway's clients: principals, secrets, roles, grants."),
    "coordination": _Command("groups.coordination", "The table that holds the groups' progress: which one it is; move to another."),
    "workers": _Command("groups.workers", "The processes that consume, and whether each lives."),
    "verify": _Command("lake.verify", "Check everything that topics have stored."),
    "verify-sync": _Command("changes.verify_sync", "Compare Delta tables with dumps of their source, or with a PostgreSQL."),
    "repair": _Command("lake.repair", "Let a log go on that stops at a damaged entry."),
    "gateway": _Command("gateway.gateway", "Serve another system's clients, such as RocketMQ 5's of any language."),
    "console": _Command("console.console", "Serve the console of lakes to browsers: see what blocks, and act."),
    "mcp": _Command("console.mcp", "Serve a lake to a program that speaks the Model Context Protocol."),
    "maintain": _Command("lake.maintain", "Publish, compact, expire, trim and collect, until stopped."),
    "doctor": _Command("setup.doctor", "Check a store and this machine, with a fix for every problem."),
    "cost": _Command("setup.cost", "Estimate a workload's requests, storage and money."),
    "infra": _Command("setup.infra", "Policies, Terraform, the DynamoDB table, and S3 on this machine."),
    "completion": _Command("setup.completion", "Print the completion script of a shell."),
}


class _Commands(click.Group):
    """Loads a command when it is used, and ends the process with a fitting exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(f".{COMMANDS[cmd_name].module}", __package__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        items = [CompletionItem(name, help=COMMANDS[name].help) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has seen enough; click would make a failure of it
            raise Interrupted(signal.SIGPIPE) from None

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - click's
        words = args[0] if args else options.get("args")
        # Also an error of the call itself, found before its options are read, is shown in the requested form.
        session = CommandSession(signals=Signals(), as_json="--json" in (sys.argv[1:] if words is None else words))
        if "_PENSTOCK_COMPLETE" in os.environ:
            from ..terminal.completion import rejoin_words_of_bash

            rejoin_words_of_bash()
        with session.signals.handled():
            try:
                stdout: TextIO | None = sys.stdout
                if stdout is None:
                    raise OutputFailed("Standard output is closed; to discard it, use > /dev/null.")
                result = super().main(*args, **{**options, "standalone_mode": False, "obj": session})
                with writing_output():
                    sys.stdout.flush()
            except BaseException as error:  # noqa: BLE001 - this is the outermost place: everything ends here, with its exit code
                _leave(report_error(error, session), session)
        _leave(result if isinstance(result, int) else 0, session)


def _leave(code: int, session: CommandSession) -> NoReturn:
    if session.abandoned:
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from ... import __version__

        click.echo(f"penstock {__version__}")
        ctx.exit()


@click.group(
    name="penstock",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
)
@click.option("--lake", metavar="URL", envvar="PENSTOCK_LAKE", show_envvar=True, help="The lake: a folder, s3://bucket/prefix, …")
@click.option(
    "--coordination",
    metavar="URL",
    envvar="PENSTOCK_COORDINATION",
    show_envvar=True,
    help="Table of consumer groups: sqlite:///path, dynamodb://table, postgresql://user@host/db, store; default: beside a folder, else in the lake.",
)
@click.option(
    "--refusal-timeout",
    metavar="DURATION",
    type=DurationParam(),
    envvar="PENSTOCK_REFUSAL_TIMEOUT",
    show_envvar=True,
    default="5m",
    show_default=True,
    help="How long to try again what the store or the table refuses and allowed before.",
)
@json_option
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version.")
@click.pass_context
def main(ctx: click.Context, lake: str | None, coordination: str | None, refusal_timeout: timedelta, debug: bool) -> None:
    """Ordered message queues on nothing but object storage.

    --lake and --json stand before a command or behind it.
    """
    session = ctx.ensure_object(CommandSession)
    session.url, session.coordination, session.debug = lake, coordination or None, debug
    session.refusal_timeout = refusal_timeout
    session.url_is_default = ctx.get_parameter_source("lake") is ParameterSource.ENVIRONMENT

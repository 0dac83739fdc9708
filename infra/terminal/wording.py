"""The library's hints in the words of the command line."""

from __future__ import annotations

LIMITS = (
    *("max_body_bytes", "max_properties_bytes", "max_properties", "max_message_group_bytes", "max_delay"),
    *("max_headers_bytes", "max_headers"),
)

SHELL = {
    "damaged='skip'": "--damaged skip",
    "give the message a message_group": "give --group, of a field that is not empty",
    "leave message_group and delivery_timestamp out": "leave --group out",
    "give the message a delivery_timestamp or a delay": "give --delay, --level or --deliver-at",
    "leave delivery_timestamp and delay out": "leave --delay, --level and --deliver-at out",
    "datetime.now(UTC) + timedelta(…), or attach a tzinfo": "2026-01-31T12:00:00Z is one with a zone",
    "start at 'earliest', 'latest' or a time": "give --start earliest, latest or a time",
    "create it with lake.create_topic or `penstock topic create`": "`penstock topic create` creates it; `penstock topic list` names "
    "those that are there",
    "Set them in the environment or pass options": "Set them in the environment",
    "open it with name=…": "give --name",
    "reopen the producer; a named producer's last_sequence says what was written": "run it again; with --name and --sequence it goes "
    "on where it had ended",
    "or open it anew, which fences that one, and go on from last_sequence": "or run this again, which fences that one",
    "None keeps for ever": "forever keeps them",
    "create it with lake.create_group or `penstock group create`, or start a consumer, which makes it": "`penstock group create` creates "
    "it, as does its first consumer; `penstock group list` names those that are there",
    "Make it with penstock.coordinator.create_table(url), or check": "`penstock infra table create` makes it; else check",
    "make one with penstock.coordinator.create_table(url)": "make one with `penstock infra table create`",
    "stop them first, or force it": "stop them first, or give --force",
    "reset all queues, or start a consumer first": "leave --queue out, or start a consumer first",
}
"""The library's words, and their counterparts here."""


def in_shell(hint: str) -> str:
    """A hint without the library's calls."""
    for said, here in SHELL.items():
        hint = hint.replace(said, here)
    from ...log.message.message import limit_hint

    for setting in LIMITS:
        less, _, call = limit_hint(setting).partition(": ")
        hint = hint.replace(f"{less}: {call}", f"{less}: `penstock topic alter … --{setting.replace('_', '-')} …`")
    return hint

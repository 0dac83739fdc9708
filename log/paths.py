"""Maps names to object keys and back, for every store and Delta reader.

Numbers are padded to 20 digits where order matters. No key has a ``%``, which Delta readers decode, or is the folder of another. No path part is
longer than 255 bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import ForeignObject, InvalidArgument, LimitExceeded
from .escapes import steers
from .limits import GROUP_STORED_BYTES_MAX, PATH_PART_BYTES_MAX, TOPIC_NAME_CHARS_MAX

AUDIT_TOPIC = "penstock-audit"
"""The topic of consoles' audit records. A right to send to any topic does not include it."""
DLQ_PREFIX = "%DLQ%"
TIMER_PREFIX = "%TIMER%"
_FOLDER_PREFIXES = {DLQ_PREFIX: "dlq.", TIMER_PREFIX: "timer."}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
_PLAIN_GROUP = re.compile(r"(?!\.)[A-Za-z0-9._-]+")
_ESCAPED_OF_GROUP = re.compile(r"^\.|[^A-Za-z0-9._-]")
_ESCAPED_BYTES = re.compile(r"(?:![0-9a-f]{2})+")
TOPICS = "topics/"


def check_topic_name(name: str) -> None:
    """Raise unless ``name`` can be a topic's: letters, digits, ``.``, ``_`` and ``-``, at most 249, such a name after ``%TIMER%``, or what
    `dead_letter_topic` gives.

    ``.``, ``..`` and names that begin with ``dlq.`` or ``timer.`` are refused.
    """
    if not isinstance(name, str):
        raise InvalidArgument("a topic name must be a string", observed=type(name).__name__)
    prefix = _prefix(name)
    plain = name.removeprefix(prefix)
    if len(plain) > TOPIC_NAME_CHARS_MAX:
        raise LimitExceeded(
            "the topic name is too long", expected=f"at most {TOPIC_NAME_CHARS_MAX} characters", observed=len(plain)
        )
    if prefix == DLQ_PREFIX:
        _check_dead_letters(name, plain)
    elif not _PLAIN_NAME.fullmatch(plain) or plain in {".", ".."}:
        raise InvalidArgument(
            "bad topic name",
            object=name,
            expected="letters, digits, '.', '_' and '-', not '.' or '..' (dead-letter topics: '%DLQ%' and the group, "
            "timer logs: '%TIMER%' and such a name)",
        )
    elif plain.startswith(tuple(_FOLDER_PREFIXES.values())):
        raise InvalidArgument(
            "bad topic name",
            object=name,
            expected="no 'dlq.' or 'timer.' at its beginning: so begin the folders of dead-letter topics and timer logs",
        )


def _check_dead_letters(name: str, folder: str) -> None:
    try:
        group_name(folder)
    except ForeignObject:
        raise InvalidArgument(
            "bad topic name",
            object=name,
            expected="'%DLQ%' and a group: letters, digits, '.', '_' and '-', and every other byte of it as '!' and two "
            "hexadecimal digits, also a '.' at its beginning",
        ) from None


def topic_folder(name: str) -> str:
    """``orders`` for ``orders``, ``dlq.billing`` for ``%DLQ%billing``, ``timer.orders`` for ``%TIMER%orders``."""
    check_topic_name(name)
    prefix = _prefix(name)
    return _FOLDER_PREFIXES.get(prefix, "") + name.removeprefix(prefix)


def _prefix(name: str) -> str:
    if not name.startswith("%"):  # as most
        return ""
    return next((prefix for prefix in _FOLDER_PREFIXES if name.startswith(prefix)), "")


def topic_name(folder: str) -> str:
    """The inverse of `topic_folder`. Raises `ForeignObject`."""
    of_prefix = (prefix + folder.removeprefix(first) for prefix, first in _FOLDER_PREFIXES.items() if folder.startswith(first))
    name = next(of_prefix, folder)
    try:
        if topic_folder(name) == folder:
            return name
    except (InvalidArgument, LimitExceeded) as error:
        raise ForeignObject("not a topic's folder", object=TOPICS + folder) from error
    raise ForeignObject("not a topic's folder", object=TOPICS + folder)


def collides(name: str, other: str) -> bool:
    """Whether Kafka refuses to make one topic beside the other: they differ only in ``.`` and ``_``, which its metrics do not tell apart."""
    return name != other and name.replace(".", "_") == other.replace(".", "_")


def check_group_name(name: object) -> None:
    """Raise unless this can be a consumer group's name: any text in one line, without characters that control a terminal."""
    if not isinstance(name, str):
        raise InvalidArgument("a consumer group's name must be a string", observed=type(name).__name__)
    if not name or steers(name[:GROUP_STORED_BYTES_MAX]):
        raise InvalidArgument(
            "bad consumer group name",
            expected="1 or more characters, none of which controls a terminal, ends a line, or is a lone surrogate",
            observed=name,
        )
    if name.startswith(DLQ_PREFIX):
        raise InvalidArgument("a consumer group's name cannot begin like a dead-letter queue's", observed=name)
    size = len(name) if len(name) > GROUP_STORED_BYTES_MAX else len(_escaped(name))
    if size > GROUP_STORED_BYTES_MAX:
        raise LimitExceeded(
            "the consumer group's name is too long",
            expected=f"at most {GROUP_STORED_BYTES_MAX} characters, where each byte (in UTF-8) of others than letters, digits, "
            "'.', '_' and '-' counts as 3",
            observed=size,
        )


def group_folder(group: str) -> str:
    """The group's name as a part of keys: ``billing`` for ``billing``, ``team!2fbilling`` for ``team/billing``.

    Each byte (in UTF-8) of other characters than letters, digits, ``.``, ``_`` and ``-``, and of a ``.`` at the beginning, is ``!`` and two
    hexadecimal digits. So the beginning of a name gives the beginning of its part.
    """
    check_group_name(group)
    return _escaped(group)


def _escaped(group: str) -> str:
    if _PLAIN_GROUP.fullmatch(group):
        return group
    return _ESCAPED_OF_GROUP.sub(lambda found: "".join(f"!{byte:02x}" for byte in found[0].encode()), group)


def group_name(folder: str) -> str:
    """The inverse of `group_folder`. Raises `ForeignObject`."""
    try:
        group = _ESCAPED_BYTES.sub(lambda found: bytes.fromhex(found[0].replace("!", "")).decode(), folder)
        if group_folder(group) == folder:
            return group
    except (UnicodeError, InvalidArgument, LimitExceeded) as error:
        raise ForeignObject("not a consumer group's key", object=folder) from error
    raise ForeignObject("not a consumer group's key", object=folder)


def dead_letter_topic(group: str) -> str:
    """``%DLQ%billing`` for ``billing``, ``%DLQ%team!2fbilling`` for ``team/billing``. Raises `InvalidArgument` or `LimitExceeded`."""
    return DLQ_PREFIX + group_folder(group)


def dead_letter_group(topic: str) -> str | None:
    """The group of a topic of dead letters; None for any other topic."""
    return group_name(topic.removeprefix(DLQ_PREFIX)) if topic.startswith(DLQ_PREFIX) else None


def timer_log_name(topic: str) -> str:
    """``%TIMER%orders`` for ``orders``."""
    return TIMER_PREFIX + topic


def is_timer_log(topic: str) -> bool:
    return topic.startswith(TIMER_PREFIX)


def topic_of(timer_log: str) -> str:
    return timer_log.removeprefix(TIMER_PREFIX)


def is_staged(key: str) -> bool:
    folder, *parts = key.split("/")
    return folder == "staged" and bool(parts) and all(part.isprintable() and part not in {"", ".", ".."} for part in parts)


def zero_padded(number: int) -> str:
    return f"{number:020d}"


def parse_padded(text: str) -> int | None:
    """The number in a 20-digit name, or None."""
    return int(text) if len(text) == 20 and text.isdecimal() and text.isascii() else None


@dataclass(frozen=True, slots=True)
class TopicPaths:
    """The keys of one topic, relative to the lake."""

    topic: str
    root: str

    @classmethod
    def of(cls, topic: str) -> TopicPaths:
        return cls(topic, f"{TOPICS}{topic_folder(topic)}/")

    @property
    def settings(self) -> str:
        return f"{self.root}topic.json"

    # log
    @property
    def log(self) -> str:
        return f"{self.root}log/"

    def entry(self, number: int) -> str:
        return f"{self.root}log/{zero_padded(number)}.parquet"

    def entry_number(self, key: str) -> int | None:
        name = key.removeprefix(self.log)
        return parse_padded(name.removesuffix(".parquet")) if name.endswith(".parquet") and name != key else None

    @property
    def floor(self) -> str:
        return f"{self.root}log/floor"

    @property
    def checkpoints(self) -> str:
        return f"{self.root}log/checkpoints/"

    def checkpoint(self, entry: int) -> str:
        return f"{self.checkpoints}{zero_padded(entry)}"

    def checkpoint_entry(self, key: str) -> int | None:
        return parse_padded(key.removeprefix(self.checkpoints))

    # staged
    @property
    def handed(self) -> str:
        return f"{self.root}staged/handed/"

    def handed_under(self, tail: int) -> str:
        return f"{self.handed}{zero_padded(tail)}/"

    def handed_object(self, tail: int, name: str) -> str:
        if len(name) > PATH_PART_BYTES_MAX:
            raise LimitExceeded("the name of a handed object is too long", object=name, observed=len(name))
        return f"{self.handed_under(tail)}{name}"

    def handed_parts(self, key: str) -> tuple[int, str] | None:
        """(tail, name) of a handed object."""
        tail, slash, name = key.removeprefix(self.handed).partition("/")
        number = parse_padded(tail)
        return (number, name) if slash and number is not None and key.startswith(self.handed) else None

    @property
    def jobs(self) -> str:
        return f"{self.root}staged/jobs/"

    def job(self, job: str) -> str:
        return f"{self.jobs}{job}/"

    def job_record(self, job: str) -> str:
        return f"{self.job(job)}record"

    def job_part(self, job: str, part: str) -> str:
        return f"{self.job(job)}{part}.parquet"

    # table
    def table(self, folder: str) -> str:
        """The Delta table's root; ``folder`` is that of the topic's settings."""
        return f"{self.root}{folder}/"

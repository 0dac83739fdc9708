"""Judges the history of a run with transactions: all that they promise, transaction by transaction.

T1 A transaction's messages are in each of its topics all or none, each once, in one entry.
T2 None is there before the table said that it is committed.
T3 None of a transaction that is not committed is there.
T4 All of a committed one are there in the end, but in topics that were deleted.
T5 A decision is one for ever, and what an application is told of it is so.
T6 What entries link was there before them, and is there as long as anybody may read it.
T7 An order is paid if, and only if, its transaction is committed; else an operator or the time ended it.
T8 Acks and sends agree: a message is settled by a transaction exactly if that is committed; each consumed message has its results once.
T9 After everything was collected nothing is staged any more, and nothing is listed as open.
T10 Once faults have ended everything comes to its end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from tests.simulation.transactions.logs import Row, TopicLog
from tests.simulation.transactions.records import Book, Change, Fate, History, Place, Told

CHECKS_MAX = 15
AGE_MAX_S = 4 * 3600.0
KEPT_S = 24 * 3600.0
"""So long whoever has a transaction is told what became of it."""
_CLOCKS = 0.9
"""Clocks that run fast take so much of the true time for all of it."""


def judge(history: History, logs: Mapping[str, TopicLog]) -> list[str]:
    """Everything that is wrong with it, in words."""
    wrong = list(history.wrong)
    wrong += (one for log in logs.values() for one in log.wrong)
    for name, log in logs.items():
        wrong += (f"T1 job {job} of {name} was linked {times} times" for job, times in log.linked.items() if times > 1)
    for told in history.told:
        changes = history.changes.get(told.id, [])
        fate = changes[-1].fate if changes else None
        wrong += _decided(told, changes)
        wrong += _visible(told, changes, history, logs)
        wrong += _paid(told, fate, changes, history, logs)
        history.counts[f"transaction: {fate.value if fate else 'never in the table'}"] += 1
    wrong += _no_others(history, logs)
    wrong += _read(history, logs)
    wrong += _consumed(history)
    wrong += (f"T9 {left} was left when all was collected" for left in history.left)
    return wrong


def _decided(told: Told, changes: list[Change]) -> Iterator[str]:
    """T5."""
    fates = [change.fate for change in changes]
    if len(set(fates)) < len(fates) or len(fates) > 2 or (fates and fates[0] is not Fate.OPEN):
        yield f"T5 {told.name}: the table said {[fate.value for fate in fates]}"
    if told.committed_s is not None and told.id:  # else nothing was sent in it
        if told.rolled_back_s is not None:
            yield f"T5 {told.name}: its application was told that it is committed, and that it is rolled back"
        said = [change for change in changes if change.fate is Fate.COMMITTED]
        if not said or said[0].at_s > told.committed_s:
            yield f"T5 {told.name}: its application was told that it is committed, and the table did not say so"
    if told.unknown_s is not None and changes and told.unknown_s - changes[-1].at_s < _CLOCKS * KEPT_S:
        yield f"T5 {told.name}: its application was told that there is no such transaction, and it is {changes[-1].fate.value}"
    if told.rolled_back_s is not None and Fate.COMMITTED in fates:
        yield f"T5 {told.name}: its application was told that it is rolled back, and it is committed"


def _visible(told: Told, changes: list[Change], history: History, logs: Mapping[str, TopicLog]) -> Iterator[str]:
    """T1 to T4."""
    committed = next((change for change in changes if change.fate is Fate.COMMITTED), None)
    for topic in sorted({sent.topic for sent in told.sends}):
        log = logs[topic]
        rows: dict[bytes, list[Row]] = {sent.body: log.rows.get(sent.body, []) for sent in told.sends if sent.topic == topic}
        found = [row for of_body in rows.values() for row in of_body]
        if found and committed is None:
            yield f"T3 {told.name} is not committed, and in {topic}: {found[0]}"
        if found and committed is not None and min(row.landed_s for row in found) < committed.at_s:
            yield f"T2 {told.name} was in {topic} at {found[0].landed_s:.3f} s, and committed at {committed.at_s:.3f} s"
        yield from (f"T1 {body!r} is in {topic} {len(of)} times" for body, of in rows.items() if len(of) > 1)
        durable = {sent.body for sent in told.sends if sent.topic == topic and sent.durable_s is not None}
        if found and (missing := [body for body in sorted(durable) if not rows[body]]):
            yield f"T1 {told.name}: {missing} are not in {topic}, others are"
        if len({row.entry for row in found}) > 1:
            yield f"T1 {told.name} is in several entries of {topic}: {sorted({row.entry for row in found})}"
        yield from _later_lives(told, topic, rows, log)
        if committed is not None and durable and not found and not _was_deleted(told, topic, history):
            yield f"T4 {told.name} is committed, and nothing of it is in {topic}"


def _later_lives(told: Told, topic: str, rows: Mapping[bytes, list[Row]], log: TopicLog) -> Iterator[str]:
    """T3 of topics that were made again."""
    for sent in told.sends:
        for row in rows.get(sent.body, []):
            if sent.durable_s is not None and log.lives[row.life][0] > sent.durable_s:
                yield f"T3 {sent.body!r} is in {topic} as it was made after it was sent: {row}"


def _was_deleted(told: Told, topic: str, history: History) -> bool:
    """Whether the topic was deleted when it was to go there, or after that."""
    return any(ended_s >= told.began_s for _, ended_s in history.deleted.get(topic, []))


def _paid(told: Told, fate: Fate | None, changes: list[Change], history: History, logs: Mapping[str, TopicLog]) -> Iterator[str]:
    """T7."""
    book = history.books.get(told.name)
    ordered = history.ordered.get(told.id, set())
    if fate is Fate.COMMITTED and Fate.COMMITTED not in ordered and told.insisted:
        failed = [sent for sent in told.sends if sent.durable_s is None and sent.body in logs[sent.topic].rows]
        yield from (f"T7 {told.name} is committed with {sent.body!r}, whose send failed" for sent in failed)
    elif fate is Fate.COMMITTED and book is not Book.PAID and Fate.COMMITTED not in ordered and not told.consumed:
        yield f"T7 {told.name} is committed, and its order is {book}"
    if book is Book.PAID and fate is not Fate.COMMITTED and Fate.ROLLED_BACK not in ordered:
        last = changes[-1] if changes else None
        if last is None or not is_over(last):
            yield f"T7 the order of {told.name} is paid, and the table says {last}"
        else:
            history.counts["paid, and ended by time"] += 1


def is_over(change: Change) -> bool:
    """Whether a transaction was rolled back because nobody decided it in time."""
    return change.fate is Fate.ROLLED_BACK and (change.checks >= CHECKS_MAX or change.age_s >= _CLOCKS * AGE_MAX_S)


def _no_others(history: History, logs: Mapping[str, TopicLog]) -> Iterator[str]:
    """T3: nothing comes from nowhere."""
    known: defaultdict[str, set[bytes]] = defaultdict(set)
    for told in history.told:
        for sent in told.sends:
            known[sent.topic].add(sent.body)
    for name, log in logs.items():
        if name in known:
            yield from (f"T3 {body!r} is in {name}, and nobody sent it there" for body in log.rows.keys() - known[name])


def _read(history: History, logs: Mapping[str, TopicLog]) -> Iterator[str]:
    """T6: what a user reads in the end is what the log holds of the topic's last life."""
    for topic, read in history.read.items():
        log = logs[topic]
        life = log.state.created_entry
        held = {(topic, row.queue, row.offset): body for body, rows in log.rows.items() for row in rows if row.life == life}
        for place in sorted(place for place, _ in held.items() ^ read.items())[:5]:
            yield f"T6 a reader in the end sees {read.get(place)!r} at {place}, where the log had {held.get(place)!r}"


def _consumed(history: History) -> Iterator[str]:
    """T8."""
    fates = {one: changes[-1].fate for one, changes in history.changes.items() if changes}
    results: Counter[Place] = Counter()
    for told in history.told:
        for place in told.consumed:
            if fates.get(told.id) is Fate.COMMITTED:
                results[place] += 1
                if history.settled.get(place) != told.id:
                    yield f"T8 {told.name} is committed, and {place} was settled by {history.settled.get(place)}"
    for place in history.to_consume:
        if results[place] != 1:
            yield f"T8 {place} was consumed by {results[place]} transactions that are committed"

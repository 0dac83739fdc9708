"""What must hold of messages that go through gateways, as the clients and the cells see it.

G1  nothing is lost, and after the last fault everything is settled within a bound
G2  of a message group the first successes are in order
G3  a delivery is given to one receive, and what is settled never comes back
G4  what is out to a living client that the gateway renews for comes to no other, while an undisturbed gateway keeps it
G5  a receive that is repeated with its attempt id gives what is out to it, with the same handles, and nothing else
G6  attempts rise, and each message that was given up has one letter that says at which attempt
G7  what a client held that said goodbye is visible soon
G8  an undisturbed gateway answers with what the protocol has for the case
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.consumers.dead_letters.writer import RECONSUME_TIMES
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.log import MessageView
from tests.consumers.receiving import out_until_ms
from tests.simulation.gateways.front import Connection, Life
from tests.simulation.process import EPOCH_MS

if TYPE_CHECKING:
    from tests.simulation.gateways.world import Gateways

_GOODBYE_S = 8.0
_POLLS_S = 20.0
_DOUBTED_S = 110.0
"""What may not have arrived, for all that its gateway knows, is renewed for two minutes."""
_WAY_S = 3.1
"""What was written less than 3 s before its client waits no longer may not have arrived in time."""
_SILENT_S = 12.0
_NOTICED_S = 32.0
"""A gateway that missed a renewal is noticed by then: the list is renewed and read each 10 s."""


class Delivery(NamedTuple):
    """One delivery of one message."""

    body: str
    attempt: int


class Given(NamedTuple):
    """What a receive gave once."""

    handle: str
    by: Life
    at: int
    """The place among all answers."""


@dataclass
class Receive:
    """What is known of all receives of one name."""

    client: str
    given: dict[Delivery, Given] = field(default_factory=dict)
    unseen: int = 0
    """Receives whose answers were not seen in whole: under way, cut off, or ended with their process."""


@dataclass
class Hold:
    """A delivery that a client has, and that gateways renew for it."""

    client: str
    handle: str
    since_s: float
    keepers: dict[Life, float]
    """The gateways that gave or adopted it, and when."""
    connection: Connection
    """By which it came."""
    is_late: bool = False
    """Whether its gateway cannot know that its client waited for it."""
    is_open: bool = True
    """Whether its gateway cannot know that it arrived."""
    until_s: float = float("inf")
    """When gateways may keep it no longer: its connection broke while it was open."""


@dataclass
class Before:
    """How things stood when a receive began."""

    at_s: float
    answers: int
    cells: dict[int, QueueCell]
    owned: set[int]


class Judge:
    """Is told of everything, and notes what is wrong."""

    def __init__(self, world: Gateways) -> None:
        self.world = world
        self.wrong: list[str] = []
        self.answers = 0
        self.receives: dict[str, Receive] = {}
        self.owner_of: dict[Delivery, str] = {}
        self.attempts: Counter[str] = Counter()
        self.promised_ms: dict[Delivery, int] = {}
        """Until when it is out, as the cell said when it was given, unless somebody did something about it."""
        self.holds: dict[Delivery, Hold] = {}
        self.heard_s: dict[tuple[str, Life], float] = {}
        """When a gateway heard of a client last."""
        self.ended: list[Connection] = []
        """Connections that broke."""
        self.polled_s: defaultdict[tuple[str, Life], float] = defaultdict(lambda: float("-inf"))
        """When a push consumer asked a gateway for messages last."""
        self.handled: set[str] = set()
        self.invoked: set[str] = set()
        self.settled: dict[str, float] = {}
        """Confirmed as acknowledged or given up, and when."""
        self.kept: defaultdict[tuple[Life, int], set[str]] = defaultdict(set)
        """By gateway and attempt: confirmed, but maybe only kept until earlier messages are settled."""
        self.refused: defaultdict[str, set[int]] = defaultdict(set)
        self.certain: set[str] = set()

    # --- Receives -----------------------------------------------------------------------------------------------------------------

    async def receive(
        self, name: str, client: str, connection: Connection, request: Any, remaining_s: float, cut_after: int | None
    ) -> list[Any]:
        """A receive, as code of its gateway, judged when it is answered."""
        life, known = connection.life, self.receives.setdefault(name, Receive(client))
        is_named = request.auto_renew or request.HasField("attempt_id")
        pooled = life.pooled
        owned = set() if pooled is None else {queue for _, queue in pooled.consumer._owner.queues}
        before = Before(self.world.now_s, self.answers, await self.world.scene.cells(), owned)
        self._asks(connection)
        if request.auto_renew:
            self.polled_s[client, life] = self.world.now_s
        if is_named and connection.named_at is None:
            connection.named_at = self.answers
        known.unseen += 1
        frames = await life.answer(request, life.call("ReceiveMessage", client, connection, remaining_s), cut_after)
        code = frames[0].status.code
        if code not in (pb.OK, pb.MESSAGE_NOT_FOUND):
            self.world.counts[f"receive: {pb.Code.Name(code)}"] += 1
            if self.world.steady and life.disturbed_s < before.at_s and life.is_open:
                self.wrong.append(f"G8 {name} is answered with {frames[0].status.message} by {life.name}")
            connection.named_at = None if connection.asked_at < 0 else connection.named_at
            return frames
        known.unseen -= len(frames) != cut_after
        self.answers += 1
        if is_named and connection.asked_at < 0 and connection.named_at is not None:
            connection.asked_at = connection.named_at
            self._adopted(client, life, before)
        found = {_delivery(frame.message): frame.message for frame in frames if frame.HasField("message")}
        is_whole = len(frames) != cut_after
        await self._judge(name, known, connection, self.answers, found, before, is_whole=is_whole, is_renewed=request.auto_renew)
        if len(frames) == cut_after and not request.HasField("attempt_id"):
            self._forget(found)  # they are given back
        return frames

    def absent(self, life: Life) -> None:
        """A gateway ended, or was stopped for long. Others that its clients poll go on for them once they notice."""
        life.disturbed_s = self.world.now_s
        for hold in self.holds.values():
            if life in hold.keepers:
                self.world.later(self._inherited(hold))

    async def _inherited(self, hold: Hold) -> None:
        began_s = self.world.now_s
        polled = {life for life in self._lives() if began_s - self.polled_s[hold.client, life] < _POLLS_S}
        until_s = began_s + _NOTICED_S
        while self.world.now_s < until_s:
            await self.world.pass_s(1)
            polled = {life for life in polled if self.world.now_s - self.polled_s[hold.client, life] < _POLLS_S}
        for life in polled & set(self._lives()):
            if life.disturbed_s < began_s:
                hold.keepers.setdefault(life, self.world.now_s)
                self.world.counts["inherited"] += 1

    def _lives(self) -> list[Life]:
        return [gateway.life for gateway in self.world.gateways.values() if gateway.life is not None]

    def _adopted(self, client: str, life: Life, before: Before) -> None:
        for hold in self.holds.values():
            if hold.client == client and hold.since_s <= before.at_s and self._was_out(hold.handle, before):
                hold.keepers.setdefault(life, self.world.now_s)
                self.world.counts["adopted"] += 1

    async def _judge(
        self,
        name: str,
        known: Receive,
        connection: Connection,
        number: int,
        messages: dict[Delivery, Any],
        before: Before,
        *,
        is_whole: bool,
        is_renewed: bool,
    ) -> None:
        life, cells, now_ms = connection.life, await self.world.scene.cells(), self.world.now_ms
        found = {delivery: message.system_properties.receipt_handle for delivery, message in messages.items()}
        pooled = life.pooled
        owned = before.owned if pooled is None else before.owned & {queue for _, queue in pooled.consumer._owner.queues}
        expected = {
            delivery: given.handle
            for delivery, given in known.given.items()
            if (given.at <= before.answers or (given.by is life and given.at < number))
            and (given.by is life or given.at <= connection.asked_at or _queue(given.handle) in owned)
            and self._was_out(given.handle, before)
            and is_out(cells, given.handle, now_ms)
        }
        missing = {} if not is_whole else expected.items() - found.items()
        if missing:
            self.wrong.append(
                f"G5 {name} is not given again by {life.name} what is out to it: {sorted(missing)}, but {sorted(found)}"
            )
        self.world.counts["again"] += bool(expected)
        self.world.counts["again at another"] += any(known.given[delivery].by is not life for delivery in expected)
        for delivery, handle in found.items():
            if ReceiptHandle.decode(handle).attempt != delivery.attempt:
                self.wrong.append(f"G6 {delivery} has a handle of attempt {ReceiptHandle.decode(handle).attempt}")
            if delivery in known.given:
                if not self._was_out(handle, before) and known.given[delivery].at <= before.answers:
                    self.wrong.append(f"G5 {delivery} is given to {name} again, though it was not out any more")
                continue
            if expected and not known.unseen:
                self.wrong.append(f"G5 {delivery} is given to {name} with what is out to it already")
            self._given(delivery, name, found, before.at_s)
        for delivery, handle in found.items():
            known.given.setdefault(delivery, Given(handle, life, number))
            if not is_renewed and (due_ms := is_out(cells, handle, now_ms)) and delivery.body not in self.invoked:
                self.promised_ms.setdefault(delivery, due_ms)

    def native(self, message: MessageView, together: Iterable[MessageView]) -> Delivery:
        """A native member was given a message."""
        delivery = Delivery(message.body.decode(), message.delivery_attempt)
        with_it = [Delivery(one.body.decode(), one.delivery_attempt) for one in together]
        self._given(delivery, f"native {message.receipt_handle or message.offset}", with_it, self.world.now_s)
        return delivery

    def _given(self, delivery: Delivery, name: str, found: Iterable[Delivery], began_s: float) -> None:
        """A delivery that this receive was not given before."""
        body, attempt = delivery
        if self.settled.get(body, began_s) < began_s:
            self.wrong.append(f"G3 {delivery} comes back to {name}, settled at {self.settled[body]:.3f}")
        if self.owner_of.setdefault(delivery, name) != name:
            self.wrong.append(f"G3 {delivery} is given to {name} and to {self.owner_of[delivery]}")
        if attempt <= self.attempts[body] and self.owner_of[delivery] == name:
            self.wrong.append(f"G6 {delivery} is given to {name}, after attempt {self.attempts[body]}")
        self.attempts[body] = max(attempt, self.attempts[body])
        for other, until_ms in self.promised_ms.items():
            if other.body == body and other.attempt < attempt and self.world.now_ms < until_ms - 1:
                self.wrong.append(f"G3 {delivery} is given to {name}, though out to {self.owner_of[other]} until {until_ms}")
        for other, hold in self.holds.items():
            if other.body == body and other.attempt < attempt and body not in self.invoked and (keeper := self._keeper(hold)):
                self.wrong.append(
                    f"G4 {delivery} is given to {name} at {self.world.now_s:.3f}, though {keeper.name} keeps it for {hold.client}"
                )
        if self.world.orderly:
            bodies = {one.body for one in found}
            if ahead := [one for one in self.world.ahead_of(body) if one not in self.invoked and one not in bodies]:
                self.wrong.append(f"G2 {delivery} is given to {name} before {ahead}")

    def _keeper(self, hold: Hold) -> Life | None:
        """A gateway that should have kept it until now."""
        if not self.world.steady or self.world.now_s > hold.until_s:
            return None
        return next(
            (life for life, since_s in hold.keepers.items() if life.disturbed_s < since_s and not life.process.crashed), None
        )

    def _was_out(self, handle: str, before: Before) -> int:
        return is_out(before.cells, handle, EPOCH_MS + int(1000 * before.at_s))

    # --- Clients ------------------------------------------------------------------------------------------------------------------

    async def has(self, client: str, connection: Connection, message: Any, until_s: float) -> None:
        """A message arrived at a push consumer, which would have waited until then."""
        delivery, handle = _delivery(message), message.system_properties.receipt_handle
        now_s, cells = self.world.now_s, await self.world.scene.cells()
        self.holds[delivery] = Hold(client, handle, now_s, {connection.life: now_s}, connection, is_late=now_s > until_s - _WAY_S)
        if any(one is connection for one in self.ended):
            self._may_be_lost(connection)
        if (due_ms := is_out(cells, handle, self.world.now_ms)) and delivery.body not in self.invoked:
            self.promised_ms[delivery] = due_ms

    def _asks(self, connection: Connection) -> None:
        """A client asks for more: what came in time by the same connection has arrived."""
        for hold in self.holds.values():
            if hold.connection is connection and hold.is_late and hold.is_open:
                hold.until_s = min(hold.until_s, self.world.now_s + _DOUBTED_S)
            elif hold.connection is connection:
                hold.is_open = False

    def cut(self, connection: Connection) -> None:
        """A connection broke. What came by it last may be lost, for all that its gateway knows, which keeps it for a while."""
        self.ended.append(connection)
        self._may_be_lost(connection)

    def heard(self, client: str, life: Life) -> None:
        """A gateway hears of a client. If that was silent for long, and its stream may have ended, the gateway may have taken it for gone."""
        now_s = self.world.now_s
        if not self.world.steady and now_s - self.heard_s.get((client, life), now_s) > _SILENT_S:
            for delivery, hold in self.holds.items():
                if hold.client == client and hold.keepers.pop(life, None) is not None:
                    self._forget([delivery])
        self.heard_s[client, life] = now_s

    def _may_be_lost(self, connection: Connection) -> None:
        for hold in self.holds.values():
            if hold.is_open and hold.connection is connection:
                hold.until_s = min(hold.until_s, self.world.now_s + _DOUBTED_S)

    def begins(self, delivery: Delivery, who: str) -> None:
        """A handler begins."""
        if self.world.orderly and (ahead := [one for one in self.world.ahead_of(delivery.body) if one not in self.handled]):
            self.wrong.append(f"G2 {who} handles {delivery} before {ahead}")

    def succeeds(self, delivery: Delivery) -> None:
        self.handled.add(delivery.body)

    def tries(self, delivery: Delivery, *, settles: bool) -> None:
        """A client is about to do something about a delivery."""
        self._forget([delivery])
        if settles:
            self.invoked.add(delivery.body)

    def gives_up(self, delivery: Delivery) -> None:
        self.handled.add(delivery.body)
        self.refused[delivery.body].add(delivery.attempt)

    def confirmed(self, delivery: Delivery, life: Life | None) -> None:
        """A message was acknowledged or given up, and it was answered that this is done."""
        ahead = [one for one in self.world.ahead_of(delivery.body) if one not in self.settled] if self.world.orderly else []
        if not ahead:
            self.settled.setdefault(delivery.body, self.world.now_s)
        elif life is not None:
            self.kept[life, delivery.attempt].add(delivery.body)
            self.world.counts["acked ahead"] += 1
        if life is not None and not ahead and self.world.steady and life.disturbed_s == float("-inf"):
            for body in self.world.behind(delivery.body):
                if body not in self.kept[life, delivery.attempt]:
                    break
                self.settled.setdefault(body, self.world.now_s)

    def gone(self, client: str) -> list[Hold]:
        """A client ended, or said goodbye. What it held."""
        held = [delivery for delivery, hold in self.holds.items() if hold.client == client]
        ended = [self.holds.pop(delivery) for delivery in held if delivery.body not in self.invoked]
        names = {name for name, known in self.receives.items() if known.client == client}
        self._forget([delivery for delivery, name in self.owner_of.items() if name in names])
        return ended

    async def frees_soon(self, client: str, held: Sequence[Hold], told: set[Life]) -> None:
        """All gateways that kept it for a client were told that it ends."""
        at_s = self.world.now_s
        await self.world.pass_s(_GOODBYE_S)
        cells = await self.world.scene.cells()
        for hold in held:
            if not self.world.steady or not hold.keepers.keys() <= told:
                continue
            if any(life.disturbed_s > since_s or life.process.crashed for life, since_s in hold.keepers.items()):
                continue
            self.world.counts["freed"] += 1
            if is_out(cells, hold.handle, self.world.now_ms):
                self.wrong.append(f"G7 what {client} held is still out {_GOODBYE_S:g} s after its goodbye at {at_s:.3f}: {hold}")

    def _forget(self, deliveries: Iterable[Delivery]) -> None:
        """Nothing is promised any more of deliveries that somebody does something about, nor of those beside them."""
        groups = {delivery.body[0] for delivery in deliveries} if self.world.orderly else set()
        bodies = {delivery.body for delivery in deliveries}
        for other in [other for other in self.promised_ms if other.body in bodies or other.body[0] in groups]:
            del self.promised_ms[other]

    # --- The end ------------------------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Each message that was given up has one letter, with the attempts of a delivery that was given up."""
        self.wrong += [f"G1 {body} was settled, though nobody did" for body in self.world.bodies if body not in self.invoked]
        self.wrong += [f"G1 {body} was settled, though never handled" for body in self.world.bodies if body not in self.handled]
        letters = await self.world.scene.letters() if self.certain else []
        counts: Counter[str] = Counter()
        for letter in letters:
            body, times = letter.body.decode(), int(letter.properties[RECONSUME_TIMES])
            counts[body] += 1
            if times + 1 not in self.refused[body]:
                self.wrong.append(f"G6 the letter of {body} says {times}, given up at {sorted(self.refused[body])}")
        for body in self.world.bodies:
            if not (body in self.certain) <= counts[body] <= (body in self.refused):
                self.wrong.append(f"G6 {body} has {counts[body]} letters, given up at {sorted(self.refused[body])}")


def _delivery(message: Any) -> Delivery:
    return Delivery(message.body.decode(), message.system_properties.delivery_attempt)


def _queue(handle: str) -> int:
    return ReceiptHandle.decode(handle).queue


def is_out(cells: Mapping[int, QueueCell], text: str, now_ms: int) -> int:
    """Until when a delivery is out, as its cell says; 0 if it is not."""
    handle = ReceiptHandle.decode(text)
    return out_until_ms(cells[handle.queue], handle, now_ms)

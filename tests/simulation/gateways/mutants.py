"""Gateways with one guard removed, from the tests' side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.consumers import simple
from penstock.consumers.named_receives import NamedReceives
from penstock.coordinator.queues.receives import attempt_hash
from penstock.gateway.rocketmq.clients.registry import ClientRegistry, GatewayClient
from penstock.gateway.rocketmq.consumers import ack_processor, ack_service
from penstock.gateway.rocketmq.consumers.ack_processor import AckProcessor
from penstock.gateway.rocketmq.consumers.deliveries import Deliveries, SentReceive
from penstock.gateway.rocketmq.consumers.handle_renewer import HandleRenewer
from penstock.gateway.rocketmq.consumers.pool import ConsumerPool, PooledConsumer
from penstock.gateway.rocketmq.consumers.receive_parameters import ReceiveParameters
from penstock.gateway.rocketmq.consumers.receive_service import ReceiveService
from tests.simulation.mutant import Mutant
from tests.simulation.patches import always, attribute, both, everywhere


class _Never(Exception):
    """Nobody raises it."""


async def _nothing(*_: object, **__: object) -> None:
    return None


def _of_one_cell(original: Callable[..., Any]) -> Callable[..., Any]:
    async def found(self: NamedReceives, queues: Any, is_meant: Any) -> Any:
        return await original(self, list(queues)[:1], is_meant)

    return found


def _whoever_uses_it(_: Any) -> Callable[..., None]:
    def sweep(self: ConsumerPool) -> None:
        for key, place in list(self._places.items()):
            if place.pooled is not None:
                del self._places[key]
                self._close(place.pooled.consumer)

    return sweep


def _left_to_its_end(_: Any) -> Callable[..., None]:
    def lost(self: HandleRenewer, client: GatewayClient) -> None:
        self._deliveries.end_client(client.id)

    return lost


def _as_if_lost(_: Any) -> Callable[..., None]:
    def on_stream_end(self: Deliveries, client_id: str, now_s: float) -> None:
        for receive in self._receives.get(client_id, {}).values():
            if receive.peer:
                self.mark_broken(receive, now_s)

    return on_stream_end


def _at_once(original: Callable[..., Any]) -> Callable[..., Any]:
    async def adopt(self: HandleRenewer, pooled: PooledConsumer, client_id: str, peer: str, *, is_renewed: bool) -> None:
        renewals = self._deliveries._renewals.items()
        given_up = [handle for handle, renewal in renewals if renewal.client_id == client_id and renewal.is_given_up]
        runs = self._deliveries.runs(given_up).get(pooled.place, [])
        self._start(self.give_back(*pooled.place, runs))
        await original(self, pooled, client_id, peer, is_renewed=is_renewed)

    return adopt


def _as_of_one_queue(original: Callable[..., Any]) -> Callable[..., Any]:
    def adopt(self: Deliveries, client_id: str, place: Any, messages: Any, **rest: Any) -> Any:
        return original(self, client_id, place, [message._replace(queue=0) for message in messages], **rest)

    return adopt


def _for_ever(_: Any) -> Callable[..., Any]:
    async def round_(self: HandleRenewer) -> None:
        now_s = self._clock.monotonic_s()
        await asyncio.gather(*(self._renew(place, due) for place, due in self._deliveries.due(now_s).items()))

    return round_


def _the_first_only(original: Callable[..., Any]) -> Callable[..., Any]:
    def standing(self: Deliveries, *rest: Any) -> Any:
        found = original(self, *rest)
        return {place: [together[:1] for together in of_place] for place, of_place in found.items()}

    return standing


def _as_if_unnamed(original: Callable[..., Any]) -> Callable[..., Any]:
    async def polled(self: ReceiveService, receive: Any, wanted: ReceiveParameters) -> Any:
        return await original(self, receive, replace(wanted, is_renewed=False, attempt_id=None))

    return polled


def _in_time(_: Any) -> Callable[..., None]:
    def written(self: SentReceive, now_s: float) -> None:
        self.is_whole = True

    return written


def _by_whoever(original: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*arguments: Any, **named: Any) -> Any:
        return original(*arguments, **{**named, "holder": None})

    return changed


def _kept_hold_of(original: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*arguments: Any, **named: Any) -> Any:
        return original(*arguments, **{**named, "lets_go": False})

    return changed


MUTANTS: dict[str, Mutant] = {
    "renewed": Mutant(
        guard="what a push consumer holds is renewed as long as it lives",
        rule="G4",
        patch=attribute(HandleRenewer, "_renew", lambda _: _nothing),
        scenario="steady",
        seeds=(3,),
        calm=False,
    ),
    "adopted": Mutant(
        guard="a gateway reads in the cells what others gave a client that comes by a new connection",
        rule="G5",
        patch=attribute(HandleRenewer, "adopt", lambda _: _nothing),
        scenario="steady",
    ),
    "all-cells": Mutant(
        guard="what is out to a client is looked for in the cells of all queues",
        rule="G5",
        patch=attribute(NamedReceives, "_found", _of_one_cell),
        scenario="steady",
        seeds=(11, 17, 3),
    ),
    "looked-again": Mutant(
        guard="a gateway goes on for its clients with what another gave them that is gone",
        rule="G4",
        patch=attribute(HandleRenewer, "adopt_all", lambda _: always(None)),
        scenario="steady",
        unmet=True,
    ),
    "of-queue": Mutant(
        guard="what another gateway gave of one queue does not count as arrived because something of another queue is settled",
        rule="G1",
        patch=attribute(Deliveries, "adopt", _as_of_one_queue),
        scenario="concurrent",
        unmet=True,
    ),
    "attempt": Mutant(
        guard="a receive is given again what is out to its attempt id, and not what is out to others",
        rule="G3",
        patch=everywhere(attempt_hash, always(1)),
        scenario="steady",
        calm=False,
    ),
    "ahead": Mutant(
        guard="an acknowledgement that came too early is carried out when the earlier message is settled",
        rule="G3",
        patch=attribute(AckProcessor, "ack_next", lambda _: _nothing),
        scenario="steady",
        seeds=(16,),
        calm=False,
    ),
    "lost": Mutant(
        guard="what a client holds that is lost is renewed no longer",
        rule="G1",
        patch=both(attribute(HandleRenewer, "round", _for_ever), attribute(HandleRenewer, "_on_lost", lambda _: always(None))),
        scenario="steady",
        seeds=(6,),
    ),
    "behind": Mutant(
        guard="an answer that was written whole does not count as lost because its connection broke behind it",
        rule="G4",
        patch=both(attribute(Deliveries, "on_stream_end", _as_if_lost), attribute(HandleRenewer, "adopt", _at_once)),
        scenario="steady",
        seeds=(1,),
    ),
    "cut-short": Mutant(
        guard="the time of what is lost is not cut short, as its client may be about to get it at another gateway",
        rule="G4",
        patch=attribute(HandleRenewer, "adopt", _at_once),
        scenario="steady",
        seeds=(23,),
    ),
    "doubted": Mutant(
        guard="what may not have arrived is not kept for hours",
        rule="G1",
        patch=attribute(Deliveries, "_doubt", lambda _: always(None)),
        scenario="steady",
        unmet=True,
    ),
    "let-go": Mutant(
        guard="what a client lets come again is neither looked for nor renewed by any gateway",
        rule="G1",
        patch=attribute(simple, "changed_invisible_duration", _kept_hold_of),
        scenario="concurrent",
        seeds=(72,),
    ),
    "held": Mutant(
        guard="a gateway renews what is out to its client, and not what that let go at another one",
        rule="G1",
        patch=attribute(simple, "changed_invisible_duration", _by_whoever),
        scenario="concurrent",
        unmet=True,
    ),
    "late": Mutant(
        guard="an answer that its client may not have waited for does not count as arrived because the client asks for more",
        rule="G1",
        patch=attribute(SentReceive, "mark_written", _in_time),
        scenario="steady",
        unmet=True,
    ),
    "goodbye": Mutant(
        guard="what a client holds that says goodbye is visible soon",
        rule="G7",
        patch=attribute(HandleRenewer, "_on_lost", _left_to_its_end),
        scenario="steady",
        seeds=(6,),
    ),
    "first-settled": Mutant(
        guard="of a message group the first message stands for the rest that was not settled beside this gateway",
        rule="G7",
        patch=both(attribute(Deliveries, "end_client", _the_first_only), attribute(Deliveries, "due", _the_first_only)),
        scenario="steady",
        unmet=True,
    ),
    "in-use": Mutant(
        guard="a consumer that somebody uses is not closed",
        rule="G8",
        patch=attribute(ConsumerPool, "sweep", _whoever_uses_it),
        scenario="steady",
        calm=False,
    ),
    "single": Mutant(
        guard="of a CONCURRENT group each message is renewed",
        rule="G4",
        patch=attribute(PooledConsumer, "in_order", lambda _: property(always(True))),
        scenario="concurrent",
        seeds=(81,),
    ),
    "own-stop": Mutant(
        guard="clients are not silent while the gateway was stopped itself",
        rule="G4",
        patch=attribute(ClientRegistry, "extend_after_pause", lambda _: always(None)),
        scenario="steady",
        unmet=True,
    ),
    "last-look": Mutant(
        guard="a gateway that stops gives what is out to an attempt id, before it says that there is nothing",
        rule="G5",
        patch=attribute(ReceiveService, "_poll", _as_if_unnamed),
        scenario="gateways",
        unmet=True,
    ),
    "repeated-ack": Mutant(
        guard="an acknowledgement that is repeated is answered as it was",
        rule="G8",
        patch=both(
            attribute(ack_processor, "AlreadySettled", lambda _: _Never), attribute(ack_service, "AlreadySettled", lambda _: _Never)
        ),
        scenario="steady",
        seeds=(2,),
        calm=False,
    ),
}

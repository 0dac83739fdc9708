"""How a topic's messages find their queues as it grows."""

from __future__ import annotations

from dataclasses import dataclass

from ..format.growth import has_only_grown
from ..format.state import TopicState
from ..message.routing import Router


@dataclass(frozen=True, eq=False, slots=True)
class TopicRouter:
    """A router, with the routing generation that the batches routed by it name."""

    router: Router
    generation: int

    def followed(self, state: TopicState) -> TopicRouter:
        """This one, or that of a later state between which and this one the topic has only grown.

        After anything else it stays, and what it routes is refused.
        """
        if not has_only_grown(state.growths, self.generation, state.generation):
            return self
        return TopicRouter(self.router.grown(state.queues), state.generation)

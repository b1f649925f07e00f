"""Seeded faults of routers: for each rule of a fleet one small change of what stands in front of reference engines."""

from attrs import define

from ...spec.vocabulary import Request
from ..fleet import Fleet
from ..router import Dealer, Router


@define(slots=False)
class ForgetsWhoComesBack(Router):
    """FLEET-1: who was refused by an engine, or taken back from it, is not sent to another one."""

    def came_back(self, request: Request) -> None:
        self.placed.pop(request.id, None)


@define(slots=False)
class KeysOfEachEngine(Router):
    """FLEET-2: keys are left to the engines, each of which knows its own."""

    def arrive(self, request: Request, now_ns: int) -> str:
        self.tries[request.id] = []
        self.queue.append(request)
        return "accepted"


@define
class DoesNotLetGo(Fleet):
    """FLEET-3: what took too long is sent elsewhere, and stays where it is."""

    def let_go(self, engine: str, request: Request) -> None:
        pass


@define(slots=False)
class BySession(Dealer):
    """FLEET-4: all requests of a client go to one engine, where its prefix is."""

    def best_for(self, request: Request) -> str:
        place = int("".join(filter(str.isdigit, request.client)) or 0)
        return self.engines[min(place, len(self.engines) - 1)]


ROUTERS: dict[str, type[Router]] = {"FLEET-1": ForgetsWhoComesBack, "FLEET-2": KeysOfEachEngine, "FLEET-4": BySession}
"""Rule -> the router that breaks it."""
FLEETS: dict[str, type[Fleet]] = {"FLEET-3": DoesNotLetGo}
"""Rule -> what carries out a right router's decisions wrongly."""

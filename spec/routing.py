"""What a delta of two pools says: to the relation of transfers, to each pool, and of the life of its request."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import Factory, define

from .compiled import World
from .errors import ProtocolError
from .flows import GONE, LINK, Flow
from .pools import DECODE, POOLS, PREFILL
from .vocabulary import Delta, Request, Settings, blocks_for

_ENDS = ("finished", "failed", "cancelled", "expired")


@define(eq=False)
class Parts:
    """What of one call each pool is told, in this order: blocks whose obligation ended, who comes, the call itself,
    and blocks that come under an obligation."""

    back: dict[str, list[int]] = Factory(lambda: {pool: [] for pool in POOLS})
    comers: dict[str, list[Request]] = Factory(lambda: {pool: [] for pool in POOLS})
    deltas: dict[str, list[Delta]] = Factory(lambda: {pool: [] for pool in POOLS})
    aside: dict[str, list[int]] = Factory(lambda: {pool: [] for pool in POOLS})
    of_all: list[Delta] = Factory(list)


class Routing:
    """`flows`: every request, by its id; `transfers`: by their numbers; `done`, `failed`: those of which the link said
    that."""

    settings: Settings
    world: World
    flows: OrderedDict[str, Flow]
    transfers: dict[int, Flow]
    names: dict[str, str]
    done: set[int]
    failed: set[int]
    now_ns: int
    live: int
    idle_steps: int
    _pool: str | None

    def fire(self, event: str, *fields: Any) -> None:
        """Something happened between the pools."""
        raise NotImplementedError

    def landed(self, flow: Flow, blocks: Sequence[int]) -> None:
        """These were set aside for it, beside all that was before."""
        raise NotImplementedError

    def routed(self, method: str, deltas: Sequence[Delta]) -> Parts:
        parts = Parts()
        for delta in deltas:
            kind = delta[0]
            if kind == "delivered":
                self._delivered(parts, delta)
            elif kind not in _DELTAS:
                hint = "refuse prefix_caching, and a door that holds requests, where pools is given"
                raise ProtocolError(method, f"deltas.{kind}", delta[1], "two pools have no such thing", hint)
            else:
                flow = self.flow_of(method, f"deltas.{kind}", delta[1])
                _DELTAS[kind](self, parts, flow, delta)
        return parts

    def flow_of(self, method: str, field: str, request: str) -> Flow:
        flow = self.flows.get(request)
        if flow is None:
            raise ProtocolError(method, field, request, "is a request that was never submitted")
        return flow

    def _pool_of(self, block: int) -> str:
        return PREFILL if block < self.settings.blocks else DECODE

    def _split(self, blocks: Iterable[int]) -> dict[str, list[int]]:
        split: dict[str, list[int]] = {}
        for block in blocks:
            split.setdefault(self._pool_of(block), []).append(block)
        return split

    def _took(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        for block in delta[2]:
            self.fire("Fill", flow.id, block)
        for pool, blocks in self._split(delta[2]).items():
            parts.deltas[pool].append((delta[0], flow.alias, blocks))

    def _gave(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        for block in delta[2]:
            self.fire("Empty", flow.id, block)
        for pool, blocks in self._split(delta[2]).items():
            parts.deltas[pool].append(("gave", flow.alias, blocks))

    def _admitted(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        pool = self._pool or PREFILL
        if pool == PREFILL:
            self.fire("Begin", flow.id, len(flow.tokens))
        else:
            self.fire("Enter", flow.id)
        if not flow.has_run:
            parts.of_all.append(("admitted", flow.id, 0))
        flow.has_run = True
        parts.deltas[pool].append((delta[0], flow.alias, delta[2]))

    def _preempted(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        pool = self._pool or flow.place
        requester = self.flows[delta[3]].alias if delta[3] in self.flows else delta[3]
        parts.deltas[pool].append((*delta[:1], flow.alias, delta[2], requester))
        if pool == PREFILL:
            self.fire("Yield", flow.id)
            return
        self.fire("Quit", flow.id)
        parts.deltas[DECODE].append(("cancelled", flow.alias))
        parts.comers[PREFILL].append(self.stay(flow, PREFILL))

    def _delivered(self, parts: Parts, delta: Delta) -> None:
        parts.of_all.append(delta)
        split: dict[str, tuple[list[str], list[int]]] = {}
        for request, token in zip(delta[1], delta[2], strict=True):
            flow = self.flow_of("complete", "deltas.delivered", request)
            requests, tokens = split.setdefault(flow.place, ([], []))
            requests.append(flow.alias)
            tokens.append(token)
            flow.tokens.append(token)
        for place, (requests, tokens) in split.items():
            if place in POOLS:
                parts.deltas[place].append(("delivered", requests, tokens))

    def _ended(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        parts.of_all.append(delta)
        self.idle_steps = 0
        if flow.has_ended:
            return
        self.fire("Quit", flow.id)
        if flow.place in POOLS:
            parts.deltas[flow.place].append((delta[0], flow.alias, *delta[2:]))
        flow.place = GONE
        self.live -= 1

    def _held(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        blocks = delta[2]
        for block in blocks:
            self.fire("Hold", flow.id, block)
        flow.positions = len(flow.tokens) - 1
        self.fire("Offer", flow.id, flow.positions, blocks_for(flow.positions, self.settings.block_size))
        if flow.place == PREFILL:
            if blocks:
                parts.deltas[PREFILL].append(("gave", flow.alias, blocks))
            parts.deltas[PREFILL].append(("finished", flow.alias, "length"))
        parts.aside[PREFILL] += blocks
        flow.place, flow.source = LINK, blocks

    def _pulled(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        _, _, blocks, number = delta
        if number in self.transfers:
            raise ProtocolError("step", "deltas.pulled", number, "is the number of an earlier transfer")
        for block in blocks:
            self.fire("Await", flow.id, block)
        self.fire("Pull", flow.id, blocks_for(flow.positions, self.settings.block_size), self.now_ns)
        self.landed(flow, blocks)
        parts.aside[DECODE] += blocks
        flow.target, flow.number = blocks, number
        flow.deadline_ns = self.now_ns + self.settings.pools.transfer_ns
        self.transfers[number] = flow

    def _transferred(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        self.idle_steps = 0
        if delta[2] == "done":
            self.fire("Arrive", flow.id, flow.number in self.done, not flow.has_ended)
            if not flow.has_ended:
                parts.comers[DECODE].append(self.stay(flow, DECODE))
        else:
            self.fire("Lose", flow.id, flow.number in self.failed or self.now_ns >= flow.deadline_ns)
            if not flow.has_ended:
                parts.comers[PREFILL].append(self.stay(flow, PREFILL))

    def _adopted(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        for block in delta[2]:
            self.fire("Adopt", flow.id, block)
        parts.back[DECODE] += delta[2]
        parts.deltas[DECODE].append(("took", flow.alias, delta[2]))

    def _released(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        for block in delta[2]:
            self.fire("Release", flow.id, block)
        split = self._split(delta[2]) if delta[2] else self._due(flow)
        for pool, blocks in split.items():
            self.fire("LetGo", flow.id, pool == DECODE)
            parts.back[pool] += blocks

    def _due(self, flow: Flow) -> dict[str, list[int]]:
        """Who shows no blocks says only that all is released."""
        world = self.world
        due = {PREFILL: world.due_at_source, DECODE: world.due_at_target}
        return {pool: [] for pool, requests in due.items() if flow.id in requests}

    def _waits(self, parts: Parts, flow: Flow, delta: Delta) -> None:
        if flow.place in POOLS:
            parts.deltas[flow.place].append((delta[0], flow.alias, delta[2]))

    def stay(self, flow: Flow, place: str) -> Request:
        """It is that pool's from now on."""
        request = flow.stay(place)
        self.names[request.id] = flow.id
        return request


_DELTAS: Mapping[str, Callable[[Routing, Parts, Flow, Delta], None]] = {
    "took": Routing._took,
    "shared": Routing._took,
    "indexed": Routing._took,
    "gave": Routing._gave,
    "admitted": Routing._admitted,
    "resumed": Routing._admitted,
    "preempted": Routing._preempted,
    "waits": Routing._waits,
    "held": Routing._held,
    "pulled": Routing._pulled,
    "transferred": Routing._transferred,
    "adopted": Routing._adopted,
    "released": Routing._released,
    **dict.fromkeys(_ENDS, Routing._ended),
}

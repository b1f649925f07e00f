"""Declared caps: what runs counts against them, and whom of the waiting they hold.

Whoever is alone (of a client, of a lane, or at all) may exceed them: what can never fit must run some time.
"""

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from attrs import Factory, define

from .service import Tariff
from .vocabulary import Settings, blocks_for

if TYPE_CHECKING:
    from .entering import Entering
    from .tracks import Track


@define(eq=False)
class Residents:
    """What runs, by declared length: seats, tokens and cost of clients, seats and blocks of lanes, all tokens, all
    blocks; and adapters."""

    tariff: Tariff
    block_size: int
    running: dict[str, "Track"] = Factory(dict)
    tokens: int = 0
    blocks: int = 0
    client_seats: Counter[str] = Factory(Counter)
    client_tokens: Counter[str] = Factory(Counter)
    client_cost: Counter[str] = Factory(Counter)
    lane_seats: Counter[str] = Factory(Counter)
    lane_blocks: Counter[str] = Factory(Counter)
    adapters: Counter[str] = Factory(Counter)

    @classmethod
    def of(cls, settings: Settings) -> "Residents":
        return cls(Tariff.of(settings), settings.block_size)

    def enter(self, track: "Track") -> None:
        if track.id not in self.running:
            self.running[track.id] = track
            self._count(track, 1)

    def leave(self, track: "Track") -> None:
        if self.running.pop(track.id, None) is not None:
            self._count(track, -1)

    def _count(self, track: "Track", sign: int) -> None:
        client, blocks = track.client, blocks_for(track.limit_tokens, self.block_size)
        self.tokens += sign * track.limit_tokens
        self.blocks += sign * blocks
        _add(self.client_seats, client, sign)
        _add(self.client_tokens, client, sign * track.limit_tokens)
        _add(self.client_cost, client, sign * self.cost(track))
        _add(self.lane_seats, track.lane, sign)
        _add(self.lane_blocks, track.lane, sign * blocks)
        if track.adapter is not None:
            _add(self.adapters, track.adapter, sign)

    def cost(self, track: "Track") -> int:
        """Most that it may be charged, all its life."""
        client, prompt, tariff = track.client, track.prompt_tokens, self.tariff
        outputs = tariff.outputs(client, prompt, 0, track.declared_output)
        return tariff.entry(client) + tariff.prompt(client, prompt) + outputs


def _add(counts: Counter[str], name: str, count: int) -> None:
    counts[name] += count
    if not counts[name]:
        del counts[name]


def usable_adapters(m: "Entering") -> Collection[str | None] | None:
    """Adapters that a request may need and still enter: those in use, and none; None says all, for a slot is free.
    Those of this step's victims count as in use: whether their slots are free within the step is not known."""
    slots = m.settings.adapter_slots
    if not slots:
        return None
    used = set(m.residents.adapters)
    if m.view is not None:
        used.update(victim.track.adapter for victim in m.view.victims if victim.track.adapter is not None)
    return {None, *used} if len(used) >= slots else None


def lacks_adapter(m: "Entering", track: "Track") -> bool:
    usable = usable_adapters(m)
    return usable is not None and track.adapter not in usable


def held_by_client(m: "Entering", track: "Track") -> bool:
    """By committed cost at its most, from the first token on: then nobody is blamed who counts closer."""
    s, r, client = m.settings, m.residents, track.client
    if not r.client_seats[client]:
        return False
    return (
        _exceeds(r.client_seats[client] + 1, s.client_seats)
        or _exceeds(r.client_tokens[client] + track.limit_tokens, s.client_resident_tokens)
        or bool(s.client_committed_cost and _exceeds(r.client_cost[client] + r.cost(track), s.client_committed_cost))
    )


def held_by_lane(m: "Entering", track: "Track") -> bool:
    lane, reserved = m.lanes.get(track.lane), m.residents.lane_blocks[track.lane]
    if lane is None or lane.maximum_percent == 100 or not reserved:
        return False
    own = blocks_for(track.limit_tokens, m.settings.block_size)
    return 100 * (reserved + own) > lane.maximum_percent * m.settings.blocks


def held_by_tokens(m: "Entering", track: "Track") -> bool:
    r = m.residents
    return bool(r.running) and _exceeds(r.tokens + track.limit_tokens, m.settings.resident_tokens)


def held_by_prefill(m: "Entering") -> bool:
    """As many prompts as are allowed were in prefill in this step, or are."""
    cap = m.settings.prefilling_requests
    return bool(cap) and len(in_prefill(m)) >= cap


def in_prefill(m: "Entering") -> set[str]:
    records = m.world.RequestId
    prefilling = {request for request in m.world.running if records[request].issued < records[request].goal}
    if m.view is not None:
        plan = m.view.plan
        prefilling.update(r for r, start in zip(plan.request, plan.start, strict=True) if start < records[r].goal)
    return prefilling


def held_by_peak(m: "Entering", track: "Track") -> bool:
    """Who waits for everybody's declared output to fit may wait while others run: not if all have room at their full
    length, for there is no moment to come at which more is held.  How much less is enough is not asked."""
    if not m.world.running or not (m.claims("peak_reserve") or m.settings.reserve == "peak"):
        return False
    whole = m.residents.blocks + blocks_for(track.limit_tokens, m.settings.block_size)
    return bool(whole > m.world.usable_blocks - m.settings.watermark_blocks)


def held_by_cap(m: "Entering", track: "Track") -> bool:
    """A declared cap, of its client, its lane or all together, or an adapter keeps it from being admitted.  Whoever
    stands before it in the line of its client, or is the first of another one in its lane, may be the one that is
    held."""
    return (
        held_by_client(m, track)
        or held_by_tokens(m, track)
        or lacks_adapter(m, track)
        or held_by_prefill(m)
        or held_by_peak(m, track)
        or is_passed_over(m, *track.queue)
        or held_by_lane(m, track)
        or is_full(m, track.lane)
    )


def is_passed_over(m: "Entering", lane: str, client: str) -> bool:
    """A client's first request in a lane is held by a cap, or the first that has its adapter, or none of them has."""
    first = first_of(m, lane, client, usable_adapters(m))
    if first is None:
        return True
    firsts = (first, first_of(m, lane, client, None) or first)
    return any(held_by_client(m, one) or held_by_lane(m, one) or held_by_tokens(m, one) for one in firsts)


def is_full(m: "Entering", lane: str) -> bool:
    """The first of some client does not fit under the lane's maximum; if it is the lane's first, the lane is held."""
    settings = m.lanes.get(lane)
    if settings is None or settings.maximum_percent == 100:
        return False
    firsts = (first_of(m, lane, client, None) for client in m.lines.clients.get(lane, ()))
    return any(first is not None and held_by_lane(m, first) for first in firsts)


def is_held(m: "Entering", lane: str) -> bool:
    """Every client that waits in the lane is passed over.  Those that are have requests running, or need an adapter."""
    return is_full(m, lane) or all(is_passed_over(m, lane, client) for client in m.lines.clients.get(lane, ()))


def first_of(m: "Entering", lane: str, client: str, usable: Collection[str | None] | None) -> "Track | None":
    """The first of a client's line; where the settings have no lanes, it is one line whatever lanes requests name."""
    lanes = [lane] if m.lanes else [name for name, clients in m.lines.clients.items() if client in clients]
    entry = min((entry for name in lanes for entry in m.lines.first((name, client), usable)), default=None)
    return None if entry is None else entry[2]


def held_lanes(m: "Entering", picked: "Track | None" = None) -> set[str]:
    """Lanes that wait and may be passed over: they are held, or a request there waits for results that are under way.
    The one that was picked is not."""
    awaiting = {track.lane for track in m.strays() if track.waits}
    held = {lane for lane in m.lane_ledger.waiting if lane in awaiting or is_held(m, lane)}
    return held - {picked.lane} if picked is not None else held


def _exceeds(value: int, cap: int) -> bool:
    return 0 < cap < value

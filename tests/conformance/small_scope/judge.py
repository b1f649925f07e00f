"""The monitor as the judge of single transitions: which rules it may judge so, and what it remembers from the past.

A rule can be judged by a transition, together with whatever it remembers of those before.  `memory` is what the monitor
remembers that these rules read: states in which it remembers something else are told apart.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from attrs import define, field

from schedspec.spec.content import Copy
from schedspec.spec.monitor import Monitor
from schedspec.spec.tracks import InFlight, Track
from schedspec.spec.verdicts import Violation
from schedspec.spec.vocabulary import Header, Message

from ..ear import Ear
from .scope import Event
from .world import World

BY_TRANSITION = (
    *("KV-12", "KV-13", "KV-14", "STEP-8", "STEP-9", "STEP-12", "STEP-15", "PRE-1", "PRE-4", "PRE-5", "PRE-6"),
    *("PRE-9", "PRE-10", "LIVE-3", "LIVE-7", "LIVE-8", "LIVE-11"),
)
"""Of PRE-6 that a preemption leaves somebody running; that completed tokens grow is asked of whole graphs."""


@define(eq=False)
class Judge:
    """A world with a monitor beside it.  `heard` are all messages so far, if they are to be kept."""

    world: World
    explain: bool = False
    monitor: Monitor = field(init=False)
    heard: list[Message] = field(init=False, factory=list)
    header: Header = field(init=False)
    ear: Ear = field(init=False, factory=Ear)

    def __attrs_post_init__(self) -> None:
        scope, shown = self.world.scope, self.world.subject.capabilities()
        self.header = Header(settings=scope.settings, capabilities=shown, seed=scope.seed, subject="subject")
        self.world.told = []
        self.monitor = Monitor(self.header, explain=self.explain)

    def do(self, event: Event) -> tuple[tuple[int, ...], list[Violation]]:
        """What has become of everybody, and what the call broke.  Raises ProtocolError for an answer that is none."""
        moves = self.world.do(event)
        told, self.world.told = self.world.told or [], []
        broken = [violation for message in told for violation in self.monitor.feed(message)]
        for message in told:
            self.ear.hear(message)
        if self.explain:
            self.heard += told
        self._forget_what_stands_by_chance()
        return moves, broken

    def exercised(self) -> Mapping[str, int]:
        """How often the preconditions of the rules of BY_TRANSITION held so far."""
        counts = self.monitor.exercised()
        return {rule: counts[rule] for rule in BY_TRANSITION if counts[rule] and self.monitor.binds(rule)}

    def memory(self) -> Hashable:
        return memory(self.monitor, list(self.world.live))

    def _forget_what_stands_by_chance(self) -> None:
        """What is left in a block from its former owner may be just what a wrong read looks for.  So contents end where
        the positions that were computed do, and in a free block there are none."""
        if self.monitor.shadow is None:
            return
        world, contents = self.monitor.world, self.monitor.shadow.blocks
        size = self.monitor.settings.block_size
        for block in contents.keys() - self._of_steps_under_way():
            record = world.BlockId[block]
            computed = max((world.RequestId[holder].computed for holder in record.holders), default=0)
            if block in world.free:
                del contents[block]
            elif block not in world.indexed:
                del contents[block][max(0, min(size, computed - record.base)) :]
        for block in self.monitor.shadow.host.keys() & world.host_free - self._on_the_way():
            del self.monitor.shadow.host[block]

    def _of_steps_under_way(self) -> set[int]:
        """Blocks of whoever left since they were planned: it may still read them; and those that are copied yet."""
        flights = self.monitor.in_flight.values()
        departed = {block for flight in flights for track in flight.departed for block in flight.table_of(track)}
        return departed | {block for copy in self._copies() for block in copy.blocks}

    def _on_the_way(self) -> set[int]:
        return {block for copy in self._copies() for block in copy.host}

    def _copies(self) -> Sequence[Copy]:
        return [] if self.monitor.shadow is None else self.monitor.shadow.copies


def memory(m: Monitor, live: Sequence[str]) -> Hashable:
    """What the rules of BY_TRANSITION may read of the past, up to names: requests are called by their place in `live`.
    If anything is missing the walk notices that calls do not lead where they led before."""
    numbers = {id: number for number, id in enumerate(live)}
    waiting = [id for id in live if m.tracks[id].waits]
    return (
        tuple(_request(m, m.tracks[id]) for id in live),
        _order(live, {id: m.tracks[id].place for id in waiting}),
        _order(live, {id: m.world.RequestId[id].victim_key for id in live if id in m.world.running}),
        _order(live, {id: m.tracks[id].began for id in waiting}) if m.claims("bounded_overtaking") else (),
        tuple(_flight(flight, numbers) for _, flight in sorted(m.in_flight.items())),
        (m.waiting, len(m.world.free), len(m.world.evictable), len(m.world.host_free)),
        _index(m),
        _parking(m, numbers),
        tuple((m.last_step - step, numbers.get(id, -1), identity) for step, id, _, identity in m._pledges),
    )


def _parking(m: Monitor, numbers: Mapping[str, int]) -> Hashable:
    """Who is parked, what has been said of what, and what is leased, the first first."""
    if not m.parks:
        return None
    answers = sorted((numbers[id], tuple(sorted(said.items()))) for id, said in m.parking.answers.items())
    parked = tuple((numbers[id], tuple(sorted(p.dependencies)), p.has_failed) for id, p in m.parking.parked.items())
    leases = tuple((numbers[id], len(lease.blocks)) for id, lease in m.parking.leases.items())
    return tuple(answers), parked, leases


def _request(m: Monitor, track: Track) -> Hashable:
    r: Any = m.world.RequestId[track.id]
    most = m.capabilities.constant("max_overtaken") if m.claims("bounded_overtaking") else 0
    waits = track.id in m.spells.slot_of
    return (
        (track.waits, r.phase, r.issued, r.computed, r.known, r.outputs, r.in_flight, r.goal, r.room, r.kept),
        (min(m.spells.seen(track), most), min(m.spells.overtaken(track), most)) if waits else None,
        max(0, track.shared_tokens - r.issued),
        tuple(_stands(m, track, place, block) for place, block in enumerate(track.table)),
        tuple(_is_saved(m, track, place, block) for place, block in enumerate(track.saved)),
    )


def _is_saved(m: Monitor, track: Track, place: int, block: int) -> bool:
    """Whether a host block has what it should, or will have it."""
    start = place * m.settings.block_size
    end = min(m.world.RequestId[track.id].kept, start + m.settings.block_size)
    contents = m.shadow.host.get(block, []) if m.shadow else []
    return contents[: end - start] == [track.id_at(position) for position in range(start, end)]


def _stands(m: Monitor, track: Track, place: int, block: int) -> int:
    """How many of its computed positions stand in a block of its table as its own prefix."""
    start = place * m.settings.block_size
    contents = m.shadow.blocks.get(block, []) if m.shadow else []
    computed = contents[: max(0, m.world.RequestId[track.id].computed - start)]
    return sum(identity == track.id_at(start + offset) for offset, identity in enumerate(computed))


def _order(live: Sequence[str], keys: Mapping[str, int]) -> Hashable:
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
    return tuple(ranks[keys[id]] if id in keys else -1 for id in live)


def _flight(flight: InFlight, numbers: Mapping[str, int]) -> Hashable:
    """Whoever left since may do nothing any more but write to blocks that were its own."""
    rows = zip(flight.tracks, flight.start, flight.tokens, strict=True)
    return tuple((numbers[t.id], start, tokens) for t, start, tokens in rows if t not in flight.departed)


def _index(m: Monitor) -> Hashable:
    """The prefixes that the index names, whether each stands in its block, and whether anybody holds it."""
    blocks = ((block, m.world.BlockId[block]) for block in m.world.indexed)
    return tuple(
        sorted((r.content, bool(m.shadow and m.shadow.holds(b, r.content)), bool(r.holders)) for b, r in blocks)
    )

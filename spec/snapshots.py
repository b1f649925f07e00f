"""A snapshot against what the deltas built: an undeclared change shows here.

Where a rule is a term, the term itself is evaluated on the state that the subject shows.
"""

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

from .catalogue import registry
from .compiled import World
from .parking import LEASE
from .registry import Conjunct
from .relation import PARKED, PHASES
from .vocabulary import Observation

if TYPE_CHECKING:
    from .monitor import Monitor


def compare(m: "Monitor", shown: Observation) -> None:
    """Counters and requests first; blocks only where they are shown."""
    if m.shows("counters"):
        _compare_counters(m, shown)
        _compare_requests(m, shown)
    if m.shows_tables:
        _compare_lists(m, shown)
        _compare_tables(m, shown)
        _compare_host(m, shown)
        _evaluate_invariants(m, shown)


def _true_counters(m: "Monitor") -> dict[str, int]:
    world = m.world
    counters = {"running": len(world.running), "waiting": m.waiting - m.swapped, "swapped": m.swapped}
    if m.shows_tables:
        counters |= {"free_blocks": m.available(), "used_blocks": len(world.in_use)}
        counters |= {"free_host_blocks": len(world.host_free)}
    return counters


def _compare_counters(m: "Monitor", shown: Observation) -> None:
    true = _true_counters(m)
    for name in sorted(shown.counters.keys() & true.keys()):
        m.count("OBS-3")
        if shown.counters[name] != true[name]:
            says = "exported counters equal the state"
            m.fail("OBS-3", name, says, counter=name, shown=shown.counters[name], true=true[name])


def _compare_requests(m: "Monitor", shown: Observation) -> None:
    m.shown_requests |= bool(shown.requests)
    if not m.shown_requests:
        return  # an optional part that the subject does not show
    m.count("LIFE-1", m.live)
    live = {track.id for track in m.tracks.values() if not track.ended}
    for request in sorted(live - set(shown.requests))[:1]:
        phase = _phase_of(m, request)
        m.fail("LIFE-1", "lost", "every request that has not ended is somewhere", request=request, last_known=phase)
    for request in sorted(set(shown.requests) - live)[:1]:
        m.fail("LIFE-1", "ghost", "nobody who ended is anywhere", request=request)
    for request, view in shown.requests.items():
        if request not in live:
            continue
        r = m.world.RequestId[request]
        phase = "swapped" if r.kept else _phase_of(m, request)
        if view.state != phase:
            says = "a request is where its deltas say"
            m.fail("LIFE-1", "elsewhere", says, request=request, shown=view.state, true=phase)
        outputs = m.tracks[request].outputs if phase == "parked" else r.outputs
        true = {"issued": r.kept or r.issued, "computed": r.kept or r.computed, "outputs": outputs}
        for name, value in true.items():
            if getattr(view, name) != value:
                says = "exported positions equal the state"
                m.fail("OBS-3", name, says, request=request, shown=getattr(view, name), true=value)
        if view.in_flight != r.in_flight:
            says = "placeholders equal what is in flight"
            m.fail("LIFE-8", "count", says, request=request, shown=view.in_flight, true=r.in_flight)


def _phase_of(m: "Monitor", request: str) -> str:
    return PHASES[PARKED if request in m.parking.parked else m.world.RequestId[request].phase]


def _compare_lists(m: "Monitor", shown: Observation) -> None:
    for name in ("free", "evictable"):
        blocks = getattr(shown, name)
        twice = [block for block, times in Counter(blocks).items() if times > 1]
        if twice:
            m.fail("KV-8", name, f"the {name} list names a block once", block=twice[0], times=blocks.count(twice[0]))
    if set(shown.index) != m.world.indexed:
        odd = min(set(shown.index) ^ m.world.indexed)
        says = "the index names what its deltas say"
        m.fail("KV-14", "index", says, block=odd, shown=odd in shown.index, true=odd in m.world.indexed)
    leased, true = sorted(o for o in shown.obligations if o[2] == LEASE), m.parking.obligations()
    if m.parks and leased != true:
        says = "leases are obligations, and what the deltas say"
        m.fail("KV-15", "shown", says, shown=leased[:5], true=true[:5])


def _compare_tables(m: "Monitor", shown: Observation) -> None:
    held = {track.id: track.table for track in m.tracks.values() if track.table}
    for request in sorted({*held, *shown.tables}):
        table = list(shown.tables.get(request, ()))
        if table != held.get(request, []):
            says = "a table is what its deltas say"
            m.fail("KV-6", "table", says, request=request, shown=table, true=held.get(request, []))
            return


def _compare_host(m: "Monitor", shown: Observation) -> None:
    """Host blocks, where the subject shows them."""
    m.shown_host |= bool(shown.host_free or shown.host_tables)
    if not m.shown_host:
        return
    twice = [block for block, times in Counter(shown.host_free).items() if times > 1]
    if twice or set(shown.host_free) != m.world.host_free:
        says = "the free host blocks are what the deltas say, each once"
        m.fail("PRE-9", "host_free", says, shown=sorted(shown.host_free), true=sorted(m.world.host_free))
    saved = {track.id: track.saved for track in m.tracks.values() if track.saved}
    for request in sorted({*saved, *shown.host_tables}):
        table = list(shown.host_tables.get(request, ()))
        if table != saved.get(request, []):
            says = "the host blocks of a request are what its deltas say"
            m.fail("PRE-9", "host_table", says, request=request, shown=table, true=saved.get(request, []))
            return


def _evaluate_invariants(m: "Monitor", shown: Observation) -> None:
    world = _world_of(m, shown)
    for conjunct in _shown_invariants():
        if m.binds(conjunct.rule) and not m.program.holds[conjunct.name](world):
            m.fail(conjunct.rule, str(conjunct.place), m.says(conjunct), **_sizes(world))


@cache
def _shown_invariants() -> list[Conjunct]:
    return [c for rule in ("KV-1", "KV-3") for c in registry.of_kind("invariant") if c.rule == rule]


def _world_of(m: "Monitor", shown: Observation) -> World:
    """The state of the relation that a snapshot shows."""
    world = m.program.world()
    world.pool_blocks = m.settings.blocks
    world.free, world.evictable = set(shown.free), set(shown.evictable)
    world.aside = {*shown.null, *shown.reserved} | {block for block, _, why in shown.obligations if why != LEASE}
    for request, table in shown.tables.items():
        for block in table:
            world.in_use.add(block)
            world.BlockId[block].holders.add(request)
    m.shown_ref_counts |= bool(shown.ref_counts)
    for block in world.in_use:
        record = world.BlockId[block]
        record.refs = shown.ref_counts.get(block, 0) if m.shown_ref_counts else len(record.holders)
    for block in shown.ref_counts.keys() - world.in_use:
        world.BlockId[block].refs = shown.ref_counts[block]
    world.aside -= world.in_use
    nobodys = world.BlockId.make()  # one record for all blocks of which nothing is said: nothing is written here
    for block in range(m.settings.blocks):
        world.BlockId.setdefault(block, nobodys)
    return world


def _sizes(world: Any) -> dict[str, int]:
    return {
        "free": len(world.free),
        "evictable": len(world.evictable),
        "in_use": len(world.in_use),
        "aside": len(world.aside),
        "pool_blocks": world.pool_blocks,
    }

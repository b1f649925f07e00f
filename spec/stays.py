"""What the monitor does when a request is parked or waits again: one stay in the relation ends, another one begins."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .errors import ProtocolError
from .parking import Parked, begin_anew
from .relation import CANCELLED
from .tracks import BlockPrefixes, Track
from .vocabulary import Delta

if TYPE_CHECKING:
    from .entering import Entering
    from .memory import Memory


def parked(m: "Entering", track: Track, delta: Delta) -> None:
    """In the middle: it leaves its seat, or its place in the queue, and what is under way is not its own any more."""
    if not m.parks:
        problem, hint = "nobody is parked here", "claim 'parking', and honour park_timeout_ns where it is not 0"
        raise ProtocolError("complete", "deltas.parked", track.id, problem, hint)
    m._tell("on_parked", track, delta[2])
    for flight in m.in_flight.values():
        flight.void.add(track)
    m._replace_table(track, [])
    m._depart(track)
    m.waiting -= track.waits
    park(m, track, delta[2])
    m._leaves(track)
    if m.keeps_ledger:
        m.ledger.park(track)


def park(m: "Entering", track: Track, dependencies: Sequence[str]) -> None:
    """To the relation its stay is over, and until the next one nobody has heard of it."""
    record = m.world.RequestId[track.id]
    m._fire("End", track.id, CANCELLED, True)
    begin_anew(record)
    record.prefix = BlockPrefixes(track, m.settings.block_size)
    m.parking.park(track, dependencies, m.now_ns)


def unparked(m: "Entering", track: Track, delta: Delta) -> None:
    if track.id not in m.parking.parked:
        m.fail("LIVE-5", "twice", "who is not parked does not leave", request=track.id)
        return
    leave(m, m.parking.parked[track.id], "unparked")
    m._comes_to_wait(track)
    m._tell("on_waits_again", track)


def leave(m: "Entering", parked: Parked, how: str) -> None:
    """It waits again, or ends; to the relation it comes anew, with the outputs that it has."""
    track = parked.track
    m._tell("on_unparked", parked, how)
    m.parking.leave(track.id)
    m._fire("Accept", track.id, *m.parking.arrived[track.id])
    record = m.world.RequestId[track.id]
    record.output_limit, record.outputs = track.declared_output, track.outputs
    record.known = track.prompt_tokens + track.outputs


def leased(m: "Entering", track: Track, delta: Delta) -> None:
    m._tell("on_leased", track, delta[2], delta[3])
    m.parking.lease(track.id, delta[2], delta[3])


def lease_over(m: "Entering", track: Track, delta: Delta) -> None:
    m._tell("on_lease_over", track, delta[2])
    m.parking.end_lease(track.id)


def spare_leased(m: "Memory", blocks: Iterable[int]) -> None:
    """KV-15: none of these is leased."""
    for block in blocks if m.parking.pins else ():
        if block in m.parking.pins:
            says = "a leased block is neither taken nor forgotten before its lease is over"
            m.fail("KV-15", "kept", says, block=block)

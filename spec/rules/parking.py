"""LIVE and KV: requests that depend on something outside, are parked until it is there, and what is kept for them."""

from typing import TYPE_CHECKING

from ..parking import CLAIM
from ..relation import registry
from .base import TraceRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..monitor import Monitor, StepView
    from ..parking import Parked
    from ..tracks import Track
    from ..vocabulary import Delta, Message

monitor = registry.monitor


class OnTheClock(TraceRule):
    """Common part: what is over is over in the answer of the first call that may change anything."""

    def __init__(self) -> None:
        self.changes_nothing = False

    def on_call(self, m: "Monitor", message: "Message") -> None:
        is_repeated = message.kind == "complete" and message.given.step not in m.in_flight
        self.changes_nothing = is_repeated or message.kind in ("observe", "end")


@monitor("LIVE-4", claims=(CLAIM,), bugs=("B13", "B48"))
class TheWokenWait(TraceRule):
    """A request of which all that it depends on is there waits again in the next step at the latest, and one of which
    something failed has ended by then, whatever the load.

    Why: requests whose condition was met were looked for behind the guards of budget and seats, so that a busy engine
    never reached them (https://github.com/vllm-project/vllm/issues/53130); a transfer that had failed was waited for
    for ever (https://github.com/vllm-project/vllm/issues/35943).
    """

    def on_unparked(self, m: "Monitor", parked: "Parked", how: str) -> None:
        if not parked.is_pending:
            m.count("LIVE-4")

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        for request, parked in m.parking.woken.items():
            m.count("LIVE-4")
            says = "who has what it depends on waits again in the next step, and who cannot have it ends"
            m.fail("LIVE-4", "woken", says, request=request, failed=parked.has_failed)
            return


@monitor("LIVE-5", claims=(CLAIM,), bugs=("B10", "B48"))
class TheParkedComeBack(OnTheClock):
    """Whoever depends on something is parked in the call that says so, names dependencies that are alive, and leaves
    when all of them are there, when one fails or when its time is over, once, and in no other way but by its end. What
    the world says before it is asked counts.

    Why: the field for a deadline was there and never set, so requests waited for a dead peer until the node stood still
    (https://github.com/vllm-project/vllm/issues/35943); a loader waited for a model to unload that a new request had
    brought back to life (https://github.com/ollama/ollama/issues/17408).
    """

    def on_parked(self, m: "Monitor", track: "Track", dependencies: "Sequence[str]") -> None:
        m.count("LIVE-5")
        asked = m.parking.pauses.get(track.id)
        if list(dependencies) != [asked]:
            says = "who is parked names what its result made it depend on"
            m.fail("LIVE-5", "named", says, request=track.id, named=list(dependencies), asked=asked)
        elif (there := m.parking.answer(track.id, dependencies[0])) is not None:
            says = "who is parked names a dependency that is alive"
            m.fail("LIVE-5", "alive", says, request=track.id, named=dependencies[0], is_there=there)

    def on_complete(self, m: "Monitor", deltas: "Sequence[Delta]") -> None:
        """Of those whose token was delivered."""
        delivered = {request for delta in deltas if delta[0] == "delivered" for request in delta[1]}
        for request, dependency in m.parking.pauses.items():
            if request not in delivered or m.tracks[request].ended:
                continue
            m.count("LIVE-5")
            there = m.parking.answer(request, dependency)
            if there is None and request not in m.parking.parked:
                says = "who depends on something is parked in the call that says so"
                m.fail("LIVE-5", "parked", says, request=request, dependency=dependency)
            elif there is False:
                says = "who depends on something that has failed ends in the call that says so"
                m.fail("LIVE-5", "failed", says, request=request, dependency=dependency)

    def on_unparked(self, m: "Monitor", parked: "Parked", how: str) -> None:
        m.count("LIVE-5")
        request = parked.track.id
        if how == "unparked" and (parked.dependencies or parked.has_failed):
            says = "who is parked waits again when all that it depends on is there"
            m.fail("LIVE-5", "early", says, request=request, missing=sorted(parked.dependencies))
        elif how == "failed" and not parked.has_failed:
            m.fail("LIVE-5", "success", "who is parked fails when something that it depends on does", request=request)
        elif how == "expired" and m.now_ns <= parked.until_ns:
            says = "who is parked expires when its time is over"
            m.fail("LIVE-5", "expired", says, request=request, now_ns=m.now_ns, until_ns=parked.until_ns)

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        for parked in () if self.changes_nothing else m.parking.overdue(m.now_ns):
            says = "nobody is parked when its time is over"
            m.fail("LIVE-5", "timeout", says, request=parked.track.id, now_ns=m.now_ns, until_ns=parked.until_ns)
            return


@monitor("KV-15", needs="tables", claims=(CLAIM, "prefix_cache"), bugs=("B42", "B43", "B45"))
class LeasesAreKept(OnTheClock):
    """A block that is leased to a request that is parked holds its prefix, and is neither taken nor forgotten before
    the lease is over. A lease lasts at most hold_ns and is over once: when its request runs again or ends, when its
    time is over, or when no other block is left; nothing is leased to nobody.

    Why: a cache that locked the ancestors of a match and not the match itself evicted what was about to be read
    (https://github.com/sgl-project/mini-sglang/pull/52), and one in which pins had no owner filled up with them
    (https://github.com/LMCache/LMCache/issues/1034); agents pause for seconds, and what they computed is worth keeping
    for so long, and no longer (Continuum, https://arxiv.org/abs/2511.02230).
    """

    def __init__(self) -> None:
        super().__init__()
        self.over: list[tuple[Track, str]] = []
        self.left: set[Track] = set()

    def on_leased(self, m: "Monitor", track: "Track", blocks: "Sequence[int]", until_ns: int) -> None:
        m.count("KV-15")
        if track.id not in m.parking.parked or track.id in m.parking.leases:
            m.fail("KV-15", "parked", "one lease is given to a request that is parked", request=track.id)
        if not m.now_ns < until_ns <= m.now_ns + m.settings.hold_ns:
            says = "a lease lasts at most hold_ns"
            m.fail("KV-15", "until", says, request=track.id, now_ns=m.now_ns, until_ns=until_ns)
        size = m.settings.block_size
        for place, block in enumerate(blocks):
            last = (place + 1) * size - 1
            is_known = last < len(track.tokens) and block in m.world.indexed
            if not is_known or m.world.BlockId[block].content != track.id_at(last):
                says = "a leased block is one that the index names for that prefix"
                m.fail("KV-15", "prefix", says, request=track.id, block=block, position=last)
                return

    def on_lease_over(self, m: "Monitor", track: "Track", cause: str) -> None:
        m.count("KV-15")
        lease = m.parking.leases.get(track.id)
        if lease is None:
            m.fail("KV-15", "once", "a lease is over once", request=track.id)
        elif cause == "expired" and m.now_ns <= lease.until_ns:
            m.fail("KV-15", "early", "a lease expires when its time is over", request=track.id, until_ns=lease.until_ns)
        elif cause == "memory" and m.capabilities.ordered and m.available_unleased():
            says = "a lease gives way to memory when no other block is left"
            m.fail("KV-15", "memory", says, request=track.id, available=m.available_unleased())
        self.over.append((track, cause))

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        self.left.add(track)

    on_ended = on_admit

    def on_answered(self, m: "Monitor", message: "Message") -> None:
        for track, cause in self.over:
            is_over = track.ended if cause == "ended" else track.id in m.world.running
            if cause in ("ended", "resumed") and not is_over:
                m.fail("KV-15", "cause", "a lease is over when its request runs again or ends", request=track.id)
        for track in self.left:
            if track.id in m.parking.leases:
                m.fail("KV-15", "owner", "nothing is leased to who runs or has ended", request=track.id)
        self.over, self.left = [], set()
        first = None if self.changes_nothing else next(iter(m.parking.leases.items()), None)
        if first is not None and first[1].until_ns < m.now_ns:
            m.fail("KV-15", "overdue", "no lease outlasts its time", request=first[0], until_ns=first[1].until_ns)

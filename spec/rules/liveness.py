"""LIVE: progress and waiting."""

import heapq
from typing import TYPE_CHECKING

from ..batching import admits_nobody
from ..caps import first_of, held_by_cap, held_by_client, held_by_tokens, usable_adapters
from ..queueing import CHANGING, PLACES, mlfq_level
from ..relation import registry
from .base import TraceRule, has_stray, needed_blocks, tokens_to_hold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..monitor import Monitor, StepView
    from ..parking import Parked
    from ..tracks import Track

monitor = registry.monitor


@monitor("LIVE-1", bugs=("B08", "B13"))
class SomethingIsScheduled(TraceRule):
    """With unfinished work and nothing in flight, some token is scheduled in the next step, or within the declared
    admission period; who is parked, and waits for the world, is no work; in one of two pools, unless blocks of it are
    under an obligation.

    Why: zero tokens per step for ever, with free blocks left and health checks green
    (https://github.com/vllm-project/vllm/issues/45388).
    """

    def __init__(self) -> None:
        self.idle_steps = 0

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if m.ready < 1 or not view.nothing_in_flight or (m.has_obligations and not view.plan.request):
            return
        m.count("LIVE-1")
        self.idle_steps = 0 if view.plan.request else self.idle_steps + 1
        if self.idle_steps >= m.capabilities.admission_period_steps:
            says = "with unfinished work and nothing in flight, some token is scheduled"
            waiting, running = m.waiting, len(m.world.running)
            m.fail("LIVE-1", "idle", says, unfinished=m.ready, waiting=waiting, running=running)
            self.idle_steps = 0


@monitor("LIVE-2")
class EverybodyEnds(TraceRule):
    """Once arrivals stop, every accepted request ends within a computed number of steps: for each of them its
    prompt and declared output, one position a step; and again for each level that it may pass, where a better level
    takes the place of a worse one. Whoever is parked arrives once more when what it depends on is there.

    Why: a request that neither ends nor fails holds its client for ever
    (https://github.com/vllm-project/vllm/issues/35541).
    """

    def __init__(self) -> None:
        self.work_steps = 0
        self.deadline_steps = 0
        self.steps = 0

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        if track.id not in m.parking.parked:
            self._comes(m, track)

    def on_unparked(self, m: "Monitor", parked: "Parked", how: str) -> None:
        self._comes(m, parked.track)

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        self.work_steps -= self._worst(m, track)

    def on_parked(self, m: "Monitor", track: "Track", dependencies: "Sequence[str]") -> None:
        self.work_steps -= self._worst(m, track)

    def _comes(self, m: "Monitor", track: "Track") -> None:
        self.work_steps += self._worst(m, track)
        self.deadline_steps = self.steps + self.work_steps

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if m.ready < 1 or not (view.plan.request or (view.nothing_in_flight and not m.has_obligations)):
            return
        m.count("LIVE-2")
        self.steps += 1
        if self.steps > self.deadline_steps + 1:
            says = "once arrivals stop, every accepted request ends within a computed number of steps"
            late = [track.id for track in m.tracks.values() if not track.ended]
            m.fail("LIVE-2", "deadline", says, unfinished=late[:5], steps_since_arrival=self.deadline_steps)
            self.deadline_steps += self.work_steps

    def on_end(self, m: "Monitor") -> None:
        if m.live:
            late = [track.id for track in m.tracks.values() if not track.ended]
            m.fail("LIVE-2", "never", "when the run ends every accepted request has ended", unfinished=late[:5])

    @staticmethod
    def _worst(m: "Monitor", track: "Track") -> int:
        """Its positions one by one; what overlap plans in vain, and the wait for an admission, come on top."""
        extra = m.settings.overlap_depth - 1 + m.capabilities.admission_period_steps - 1
        levels = mlfq_level(track.limit_tokens, m.settings.quantum) if m.settings.preempt_lower_class else 0
        return (track.limit_tokens - 1 + extra) * (1 + levels if m.claims("mlfq") else 1)


class Idleness(TraceRule):
    """Common part of rules that ask whether anything is idle that a waiting request could use.

    A request surely fits if all that is known of it does: with less it may fit or not, which is the subject's to know.
    A step that broke a rule is not asked: what is idle is not known then.  Requests stand in a heap for each `group`,
    so that whole groups may be passed over.
    """

    rule = ""

    def __init__(self) -> None:
        self.queues: dict[str | None, list[tuple[int, str]]] = {}
        self.idle_steps = 0

    def patience(self, m: "Monitor") -> int:
        """Steps in a row that may stay idle."""
        return m.capabilities.admission_period_steps - 1

    def group(self, m: "Monitor", track: "Track") -> str | None:
        return None

    def rank(self, m: "Monitor", track: "Track") -> int:
        raise NotImplementedError

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        queue = self.queues.setdefault(self.group(m, track), [])
        heapq.heappush(queue, (self.rank(m, track), track.id))
        if len(queue) > 2 * m.waiting + 64:  # where no step is ever idle nobody looks at the queue
            waiting = {request for _, request in queue if self.waits(m, request)}
            queue[:] = sorted((self.rank(m, m.tracks[request]), request) for request in waiting)

    on_wait = on_waits_again = on_accept

    def first(self, m: "Monitor", group: str | None = None) -> "Track | None":
        """The waiting request of least rank; entries of those who wait no longer are dropped on the way."""
        queue = self.queues.get(group, [])
        while queue:
            rank, request = queue[0]
            if not self.waits(m, request):
                heapq.heappop(queue)
            elif rank != (now := self.rank(m, m.tracks[request])):
                heapq.heapreplace(queue, (now, request))
            else:
                return m.tracks[request]
        self.queues.pop(group, None)
        return None

    @staticmethod
    def waits(m: "Monitor", request: str) -> bool:
        return request in m.tracks and m.tracks[request].waits

    def candidates(self, m: "Monitor") -> "list[Track]":
        """If all of these surely fit, somebody should have been admitted."""
        track = self.first(m)
        return [] if track is None else [track]

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        busy = view.budget_left < 1 or len(m.world.running) >= m.settings.seats or bool(view.victims)
        busy = busy or admits_nobody(m, view)
        tracks = [] if busy or m.is_broken else self.candidates(m)
        if not tracks:
            self.idle_steps = 0
            return
        m.count(self.rule)
        self.idle_steps = self.idle_steps + 1 if all(self.fits(m, view, track) for track in tracks) else 0
        if self.idle_steps > self.patience(m):
            self.complain(m, view, tracks[0])

    def fits(self, m: "Monitor", view: "StepView", track: "Track") -> bool:
        return self.has_room(m, view, track) and not held_by_cap(m, track)

    def has_room(self, m: "Monitor", view: "StepView", track: "Track", freed_blocks: int = 0) -> bool:
        budget = m.settings.chunked_prefill or view.budget_left >= tokens_to_hold(m, track)
        kept = m.settings.watermark_blocks if m.world.running else 0
        available = m.available() + freed_blocks - kept
        return budget and needed_blocks(m, track) <= available and not has_stray(m, track)

    def complain(self, m: "Monitor", view: "StepView", track: "Track") -> None:
        m.fail(
            self.rule,
            "idle",
            (registry.rules[self.rule].statement),
            request=track.id,
            budget_left=view.budget_left,
            seats_left=m.settings.seats - len(m.world.running),
            available_blocks=m.available(),
        )


ONE_QUEUE = (*PLACES, *CHANGING)


def place_or_size(m: "Monitor", track: "Track") -> int:
    """Who says nothing of the order is asked about whoever fits worst: if that one does, so does the head."""
    if not m.capabilities.claims.isdisjoint(ONE_QUEUE):
        return track.place
    return -tokens_to_hold(m, track)


QUEUES_OF_CLIENTS = ("vtc", "lcf", "round_robin", "drr", "dlpm")
"""Policies that pass a client whom a cap holds."""


def firsts_of_clients(m: "Monitor") -> "list[Track]":
    """Of each client that waits its first request, where no cap of the client holds it."""
    waiting = [(lane, client) for lane, clients in m.lines.clients.items() for client in clients]
    firsts = (first_of(m, lane, client, usable_adapters(m)) for lane, client in waiting)
    return [track for track in firsts if track is not None and not held_by_client(m, track)]


def order_is_open(m: "Monitor") -> bool:
    """Who is next is not known: somebody has waited long enough to go before everybody, or a request that the whole
    system's cap holds may be the head."""
    oldest = m.spells.oldest(None) if m.claims("bounded_overtaking") else None
    if oldest is not None and m.is_promoted(oldest):
        return True
    if not m.settings.resident_tokens or not m.capabilities.claims.isdisjoint(ONE_QUEUE):
        return False
    longest = m.lines.longest()
    return longest is not None and held_by_tokens(m, longest)


@monitor("LIVE-8", needs="tables")
class NoUndeclaredIdleness(Idleness):
    """Budget, seats and memory stay idle while an admissible request waits only for a declared reason: the head of the
    queue that does not fit (but if `skip` is claimed only a victim, and only with `resume_order`), the watermark, a
    cap, the admission period, a batch that runs to its end, a step that decodes where decode comes first and no step
    mixes phases.

    Why: a scheduler that admits too little looks healthy and is slow; operators see it only as low utilisation
    (https://github.com/vllm-project/vllm/pull/38435).
    """

    rule = "LIVE-8"

    def rank(self, m: "Monitor", track: "Track") -> int:
        """Who goes past a head that does not fit is asked about whoever fits best."""
        return tokens_to_hold(m, track) if m.claims("skip") else place_or_size(m, track)

    def candidates(self, m: "Monitor") -> "list[Track]":
        """Where clients have queues of their own, whoever is asked about may be one whom a cap of its client holds:
        then all others are, each client's first, for one of them is next."""
        tracks = super().candidates(m)
        has_queues = not (m.capabilities.claims.isdisjoint(QUEUES_OF_CLIENTS) or m.settings.client_committed_cost)
        if not (tracks and has_queues and held_by_client(m, tracks[0])):  # of that cost the most is known
            return tracks
        return firsts_of_clients(m) or tracks

    def fits(self, m: "Monitor", view: "StepView", track: "Track") -> bool:
        if not super().fits(m, view, track):
            return False
        return not (order_is_open(m) or self._adapters_hold_up(m) or self._a_victim_holds_up(m, track))

    @staticmethod
    def _a_victim_holds_up(m: "Monitor", track: "Track") -> bool:
        """Who goes past a head that does not fit goes past no victim, where those are resumed first (PRE-7)."""
        if not (m.claims("skip") and m.claims("resume_order")):
            return False
        return any(other.waits and other.epoch and other.place < track.place for other in m.tracks.values())

    @staticmethod
    def _adapters_hold_up(m: "Monitor") -> bool:
        """Without an order, the head may be a request that is blocked on an adapter."""
        usable = usable_adapters(m)
        return usable is not None and m.capabilities.claims.isdisjoint(ONE_QUEUE) and m.lines.needs_other(usable)


class PastAdapters(Idleness):
    """Idleness that a request blocked on an adapter is no reason for."""

    def group(self, m: "Monitor", track: "Track") -> str | None:
        return track.adapter if m.settings.adapter_slots else None

    def candidates(self, m: "Monitor") -> "list[Track]":
        usable = usable_adapters(m)
        groups = list(self.queues) if usable is None else [group for group in usable if group in self.queues]
        firsts = [track for group in groups if (track := self.first(m, group)) is not None]
        return [min(firsts, key=lambda track: self.rank(m, track))] if firsts else []


@monitor("LIVE-7", needs="tables", claims=("adapters",), bugs=("B20",))
class AnAdapterBlocksNobodyElse(PastAdapters):
    """A request that fits, and needs no adapter or one that is in use, is not delayed by one that is blocked on an
    adapter; order binds only requests that are not so blocked.

    Why: vLLM's scan of the queue ended at the first request whose adapter had no slot, and all behind it idled
    (https://github.com/vllm-project/vllm/pull/15422).
    """

    rule = "LIVE-7"

    def rank(self, m: "Monitor", track: "Track") -> int:
        return place_or_size(m, track)

    def candidates(self, m: "Monitor") -> "list[Track]":
        usable = usable_adapters(m)
        blocked = usable is not None and m.lines.needs_other(usable)
        return super().candidates(m) if blocked else []

    def fits(self, m: "Monitor", view: "StepView", track: "Track") -> bool:
        return super().fits(m, view, track) and not order_is_open(m)


@monitor("LIVE-11", needs="tables", level="SHOULD")
class NothingFitsAndWaits(PastAdapters):
    """What fits is not left idle behind what does not.

    Why: one big request at the head holds up small ones while blocks and seats are free
    (https://github.com/vllm-project/vllm/issues/31731).
    """

    rule = "LIVE-11"

    def patience(self, m: "Monitor") -> int:
        return 0

    def rank(self, m: "Monitor", track: "Track") -> int:
        return tokens_to_hold(m, track)


@monitor("LIVE-10", needs="tables", claims=("class_preemption",), bugs=("B49",))
class NoPriorityInversion(PastAdapters):
    """Whoever stands first in the declared order does not wait while the seats and blocks of running requests of
    strictly worse classes, which would stand behind it, would let it start. A request that was admitted because it had
    been overtaken max_overtaken times keeps its place.

    Why: vLLM preempts for blocks alone, so with all seats taken a high priority waits for a low one to end by itself
    (https://github.com/vllm-project/vllm/issues/40004).
    """

    rule = "LIVE-10"

    def __init__(self) -> None:
        super().__init__()
        self.promoted: set[str] = set()

    def rank(self, m: "Monitor", track: "Track") -> int:
        return track.place

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        self.promoted.discard(track.id)
        if m.is_promoted(track):
            self.promoted.add(track.id)

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        self.promoted.discard(track.id)

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        """A step that preempted anybody, or has no budget left, is not asked; but it may show the rule at work."""
        if any(victim.requester == track.id for victim in view.victims for track in view.admitted):
            m.count("LIVE-10")
        busy = view.budget_left < 1 or bool(view.victims) or m.is_broken or admits_nobody(m, view)
        tracks = [] if busy or m.capabilities.claims.isdisjoint(ONE_QUEUE) else self.candidates(m)
        worse = self._worse(m, view, tracks[0]) if tracks else set()
        if not worse:
            self.idle_steps = 0
            return
        m.count("LIVE-10")
        guarded = m.settings.max_overtaken and not m.claims("bounded_overtaking")  # who is next is not known then
        held = bool(guarded) or held_by_cap(m, tracks[0]) or order_is_open(m)
        starts = not held and self.has_room(m, view, tracks[0], _held_by_alone(m, worse))
        self.idle_steps = self.idle_steps + 1 if starts else 0
        if self.idle_steps > self.patience(m):
            says = "who is first does not wait while preempting worse classes would let it start"
            m.fail("LIVE-10", "inversion", says, request=tracks[0].id, worse=sorted(worse))

    def _worse(self, m: "Monitor", view: "StepView", track: "Track") -> set[str]:
        """Who ran before the step, is of a strictly worse class, and would wait behind it."""
        fresh = {admitted.id for admitted in view.admitted} | self.promoted
        worse = {r for r in m.world.running if r not in fresh and m.class_of(m.tracks[r]) > m.class_of(track)}
        return {r for r in worse if m.place_of(m.tracks[r]) > track.place}


def _held_by_alone(m: "Monitor", requests: set[str]) -> int:
    """Blocks that nobody else holds."""
    held = {block for request in requests for block in m.world.RequestId[request].held}
    return sum(m.world.BlockId[block].holders <= requests for block in held)


@monitor("LIVE-3", claims=("bounded_overtaking",), bugs=("B15",))
class OvertakenSoOften(TraceRule):
    """A waiting request is overtaken at most max_overtaken times in one spell of waiting, by requests that began to
    wait later; a preempted one begins another spell. One that is blocked on an adapter, and a preempted one whose
    results are still under way, may be passed.

    Why: ordered by cached prefix alone, cold requests never run while warm ones keep coming
    (https://github.com/sgl-project/sglang/pull/33210).
    """

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        """Who began to wait first was overtaken most often."""
        oldest = m.spells.oldest(usable_adapters(m), m.strays() | {track})
        if oldest is None:
            return
        m.count("LIVE-3")
        times, most = m.spells.overtaken(oldest), m.capabilities.constant("max_overtaken")
        if oldest.began < track.began and times >= most:
            says = "a waiting request is overtaken at most so often"
            m.fail("LIVE-3", "overtaken", says, admitted=track.id, overtaken=oldest.id, times=times + 1, most=most)

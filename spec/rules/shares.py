"""LANE: what a lane gets.  Judged by the service alone, so any scheduler may promise it."""

from collections import Counter, deque
from typing import TYPE_CHECKING

from attrs import Factory, define

from ..caps import held_by_client, held_by_peak, held_by_prefill, held_by_tokens, is_held, usable_adapters
from ..lane_ledger import LaneLedger
from ..relation import registry
from .base import TraceRule, tokens_to_hold
from .liveness import Idleness, order_is_open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..monitor import Monitor, StepView
    from ..tracks import Track

monitor = registry.monitor


class WaitingLanes:
    """Lanes in which somebody waits whom no cap holds, and a number for each time that they came to wait so.

    Looked at anew only after a request came, was admitted, or left: nothing else changes whom a cap holds.
    """

    def __init__(self) -> None:
        self.changed = True
        self.since: dict[str, tuple[int, int]] = {}
        self.turns = 0

    def look(self, m: "Monitor") -> dict[str, tuple[int, int]]:
        if self.changed:
            self.changed = False
            self.turns += 1
            ready = {lane: since for lane, since in m.lane_ledger.since.items() if not is_held(m, lane)}
            self.since = {lane: self._number(lane, since) for lane, since in ready.items()}
        return self.since

    def _number(self, lane: str, since: int) -> tuple[int, int]:
        before = self.since.get(lane)
        return before if before is not None and before[0] == since else (since, self.turns)


class OfLanes(TraceRule):
    """Common part of LANE-1 and LANE-3: rules that follow the service of lanes that wait."""

    def __init__(self) -> None:
        self.waiting = WaitingLanes()

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self.waiting.changed = True

    on_wait = on_waits_again = on_ended = on_admit = on_accept

    def on_parked(self, m: "Monitor", track: "Track", dependencies: "Sequence[str]") -> None:
        self.waiting.changed = True

    @staticmethod
    def unit(m: "Monitor") -> int:
        """U, and what bursts and aging add to it, in service per share."""
        ledger: LaneLedger = m.lane_ledger
        return ledger.certificate + ledger.slack(m.capabilities.constant("aging_credit"))


@define
class Deficit:
    """A lane that waits: what it is behind its share of all service since then, and the least that was."""

    since: tuple[int, int]
    behind: int = 0
    least: int = 0
    served: int = 0


@monitor("LANE-1", claims=("shares",))
class ALaneGetsItsShare(OfLanes):
    """A lane gets at least its guaranteed share of all service over any interval in which it waits without a break,
    less a constant: U of the trace, as in FAIR-8, and what bursts and aging allow. It does not wait while declared caps
    hold all that wait in it.

    Why: under strict priority the lower classes starve
    (https://github.com/kubernetes-sigs/gateway-api-inference-extension/issues/1861); the bound is that of weighted fair
    sharing (Sheng et al., OSDI 2024, Theorem 4.9, https://arxiv.org/abs/2401.00588).
    """

    def __init__(self) -> None:
        super().__init__()
        self.deficits: dict[str, Deficit] = {}

    def on_lane_charge(self, m: "Monitor", served: str, amount: int) -> None:
        """No lane g comes further ahead of f than w_g - w_f <= 3(U + slack), w the service per share (FAIR-9); times
        s_g and summed over g: sum of s_g·w_g - S·w_f <= (S - s_f)·3(U + slack), for the sum S of all shares."""
        ledger: LaneLedger = m.lane_ledger
        for lane, since in self.waiting.look(m).items():
            deficit = self.deficits.get(lane)
            if deficit is None or deficit.since != since:
                deficit = self.deficits[lane] = Deficit(since)
            deficit.behind += amount * ledger.lanes[served].share_percent
            deficit.behind -= amount * ledger.shares if lane == served else 0
            deficit.least = min(deficit.least, deficit.behind)
            deficit.served += amount
            if deficit.served > 4 * ledger.certificate:
                m.count("LANE-1")
            bound = (ledger.shares - ledger.lanes[lane].share_percent) * 3 * self.unit(m)
            if (behind := deficit.behind - deficit.least) > bound:
                says = "a lane that waits gets its share of all service, less a constant"
                m.fail("LANE-1", "share", says, lane=lane, served=served, behind=behind, bound=bound)
                del self.deficits[lane]


@monitor("LANE-2", needs="tables", claims=("borrowing",))
class WhatIsUnusedIsBorrowed(Idleness):
    """No capacity idles for a lane's share while another lane has admissible work: with budget, seats and blocks left
    for whoever waits, in whatever lane, somebody is admitted. A maximum of a lane is no excuse.

    Why: slices that are not lent out cost what they are for: limits per client halved the throughput of the same load
    (Sheng et al., OSDI 2024, table of RPM, https://arxiv.org/abs/2401.00588).
    """

    rule = "LANE-2"

    def group(self, m: "Monitor", track: "Track") -> str | None:
        return track.lane

    def rank(self, m: "Monitor", track: "Track") -> int:
        """Who fits worst: if that one does, so does the head of its lane."""
        return -tokens_to_hold(m, track)

    def candidates(self, m: "Monitor") -> "list[Track]":
        """The worst of each lane, if anybody waits whom no cap of its client holds."""
        usable = usable_adapters(m)
        if usable is not None and m.lines.needs_other(usable):
            return []
        firsts = [self.first(m, lane) for lane in list(self.queues)]
        return [track for track in firsts if track is not None] if self._somebody_may(m) else []

    def fits(self, m: "Monitor", view: "StepView", track: "Track") -> bool:
        held = held_by_prefill(m) or held_by_peak(m, track) or held_by_tokens(m, track) or order_is_open(m)
        return not held and self.has_room(m, view, track)

    @staticmethod
    def _somebody_may(m: "Monitor") -> bool:
        return any(
            not held_by_client(m, entry[2])
            for lane, clients in m.lines.clients.items()
            for client in clients
            if (entry := min(m.lines.first((lane, client)), default=None)) is not None
        )


@define
class Race:
    """A lane that came back, and another that waits all the while: service per share of each since then."""

    since: tuple[int, int]
    own: int = 0
    other: int = 0


@define
class Return:
    """A lane that came back: which time it was, whether it was admitted since, and its races."""

    since: int
    admitted: bool = False
    races: dict[str, Race] = Factory(dict)


@monitor("LANE-3", claims=("burst",))
class AReturnIsBounded(OfLanes):
    """A lane that comes back, when nothing of it waited, regains its share within a bound and without mass eviction,
    and its burst is bounded. Until its first admission no lane that waits gets more than 2(U + slack) of service per
    share, the step of that admission preempts nobody for it, and it comes ahead of a lane that waits all the while by
    at most its burst and 2(U + slack).

    Why: a lane that saved up what it did not use shuts out the others until that is used up, and one that starts at the
    end of the line is not there when it is needed (Sheng et al., OSDI 2024, section 4.1,
    https://arxiv.org/abs/2401.00588; Dynamo evicted at admissions, https://github.com/ai-dynamo/dynamo/issues/9718).
    """

    def __init__(self) -> None:
        super().__init__()
        self.returns: dict[str, Return] = {}
        self.firsts: list[Track] = []

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        self.waiting.changed = True
        waits = m.keeps_lanes and track.waits and not track.epoch  # else it is parked at the door
        if waits and m.lane_ledger.waiting.get(track.lane) == 1:
            self.returns[track.lane] = Return(m.lane_ledger.since[track.lane])

    def on_lane_charge(self, m: "Monitor", served: str, amount: int) -> None:
        waiting = self.waiting.look(m)
        for lane, back in self.returns.items():
            if lane == served:
                self._goes_ahead(m, lane, back, waiting, amount)
            elif served in waiting:
                race = self._race(back, served, waiting[served])
                race.other += amount
                if not back.admitted and lane in waiting:
                    self._waits(m, lane, served, race)

    @staticmethod
    def _race(back: Return, other: str, since: tuple[int, int]) -> Race:
        race = back.races.get(other)
        if race is None or race.since != since:
            race = back.races[other] = Race(since)
        return race

    def _goes_ahead(
        self, m: "Monitor", lane: str, back: Return, waiting: dict[str, tuple[int, int]], amount: int
    ) -> None:
        for other, since in waiting.items():
            if other == lane:
                continue
            race = self._race(back, other, since)
            race.own += amount
            m.count("LANE-3")
            ahead, bound = race.own - race.other, m.lane_ledger.burst(lane) + 2 * self.unit(m)
            if ahead > bound:
                says = "a lane that came back comes ahead of one that waits by at most its burst and a constant"
                m.fail("LANE-3", "burst", says, lane=lane, waits=other, ahead=ahead, bound=bound)
                race.own = race.other = 0

    def _waits(self, m: "Monitor", lane: str, served: str, race: Race) -> None:
        m.count("LANE-3")
        bound = 2 * self.unit(m)
        if race.other > bound:
            says = "before the first admission of a lane that came back no other gets more than a constant"
            m.fail("LANE-3", "waits", says, lane=lane, served=served, got=race.other, bound=bound)
            race.other = 0

    def on_admit(self, m: "Monitor", track: "Track") -> None:
        """What is charged later in the same step is after its admission."""
        self.waiting.changed = True
        back = self.returns.get(track.lane)
        if back is not None and not back.admitted:
            back.admitted = True
            self.firsts.append(track)

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        """Who is preempted for the first request of a lane that came back."""
        firsts, self.firsts = self.firsts, []
        for track in firsts:
            m.count("LANE-3")
            victims = [victim.track.id for victim in view.victims if victim.requester == track.id]
            if victims and not m.claims("class_preemption"):
                says = "the step that admits the first request of a lane that came back preempts nobody for it"
                m.fail("LANE-3", "evicts", says, lane=track.lane, admitted=track.id, victims=victims)


@monitor("LANE-7", claims=("caps",))
class CapsHold(TraceRule):
    """Declared caps hold: seats and resident tokens of a client, blocks of a lane, resident tokens of all, each by
    declared length. Whoever is alone (of a client, of a lane, or at all) may exceed those of size.

    Why: a gateway's cap on concurrent requests filled up again by itself and capped nothing
    (https://github.com/sgl-project/sglang/pull/21362); kept by each worker for itself, one let end users past it
    (https://github.com/BerriAI/litellm/issues/16011).
    """

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        for track in view.admitted:
            if track.id in m.residents.running:
                self._check_client(m, track)
                self._check_lane(m, track)
                self._check(m, "tokens", len(m.residents.running), m.residents.tokens, m.settings.resident_tokens)

    def _check_client(self, m: "Monitor", track: "Track") -> None:
        s, r, client = m.settings, m.residents, track.client
        seats = r.client_seats[client]
        if s.client_seats and seats > s.client_seats:
            self._fail(m, "client_seats", seats, s.client_seats, client=client)
        self._check(m, "client_tokens", seats, r.client_tokens[client], s.client_resident_tokens, client=client)
        m.count("LANE-7", bool(s.client_seats))

    def _check_lane(self, m: "Monitor", track: "Track") -> None:
        lane = m.lanes.get(track.lane)
        if lane is not None and lane.maximum_percent < 100:
            most = lane.maximum_percent * m.settings.blocks // 100
            running, blocks = m.residents.lane_seats[track.lane], m.residents.lane_blocks[track.lane]
            self._check(m, "lane_blocks", running, blocks, most, lane=track.lane)

    def _check(self, m: "Monitor", what: str, running: int, value: int, cap: int, **whose: str) -> None:
        m.count("LANE-7", bool(cap) and running > 1)
        if 0 < cap < value and running > 1:
            self._fail(m, what, value, cap, **whose)

    @staticmethod
    def _fail(m: "Monitor", what: str, value: int, cap: int, **whose: str) -> None:
        m.fail("LANE-7", what, "what runs stays within the declared caps", value=value, cap=cap, **whose)


@monitor("LANE-6", claims=("objective",))
class TheObjectiveIsKept(TraceRule):
    """A request that arrives while the unfinished requests of its lane, itself included, declare at most load_tokens is
    admitted within the lane's objective_steps steps.

    Why: an objective that holds under no stated load is a wish; operators ask for objectives that order and admission
    keep (https://github.com/kubernetes-sigs/gateway-api-inference-extension/issues/2504,
    https://github.com/vllm-project/vllm/pull/53571).
    """

    def __init__(self) -> None:
        self.steps = 0
        self.load: Counter[str] = Counter()
        self.promised: dict[str, deque[tuple[int, Track]]] = {}

    def on_accept(self, m: "Monitor", track: "Track") -> None:
        lane = m.lanes.get(track.lane)
        if lane is None or not lane.objective_steps:
            return
        self.load[track.lane] += track.limit_tokens
        if self.load[track.lane] <= lane.load_tokens:
            m.count("LANE-6")
            self.promised.setdefault(track.lane, deque()).append((self.steps + lane.objective_steps, track))

    def on_ended(self, m: "Monitor", track: "Track") -> None:
        if track.lane in self.load:
            self.load[track.lane] -= track.limit_tokens

    def on_step(self, m: "Monitor", view: "StepView") -> None:
        if not (view.plan.request or view.nothing_in_flight):
            return
        self.steps += 1
        for lane, promised in self.promised.items():
            while promised and (self._is_kept(promised[0][1]) or promised[0][0] <= self.steps):
                _, track = promised.popleft()
                if not self._is_kept(track):
                    says = "who arrives under the declared load is admitted within the objective"
                    objective = m.lanes[lane].objective_steps
                    m.fail("LANE-6", "objective", says, request=track.id, lane=lane, objective_steps=objective)

    @staticmethod
    def _is_kept(track: "Track") -> bool:
        """It was admitted once, or it ended."""
        return bool(track.epoch) or not track.waits

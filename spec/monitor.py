"""The monitor: judges a scheduler by its messages, one after the other, live or recorded.

Each message becomes events of the relation, in the order in which the subject's deltas stand (or in the canonical
one), and each event is checked by compiled code as it updates the monitor's state.  Rules that look at whole steps,
snapshots or block contents hang beside it.  Memory does not grow with the trace: a request is forgotten `horizon`
ends after its own.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from operator import add
from typing import Any

from attrs import Factory, define

from . import rules, stays
from .caps import Residents, held_by_client, held_lanes, usable_adapters
from .compiled import Program, World, compile_program, state_reads, without
from .content import BadRead, ContentShadow
from .drafts import Drafts
from .host import HostBlocks
from .lane_ledger import LaneLedger
from .ledger import Ledger
from .lines import Lines
from .parking import CLAIM, Parking
from .printed import printed
from .protocol import ProtocolError
from .queueing import PRIORITY_WEIGHT, level_of, place_again, place_of
from .registry import Binding, Conjunct
from .relation import CANCELLED, EXPIRED, FAILED, FINISHED, PHASES, WAITING, registry
from .reserves import CLAIMED, RESERVED, Lengths
from .rules.base import LaneCharges, TraceRule
from .service import lane_of
from .snapshots import compare
from .spells import Spells
from .terms import walk
from .tracks import BlockPrefixes, InFlight, Track
from .verdicts import Violation
from .vocabulary import (
    LEVELS,
    REFUSAL_REASONS,
    Capabilities,
    Delta,
    Header,
    Message,
    Observation,
    Outcome,
    Plan,
    Receipt,
    Request,
    blocks_alone,
    blocks_for,
)

assert rules  # importing them fills the registry

MOST_VIOLATIONS = 1_000
"""The latest are kept: a SHOULD may break at every step of a long trace."""

NEED_A_LEDGER = ("vtc", "fair_share", "drr", "dlpm", "lcf", "round_robin", "committed_cap")
"""Claims that are judged by what each client has got."""

_HOOKS = [name for name in vars(TraceRule) if name.startswith("on_")]
_ENDS = {"finished": FINISHED, "failed": FAILED, "cancelled": CANCELLED, "expired": EXPIRED}
_CANONICAL = {
    "delivered": 0,
    "indexed": 1,
    "preempted": 2,
    "unindexed": 3,
    "took": 4,
    "shared": 4,
    "swapped_in": 4,
    "admitted": 5,
    "lease_over": 2,
    "leased": 6,
    "unparked": 6,
    "waits": 6,
    "chosen": 6,
    "displaced": 6,
    "spent": 6,
    "entered": -1,
    "deferred": -1,
    "converted": -1,
}


_ACQUIRING = ("shared", "took", "swapped_in")


@define(eq=False)
class Victim:
    """A preempted request: how many more blocks it could have asked for, and how many its leaving freed; what of it was
    computed, how many declared outputs it has left, whether it is swapped, and could have been."""

    track: Track
    wanted_blocks: int
    freed_blocks: int
    requester: str | None
    computed_tokens: int = 0
    outputs_left: int = 0
    is_swapped: bool = False
    may_be_swapped: bool = False


@define(eq=False)
class StepView:
    """What a step did, for rules that look at it whole."""

    plan: Plan
    available_before: int
    nothing_in_flight: bool
    admitted: list[Track] = Factory(list)
    brought_back: bool = False
    victims: list[Victim] = Factory(list)
    acquired: dict[str, int] = Factory(dict)
    budget_left: int = 0
    drafts: int = 0

    @property
    def growth_blocks(self) -> int:
        """Blocks that requests who were resident before took."""
        fresh = {track.id for track in self.admitted}
        return sum(count for request, count in self.acquired.items() if request not in fresh)


class Monitor(HostBlocks):
    """Feed it messages; it answers with what they broke.

    `content` turns the content shadow on (it needs the level tables), `explain` records the values that a failed
    conjunct read, `dropped` leaves one conjunct out.
    """

    kind = "plain"

    def __init__(
        self,
        header: Header,
        *,
        content: bool = True,
        explain: bool = False,
        horizon: int = 4096,
        dropped: str | None = None,
    ) -> None:
        self.settings = header.settings
        self.capabilities = header.capabilities
        self.explain = explain
        self.horizon = horizon
        self.program = _program(_Key.of(header.capabilities), dropped)
        self.world = self.program.world()
        claimed = {reserve for claim, reserve in CLAIMED.items() if self.claims(claim)}
        self._reserves = {header.settings.reserve, *claimed}
        self.shows_tables = self.shows("tables")
        self.tracks: dict[str, Track] = {}
        self.in_flight: dict[int, InFlight] = {}
        self.executed: dict[int, tuple[list[int], list[BadRead]]] = {}
        self.counts: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.message = 0
        self.now_ns = 0
        self.last_step = 0
        self.live = 0
        self.waiting = 0
        self.swapped = 0
        self.view: StepView | None = None
        self.shown_requests = False
        self.shown_ref_counts = False
        self.shown_host = False
        self._arrivals = 0
        self._admissions = 0
        self._spells = 0
        self._retired: deque[Track] = deque()
        self._touched: dict[str, None] = {}
        self._given: dict[str, int] = {}
        self._looked_up: tuple[Sequence[str], list[Track | None]] = ((), [])
        self._outcome: Outcome | None = None
        self.held: dict[str, Request] = {}
        self._pledges: deque[tuple[int, str, int, int]] = deque()
        self._found: list[Violation] = []
        self._reads: dict[str, Any] = {}
        self.ledger = Ledger.of(header.settings, header.capabilities)
        self.keeps_lanes = bool(self.settings.lanes) and any(map(self.claims, ("lanes", "shares", "burst")))
        self.keeps_ledger = any(map(self.claims, NEED_A_LEDGER)) or self.keeps_lanes
        self.lanes = {lane.name: lane for lane in self.settings.lanes}
        self.lane_ledger = LaneLedger.of(self.settings)
        self.residents = Residents.of(self.settings)
        in_order = {lane.name for lane in self.settings.lanes if lane.order == "fifo"}
        self.lines = Lines(in_order, by_length=bool(self.settings.resident_tokens))
        self.spells = Spells()
        self.deferred: dict[int, set[int]] = {}
        self.drafts = Drafts()
        self.parking = Parking(self.settings.park_timeout_ns if self.claims(CLAIM) else 0)
        self._set_parameters()
        wanted = content and self.shows_tables
        order = header.capabilities.executor_order
        self.shadow = ContentShadow(self.settings.block_size, order, self._holders) if wanted else None
        self._bound = _bound(header.capabilities)
        self.rules = [
            make() for rule, make in registry.monitors.items() if hasattr(make, "active") and self.binds(rule)
        ]
        if self.keeps_lanes:
            self.rules.append(LaneCharges())
        self._listeners = {hook: [rule for rule in self.rules if _listens(rule, hook)] for hook in _HOOKS}

    # --- asking ------------------------------------------------------------------------------------------

    def feed(self, message: Message) -> list[Violation]:
        """Judge one message.  Raises ProtocolError if it makes no sense at all."""
        self._found = []
        self.message += 1
        if message.now_ns < self.now_ns:
            raise ProtocolError(
                message.kind,
                "now_ns",
                message.now_ns,
                f"goes back from {self.now_ns}",
                "time may stand still, not return",
            )
        self.now_ns = message.now_ns
        self._tell("on_call", message)
        _FEEDS[message.kind](self, message)
        self._tell("on_answered", message)
        self.violations += self._found
        del self.violations[:-MOST_VIOLATIONS]
        return self._found

    def shows(self, level: str) -> bool:
        return LEVELS.index(self.capabilities.observes) >= LEVELS.index(level)

    def claims(self, claim: str) -> bool:
        return claim in self.capabilities.claims

    @property
    def parks(self) -> bool:
        """Dependencies count: that was asked for, and is claimed."""
        return self.parking.timeout_ns > 0

    @property
    def ready(self) -> int:
        """Requests that have not ended, and wait for nothing that the world has still to bring."""
        return self.live - len(self.parking.pending)

    def binds(self, rule: str) -> bool:
        return rule in self._bound

    def exercised(self) -> dict[str, int]:
        """Rule -> how often its precondition held."""
        totals = Counter(self.counts)
        for conjunct, count in zip(registry.conjuncts, self.world.exercised, strict=True):
            if not registry.rules[conjunct.rule].counts:
                totals[conjunct.rule] += count
        for rule in registry.rules.values():
            for event in rule.counts:
                totals[rule.id] += self.world.events[event]
        return {rule: totals[rule] for rule in registry.rules}

    @property
    def is_broken(self) -> bool:
        """The message at hand has broken a rule already."""
        return bool(self._found)

    def fail(self, rule: str, place: str, says: str, **facts: Any) -> None:
        """A rule beside the relation found a break."""
        if self.binds(rule):
            self._found.append(
                Violation(rule=rule, conjunct=f"{rule}.{place}", says=says, message=self.message, facts=facts)
            )

    def listen(self, listener: TraceRule) -> None:
        """Tell it, too, what happens.  Who only listens breaks nothing."""
        self.rules.append(listener)
        self._listeners = {hook: [rule for rule in self.rules if _listens(rule, hook)] for hook in _HOOKS}

    def count(self, rule: str, times: int = 1) -> None:
        """A rule beside the relation held its precondition."""
        self.counts[rule] += times

    def says(self, conjunct: Conjunct) -> str:
        return printed(conjunct.term, registry.names, registry.state.sorts)

    def computed(self, request: str, end: int, *, stop: bool) -> None:
        """A draft was right: a decode of one position."""
        self._fire("Computed", request, end, 1, stop)

    def execute(self, step: int) -> list[int]:
        """Run a planned step in the content shadow: for each entry the identity that its sample depends on."""
        if step not in self.executed:
            self.executed[step] = self._run(self.in_flight[step])
        return self.executed[step][0]

    def held_back(self, picked: Track) -> set[str]:
        """Clients that may be passed over beside those that a cap holds: a preempted request of theirs waits for
        results that are under way, or whoever of theirs has an adapter to run with is held."""
        held = {track.client for track in self.strays() if self.ledger.waits(track)}
        usable = usable_adapters(self)
        if usable is not None:
            held.update(client for client in self.ledger.waiting if self._lacks_adapters(client, usable))
        return held - {picked.client}

    def _lacks_adapters(self, client: str, usable: Collection[str | None]) -> bool:
        entries = (entry for lane in self.lines.clients for entry in self.lines.first((lane, client), usable))
        first = min(entries, default=None)
        return first is None or held_by_client(self, first[2])

    def strays(self) -> set[Track]:
        """Preempted requests whose results are still under way, and others that left."""
        return {track for flight in self.in_flight.values() for track in flight.departed if track in flight.tracks}

    def charge_lane(self, track: Track, amount: int) -> None:
        self._tell("on_lane_charge", track.lane, self.lane_ledger.charge(track, amount))

    def place_of(self, track: Track) -> int:
        """Where a request would stand if it began to wait now."""
        place = self.world.RequestId[track.id].place
        return place_again(self.capabilities.claims, track, self.settings.quantum, place)

    def class_of(self, track: Track) -> int:
        """The class of a request; smaller is better."""
        return level_of(track, self.settings.quantum) if self.claims("mlfq") else track.priority

    def is_promoted(self, track: Track) -> bool:
        """It has seen as many admissions as the subject lets pass it: it may go next, whatever its place."""
        most = self.capabilities.constant("max_overtaken")
        return self.claims("bounded_overtaking") and self.spells.seen(track) >= most

    # --- messages ----------------------------------------------------------------------------------------

    def _submit(self, message: Message) -> None:
        request: Request = message.given
        receipt: Receipt = message.answer
        self._apply("submit", [delta for delta in receipt.deltas if not is_record(request.id, delta)])
        if receipt.verdict == "accepted":
            self._accept(request)
        elif receipt.verdict == "refused":
            self._refuse(request, receipt)
        elif receipt.verdict in ("deferred", "converted"):
            self._turn_elsewhere(request, receipt)
        elif receipt.of not in self.tracks and receipt.of not in self.held:
            raise ProtocolError("submit", "receipt.of", receipt.of, "names a request that was never submitted")
        self._end_call()

    def _accept(self, request: Request) -> None:
        known = request.id in self.tracks
        self._arrivals += 1
        track = self.tracks[request.id] if known else Track.of(request, self._arrivals, self._lane_of(request))
        prompt, output = request.prompt_tokens, request.max_output_tokens
        alone = blocks_alone(prompt, output, self.settings.block_size)
        place = place_of(self.capabilities.claims, request, track.arrival)
        self._fire("Accept", request.id, prompt, output, alone, place)
        if known:
            return
        self._register(track)
        self._hold_to_the_model(track)
        self.live += 1
        if self.parks:
            self.parking.arrived[track.id] = prompt, output, alone, place
        if self.parks and request.dependencies:
            stays.park(self, track, request.dependencies)
            if self.keeps_ledger:
                self.ledger.parked.add(track.id)
        else:
            self._comes_to_wait(track)
        self._tell("on_accept", track)

    def _comes_to_wait(self, track: Track) -> None:
        self.waiting += 1
        self._begins_to_wait(track)
        if self.keeps_ledger:
            self.ledger.enter(track, preempted=False)

    def _turn_elsewhere(self, request: Request, receipt: Receipt) -> None:
        """Whom the door holds is not in yet; who goes to another pool or model is in no more."""
        if not self.claims("alternatives"):
            problem = "is an answer of those who claim 'alternatives'"
            raise ProtocolError(
                "submit", "receipt.verdict", receipt.verdict, problem, "claim it, or refuse the request"
            )
        if is_held(receipt):
            self.held[request.id] = request
        else:
            self._refuse(request, AWAY)

    def _at_the_door(self, method: str, delta: Delta) -> None:
        """Of a request that the door holds: it enters, or is gone; the relation knows it from then on, and calls who
        never entered turned away."""
        kind, request = delta[0], self.held.pop(delta[1], None)
        if request is None:
            raise ProtocolError(method, f"deltas.{kind}", delta[1], "is a request that was never submitted")
        if kind == "entered":
            self._accept(request)
        elif kind in _ENDS:
            self._refuse(request, AWAY)
        elif kind in ("deferred", "converted"):
            self.held[request.id] = request
        else:
            raise ProtocolError(method, f"deltas.{kind}", delta[1], "is held at the door: write 'entered' before it")
        self._tell("on_door", request, delta)

    def _lane_of(self, request: Request) -> str:
        return lane_of(self.settings, request).name if self.settings.lanes else ""

    def _begins_to_wait(self, track: Track) -> None:
        self._spells += 1
        track.waits, track.began = True, self._spells
        track.place = self.place_of(track)
        self.lines.enter(track)
        self.residents.leave(track)
        if self.claims("bounded_overtaking") or self.claims("aged_sharing"):
            self.spells.begin(track)
        if self.keeps_lanes:
            self.lane_ledger.enter(track)

    def _waits_no_longer(self, track: Track, *, admitted: bool) -> None:
        self.lines.leave(track)
        self.spells.over(track, admitted=admitted)
        if self.keeps_lanes:
            self.lane_ledger.leave(track)

    def _hold_to_the_model(self, track: Track) -> None:
        """Who was accepted though it is too long for the model (ADMIT-2) ends, at the latest, where the model does."""
        most = self.settings.max_model_tokens
        if track.limit_tokens > most:
            record = self.world.RequestId[track.id]
            record.output_limit = max(1, most - record.prompt)
            track.limit_tokens = record.prompt + record.output_limit

    def _register(self, track: Track) -> None:
        self._looked_up = ((), [])
        self.tracks[track.id] = track
        self.world.RequestId[track.id].prefix = BlockPrefixes(track, self.settings.block_size)

    def _refuse(self, request: Request, receipt: Receipt) -> None:
        reason = REFUSAL_REASONS.index(receipt.reason if receipt.reason in REFUSAL_REASONS else "other")
        prompt, output = request.prompt_tokens, request.max_output_tokens
        alone = blocks_alone(prompt, output, self.settings.block_size)
        limit, value = receipt.limit or 0, receipt.value or 0
        self._fire("Refuse", request.id, prompt, output, alone, reason, limit, value)
        if request.id not in self.tracks:
            track = Track.of(request, self._arrivals)
            self._register(track)
            self._retire(track)
            self._forget()

    def _cancel(self, message: Message) -> None:
        self._apply("cancel", message.answer)
        track = self.tracks.get(message.given)
        if track is not None or message.given in self.held:
            self._fire("CancelReturned", message.given)
        self._end_call()

    def _notify(self, message: Message) -> None:
        if self.parks:
            self.parking.hear(message.given)
        self._apply("notify", message.answer)
        self._end_call()

    def _step(self, message: Message) -> None:
        plan: Plan = message.answer
        if plan.step < 1:
            raise ProtocolError("step", "step", plan.step, "steps are numbered from 1")
        somebody_enters = not self.held.keys().isdisjoint(plan.request)
        tracks = [] if somebody_enters else self._planned(plan)
        view = self.view = StepView(plan, self.available(), not self.in_flight)
        self._fire("BeginStep", plan.step)
        self._apply("step", plan.deltas)
        if somebody_enters:
            tracks = self._planned(plan)
        if tracks:
            self._fire_many("Serve", plan.request, plan.start, plan.tokens, plan.samples)
            self.in_flight[plan.step] = InFlight(plan.step, plan.request, tracks, plan.start, plan.tokens, plan.samples)
            if self.keeps_ledger and self.ledger.charges_chunks:
                self._charge_chunks(tracks, plan)
            if self.shows_tables:
                self._check_writes(tracks, plan)
        if plan.drafts:
            self.drafts.plan(self, plan)
        self.last_step = max(self.last_step, plan.step)
        view.budget_left = self.settings.token_budget - self.world.prefill - self.world.decode - view.drafts
        self._fire("EndStep", plan.step)
        self._tell("on_step", view)
        self._end_call()

    def _planned(self, plan: Plan) -> list[Track]:
        """The tracks of a plan's entries; a plan that names strangers or the dead breaks the protocol."""
        tracks = self._tracks_of(plan.request)
        if None in tracks:
            unknown = plan.request[tracks.index(None)]
            raise ProtocolError("step", "plan.request", unknown, "was never submitted, or was refused long ago")
        for track in tracks:
            if track.ended:  # type: ignore[union-attr]
                problem = "has ended: the plan must not name it any more"
                raise ProtocolError("step", "plan.request", track.id, problem, rule="STEP-5")  # type: ignore[union-attr]
        return tracks  # type: ignore[return-value]

    def _tracks_of(self, requests: Sequence[str]) -> list[Track | None]:
        """Most often the same requests as the last time: then nobody is looked up again."""
        column = tuple(requests)
        if column != self._looked_up[0]:
            self._looked_up = column, list(map(self.tracks.get, column))
        return self._looked_up[1]

    def _complete(self, message: Message) -> None:
        outcome: Outcome = message.given
        repeated = outcome.step not in self.in_flight
        if repeated and outcome.step > self.last_step:
            raise ProtocolError("complete", "outcome.step", outcome.step, "was never planned")
        self.deferred.pop(outcome.step, None)
        self._fire("BeginComplete", outcome.step)
        self._outcome = outcome
        if repeated:
            for request in outcome.request:
                self._late(request)
        else:
            self._check_reads(outcome.step)
            self._settle(self.in_flight.pop(outcome.step), self.drafts.begin(outcome))
            if self._pledges:
                self._check_pledges()
        self.parking.pauses = outcome.pauses if self.parks else {}
        self._apply("complete", message.answer)
        self._tell("on_complete", message.answer)
        self.drafts.end(self)
        self.parking.pauses = {}
        self._fire("EndComplete", outcome.step, repeated, len(message.answer))
        self._end_call()
        self._forget()

    def _settle(self, flight: InFlight, outcome: Outcome) -> None:
        """Results of entries that still stand count; those of requests that left since are spare or late."""
        stopped = _in_order(flight.request, outcome.request, outcome.stop, repeat(None))
        if None in stopped:
            for request, samples, stop in zip(flight.request, flight.samples, stopped, strict=True):
                if samples and stop is None:
                    raise ProtocolError("complete", "outcome.request", request, "sampled in the step, but has no row")
        ends = list(map(add, flight.start, flight.tokens))
        columns: Sequence[Sequence[Any]] = (flight.request, ends, flight.samples, stopped)
        if flight.departed:
            columns = self._standing(flight, columns)
        self._fire_many("Computed", *columns)

    def _standing(self, flight: InFlight, columns: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """The rows of requests that have not left since the step was planned."""
        kept = []
        for track, row in zip(flight.tracks, zip(*columns, strict=True), strict=True):
            _, end, samples, stop = row
            if track not in flight.departed:
                kept.append(row)
            elif samples and track in flight.void:
                self._late(track.id)
            elif samples:
                self._stray(track, end, stop)
        return list(zip(*kept, strict=True)) or [()] * len(columns)

    def _stray(self, track: Track, position: int, stop: bool) -> None:
        record = self.world.RequestId[track.id]
        if record.phase == WAITING and position == record.prompt + record.outputs:
            self._fire("Spare", track.id, stop or record.outputs + 1 == record.output_limit)
        else:
            self._late(track.id)

    def _late(self, request: str) -> None:
        if request in self.tracks:
            self._fire("Late", request)

    def _observe(self, message: Message) -> None:
        observation: Observation = message.answer
        compare(self, observation)
        self._tell("on_observe", observation)

    def _end(self, message: Message) -> None:
        self._tell("on_end")

    # --- deltas ------------------------------------------------------------------------------------------

    def _apply(self, method: str, deltas: Sequence[Delta]) -> None:
        ordered = deltas if self.capabilities.ordered or len(deltas) < 2 else canonical(deltas)
        for delta in ordered:
            kind = delta[0]
            if kind == "delivered":
                self._delivered(delta[1], delta[2])
            elif kind == "unindexed":
                stays.spare_leased(self, delta[1])
                for block in delta[1]:
                    self._fire("Unindex", block)
            else:
                track = self.tracks.get(delta[1])
                if track is None:
                    self._at_the_door(method, delta)
                    continue
                if kind not in _DELTAS:
                    hint = "claim two_pools where the setting pools is given, and nowhere else"
                    raise ProtocolError(method, f"deltas.{kind}", delta[1], "there is one pool only", hint)
                if kind == "swapped_out" or (kind == "preempted" and delta[2] == "swap"):
                    self._must_claim_swap(method, delta)
                _DELTAS[kind](self, track, delta)

    def _took(self, track: Track, delta: Delta) -> None:
        self._acquire("Take", track, delta[2])

    def _shared(self, track: Track, delta: Delta) -> None:
        self._acquire("Share", track, delta[2])

    def _acquire(self, event: str, track: Track, blocks: Sequence[int]) -> None:
        before = self.available()
        if event == "Take":
            stays.spare_leased(self, blocks)
            self._tell("on_take", track, blocks)
        for block in blocks:
            self._fire(event, track.id, block)
            track.table.append(block)
            if event == "Share":
                track.shared_tokens = len(track.table) * self.settings.block_size
        self._touched[track.id] = None
        if self.view is not None:
            acquired = self.view.acquired
            acquired[track.id] = acquired.get(track.id, 0) + before - self.available()

    def _gave(self, track: Track, delta: Delta) -> None:
        for block in delta[2]:
            self._fire("Give", track.id, block)
        self._gave_back(track, delta[2])

    def _gave_back(self, track: Track, blocks: Sequence[int]) -> None:
        self._given[track.id] = self._given.get(track.id, 0) + len(blocks)
        gone = set(blocks)
        self._replace_table(track, [block for block in track.table if block not in gone])

    def _indexed(self, track: Track, delta: Delta) -> None:
        for block in delta[2]:
            self._fire("Index", track.id, block)
            if self.shadow is not None:
                step = self.view.plan.step if self.view is not None else self.last_step
                self._pledges.append((step, track.id, block, self.world.BlockId[block].content))
                self._check_pledges()

    def _admitted(self, track: Track, delta: Delta) -> None:
        self._admissions += 1
        key = self._admissions
        if self.claims("lowest_priority"):
            key += track.priority * PRIORITY_WEIGHT
        if self.view is not None and self.is_swapped(track):
            self.view.brought_back = True
        self._comes_back(track)
        self._fire("Admit", track.id, delta[2], delta[0] == "resumed", self.reserved_tokens(track), key)
        self.waiting -= 1
        if self.view is not None:
            self.view.admitted.append(track)
        held_back = self.held_back(track) if self.keeps_ledger else set()
        waited, track.waits = track.waits, False
        for rule in self.rules:
            rule.on_admit(self, track)
        if self.keeps_lanes:
            self.lane_ledger.pick(track, self.residents.cost(track), held_lanes(self, track))
        if waited:
            self._waits_no_longer(track, admitted=True)
        self.residents.enter(track)
        if self.keeps_ledger:
            charge = self.ledger.pick(track, delta[2], held_back)
            self._tell("on_charge", track, charge)

    def _waits(self, track: Track, delta: Delta) -> None:
        self._tell("on_logged", track, delta[2])

    def _decided(self, track: Track, delta: Delta) -> None:
        self._tell("on_decided", track, delta)

    def _recorded(self, track: Track, delta: Delta) -> None:
        """What the door says of somebody whom it does not hold."""
        self._tell("on_door", None, delta)

    def _preempted(self, track: Track, delta: Delta) -> None:
        record = self.world.RequestId[track.id]
        wanted = max(0, blocks_for(record.known, self.settings.block_size) - self._given.get(track.id, 0))
        left = record.output_limit - record.outputs
        victim = Victim(track, wanted, self.world.freed, delta[3], record.computed, left, delta[2] == "swap")
        victim.may_be_swapped = self._may_be_swapped(record)
        self._tell("on_preempt", victim)
        if victim.is_swapped:
            self._fire("Swap", track.id)
            self.swapped += self.is_swapped(track)
        self._fire("Preempt", track.id, delta[3] == track.id)
        self._replace_table(track, [])
        self._depart(track)
        self.waiting += 1
        if self.view is not None:
            self.view.victims.append(victim)
        if self.keeps_ledger:
            self.ledger.enter(track, preempted=True)
        if not track.waits:
            self._begins_to_wait(track)
        self._tell("on_wait", track)

    def _ended(self, track: Track, delta: Delta) -> None:
        parked, has_failed = self.parking.parked.get(track.id), self.parking.has_failed(track.id)
        if parked is not None:
            stays.leave(self, parked, delta[0])
        was_waiting = parked is None and self.world.RequestId[track.id].phase == WAITING
        self._comes_back(track)
        usable = self.world.usable_blocks
        tokens = track.limit_tokens - 1
        fits = -(-tokens // self.settings.block_size) <= usable and not has_failed
        self._fire("End", track.id, _ENDS[delta[0]], fits)
        if track.ended:
            return
        self.live -= 1
        self.waiting -= was_waiting
        if self.keeps_ledger:
            refund = self.ledger.end(track)
            if refund:
                self._tell("on_charge", track, -refund)
        if self.claims("deferred_frees"):
            self._defer_frees(track)
        self._leaves(track)
        if self.keeps_lanes and (refund := self.lane_ledger.end(track)):
            self._tell("on_lane_charge", track.lane, -refund)
        self._tell("on_ended", track)
        self.parking.end(track.id)
        self._retire(track)

    def _leaves(self, track: Track) -> None:
        """It has ended or is parked, from the queue or from the running set."""
        self.residents.leave(track)
        if track.waits:
            track.waits = False
            self._waits_no_longer(track, admitted=False)

    def _delivered(self, requests: Sequence[str], tokens: Sequence[int]) -> None:
        if not self.drafts.accepted:
            self._deliver(requests, tokens)
            return
        told: set[str] = set()
        for request, token in zip(requests, tokens, strict=True):
            track = self.tracks.get(request)
            expected = self.drafts.next_token(self, track) if track is not None and request in told else None
            told.add(request)
            self._deliver([request], [token], expected)

    def _deliver(self, requests: Sequence[str], tokens: Sequence[int], accepted: int | None = None) -> None:
        tracks = self._tracks_of(requests)
        if None in tracks:
            unknown = requests[tracks.index(None)]
            raise ProtocolError("complete", "deltas.delivered", unknown, "is a request that was never submitted")
        expected = tokens
        if accepted is not None:
            expected = [accepted]
        elif self._outcome is not None:
            expected = _in_order(requests, self._outcome.request, self._outcome.token, tokens)
        self._fire_many("Deliver", requests, tokens, expected)
        for track, token in zip(tracks, tokens, strict=True):
            track.tokens.append(token)  # type: ignore[union-attr]
        if self.keeps_ledger:
            for track in tracks:
                self._tell("on_charge", track, self.ledger.serve(track))  # type: ignore[arg-type]

    def _charge_chunks(self, tracks: Sequence[Track], plan: Plan) -> None:
        for track, start, tokens in zip(tracks, plan.start, plan.tokens, strict=True):
            if track.paid_tokens < track.prompt_tokens:
                self._tell("on_charge", track, self.ledger.compute(track, start + tokens))

    def _tell(self, hook: str, *facts: Any) -> None:
        for rule in self._listeners[hook]:
            getattr(rule, hook)(self, *facts)

    # --- parts -------------------------------------------------------------------------------------------

    def _set_parameters(self) -> None:
        s, c, w = self.settings, self.capabilities, self.world
        aside = {*c.null_blocks, *c.reserved_blocks}
        w.pool_blocks, w.block_size = s.blocks, s.block_size
        w.usable_blocks = s.blocks - len(aside)
        w.seats, w.token_budget = s.seats, s.token_budget
        w.watermark, w.lookahead, w.chunked = s.watermark_blocks, c.lookahead_tokens, s.chunked_prefill
        w.max_prompt, w.max_output = s.max_prompt_tokens, s.max_output_tokens
        w.max_model = s.max_model_tokens
        w.aside = aside
        w.host_pool, w.host_free = s.host_blocks, set(range(s.host_blocks))
        w.free = set(range(s.blocks)) - aside if self.shows_tables else set()

    def _fire(self, event: str, *fields: Any) -> None:
        world = self.world
        if self.explain:
            self._reads = self._before(event, fields)
        self.program.one[event](world, *fields)
        if world.failed:
            self._note(event, [fields])

    def _fire_many(self, event: str, *columns: Sequence[Any]) -> None:
        world = self.world
        if self.explain:
            for fields in zip(*columns, strict=True):
                self._fire(event, *fields)
            return
        self.program.many[event](world, *columns)
        if world.failed:
            self._note(event, list(zip(*columns, strict=True)))

    def _note(self, event: str, rows: Sequence[tuple[Any, ...]]) -> None:
        names = list(registry.events[event].sorts)
        for number, row in self.world.failed:
            conjunct = registry.conjuncts[number]
            spoken = {part.args[0] for part in walk(conjunct.term) if part.op == "field"}
            facts = {name: value for name, value in zip(names, rows[row], strict=True) if name in spoken}
            facts |= self._reads.get(conjunct.name, {})
            facts = {name: _in_words(name, value) for name, value in facts.items()}
            self._found.append(
                Violation(
                    rule=conjunct.rule,
                    conjunct=conjunct.name,
                    says=_says(number),
                    message=self.message,
                    facts=facts,
                )
            )
        self.world.failed.clear()

    def _before(self, event: str, fields: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
        """Values that the guards of an event are about to read, by conjunct."""
        return {
            name: {text: _shown(read(self.world, *fields)) for text, read in reads.items()}
            for name, reads in _guard_reads(event).items()
        }

    def _end_call(self) -> None:
        for request in self._touched:
            self._fire("Grown", request)
        self._touched.clear()
        self._given.clear()
        self._fire("EndCall", self.now_ns)
        self.view = None

    def _run(self, flight: InFlight) -> tuple[list[int], list[BadRead]]:
        if self.shadow is None:
            rows = zip(flight.tracks, flight.start, flight.tokens, strict=True)
            return [track.id_at(start + tokens - 1) for track, start, tokens in rows], []
        return self.shadow.execute(flight)

    def _bad_read(self, read: BadRead, step: int) -> None:
        self.fail(
            "KV-12",
            "read",
            "a position is read only if its content was written earlier, with the same token prefix",
            step=step,
            request=read.request,
            position=read.position,
            block=read.block,
            found=read.found,
        )

    def _check_pledges(self) -> None:
        """KV-14: when every write that was issued before a block was indexed has happened, the block holds that prefix,
        or the index has forgotten it."""
        assert self.shadow is not None
        oldest = min(self.in_flight, default=self.last_step + 1)
        now = oldest if self.view is None else min(oldest, self.view.plan.step)
        while self._pledges and self._pledges[0][0] < now:
            _, request, block, identity = self._pledges.popleft()
            stands = block in self.world.indexed and self.world.BlockId[block].content == identity
            if stands and not self.shadow.holds(block, identity):
                says = "an indexed block holds the prefix that it is indexed by"
                self.fail("KV-14", "content", says, request=request, block=block)

    def _check_reads(self, step: int) -> None:
        """KV-12: whoever reads finds what was written for it."""
        if self.shadow is not None:
            self.execute(step)
            digests, bad = self.executed[step]
            self.count("KV-12", len(digests))
            for read in bad:
                self._bad_read(read, step)
        self.executed.pop(step, None)

    def _check_writes(self, tracks: Sequence[Track], plan: Plan) -> None:
        """KV-13: whoever writes into a block took it fresh.  Positions of a shared one were issued by somebody else."""
        if not self.world.indexed:
            return
        self.count("KV-13", len(tracks))
        for track, start in zip(tracks, plan.start, strict=True):
            if start < track.shared_tokens:
                block = track.table[start // self.settings.block_size]
                self.fail(
                    "KV-13",
                    "written",
                    "a block that others hold, or that the index names, is not written at positions already issued",
                    request=track.id,
                    block=block,
                    first_position=start,
                    holders=sorted(self.world.BlockId[block].holders),
                    indexed=block in self.world.indexed,
                )
                return

    def _holders(self, block: int) -> Iterable[Track]:
        return [self.tracks[r] for r in self.world.BlockId[block].holders if r in self.tracks]

    def available(self) -> int:
        """Blocks that nobody holds, and that no step in flight may still write to."""
        there = len(self.world.free) + len(self.world.evictable)
        if not self.deferred:
            return there
        return there - sum(block in self.world.free for block in set().union(*self.deferred.values()))

    def _defer_frees(self, track: Track) -> None:
        """It has ended: what steps in flight may write to, as they were planned."""
        size = self.settings.block_size
        for flight in self.in_flight.values():
            if track in flight.departed:
                continue
            for other, start, tokens in zip(flight.tracks, flight.start, flight.tokens, strict=True):
                if other is track:
                    blocks = flight.table_of(track)[start // size : (start + tokens - 1) // size + 1]
                    self.deferred.setdefault(flight.step, set()).update(blocks)

    @property
    def has_obligations(self) -> bool:
        """Blocks are set aside for a while (`pooled.py`): memory may be short though nobody's table has it."""
        return bool(len(self.world.aside) > self.settings.blocks - self.world.usable_blocks)

    def set_aside(self, blocks: Iterable[int]) -> None:
        """Free blocks come under an obligation, of whom the other relation knows."""
        moved = self.world.free.intersection(blocks)
        self.world.free -= moved
        self.world.aside |= moved

    def put_back(self, blocks: Iterable[int]) -> None:
        moved = self.world.aside.intersection(blocks)
        self.world.aside -= moved
        self.world.free |= moved

    def available_unleased(self) -> int:
        """Blocks that nobody holds, and that are leased to nobody."""
        return self.available() - sum(block in self.world.evictable for block in self.parking.pins)

    def reserved_tokens(self, track: Track) -> int:
        """Positions that an admission may take blocks for: what the subject claims to reserve, or was asked to."""
        known = int(self.world.RequestId[track.id].known)
        longest = self.settings.max_model_tokens
        lengths = Lengths(track.prompt_tokens, track.declared_output, track.expected_tokens, known, longest)
        return max(RESERVED[reserve](lengths) for reserve in self._reserves)

    def _replace_table(self, track: Track, table: list[int]) -> None:
        for flight in self.in_flight.values():
            flight.tables.setdefault(track, track.table)
        track.replace_table(table)

    def _depart(self, track: Track) -> None:
        """What is in flight of it is not its own any more."""
        track.epoch += 1
        for flight in self.in_flight.values():
            flight.departed.add(track)

    def _retire(self, track: Track) -> None:
        track.ended = True
        self._depart(track)
        track.pack()
        track.ended_in_step = self.last_step
        self._retired.append(track)

    def _forget(self) -> None:
        """Requests that ended long ago, and before every step in flight, leave no trace."""
        if len(self._retired) <= self.horizon:
            return
        oldest = min(self.in_flight, default=self.last_step + 1)
        while len(self._retired) > self.horizon and self._retired[0].ended_in_step < oldest:
            track = self._retired.popleft()
            self._looked_up = ((), [])
            self.tracks.pop(track.id, None)
            self.world.RequestId.pop(track.id, None)


AWAY = Receipt(verdict="refused", reason="other")
"""How the relation knows of somebody who left at the door."""


def is_record(request: str, delta: Delta) -> bool:
    """It says what the one who comes gets instead of a refusal."""
    return delta[0] in ("deferred", "converted") and delta[1] == request


def is_held(receipt: Receipt) -> bool:
    """The door holds the request: it may enter later."""
    return receipt.verdict == "deferred" or (receipt.verdict == "converted" and receipt.how == "asynchronous")


def canonical(deltas: Sequence[Delta]) -> list[Delta]:
    """The one order for deltas that come in none: what was computed, then who leaves (each with its blocks), then
    growth of those who run, then admissions (each with its blocks)."""
    in_order = {"swapped_out": -1, "gave": 0, "dropped": 0}
    leaving = {d[1]: n for n, d in enumerate(deltas) if d[0] in ("preempted", "parked") or d[0] in _ENDS}
    entering = {d[1]: n for n, d in enumerate(deltas) if d[0] in ("admitted", "resumed")}

    def key(item: tuple[int, Delta]) -> tuple[int, int, int, int]:
        number, delta = item
        kind = delta[0]
        if kind in in_order:
            return (2, leaving.get(delta[1], number), in_order[kind], number)
        if kind in ("preempted", "parked") or kind in _ENDS:
            return (2, number, 1, number)
        if kind in _ACQUIRING:
            group = entering.get(delta[1])
            return (4, number, 0, number) if group is None else (5, group, _ACQUIRING.index(kind), number)
        if kind in ("admitted", "resumed"):
            return (5, number, len(_ACQUIRING), number)
        return (_CANONICAL[kind], number, 0, number)

    return [delta for _, delta in sorted(enumerate(deltas), key=key)]


def _in_order(
    wanted: Sequence[str], requests: Sequence[str], column: Sequence[Any], otherwise: Iterable[Any]
) -> Sequence[Any]:
    """A column with a value for each of `requests`, for those that are wanted; most often they are the same."""
    if tuple(wanted) == tuple(requests):
        return column
    return list(map(dict(zip(requests, column, strict=True)).get, wanted, otherwise))


@define(frozen=True)
class _Key:
    """What of the capabilities decides which conjuncts are active."""

    observes: str
    ordered: bool
    claims: frozenset[str]

    @classmethod
    def of(cls, capabilities: Capabilities) -> "_Key":
        asked = {claim for conjunct in registry.conjuncts for claim in conjunct.binding.claims}
        return cls(capabilities.observes, capabilities.ordered, capabilities.claims & asked)


@cache
def _program(key: _Key, dropped: str | None) -> Program:
    if dropped is not None:
        return without(_program(key, None), dropped)
    capabilities = Capabilities(observes=key.observes, ordered=key.ordered, claims=key.claims)  # type: ignore[arg-type]

    def active(conjunct: Conjunct) -> bool:
        binding: Binding = conjunct.binding
        return binding.missing(capabilities) is None

    return compile_program(registry, active)


@cache
def _bound(capabilities: Capabilities) -> frozenset[str]:
    """The rules that such a subject is judged by."""
    return frozenset(rule for rule in registry.rules if registry.missing(rule, capabilities) is None)


def _listens(rule: TraceRule, hook: str) -> bool:
    return getattr(type(rule), hook) is not getattr(TraceRule, hook)


@cache
def _says(number: int) -> str:
    return printed(registry.conjuncts[number].term, registry.names, registry.state.sorts)


@cache
def _guard_reads(event: str) -> Mapping[str, Mapping[str, Callable[..., Any]]]:
    return {c.name: state_reads(registry, c) for c in registry.guards(event)}


def _in_words(name: str, value: Any) -> Any:
    """Phases by their names."""
    return PHASES.get(value, value) if name.split("[")[0] == "phase" else value


def _shown(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else value


_FEEDS: dict[str, Callable[[Monitor, Message], None]] = {
    "submit": Monitor._submit,
    "cancel": Monitor._cancel,
    "notify": Monitor._notify,
    "step": Monitor._step,
    "complete": Monitor._complete,
    "observe": Monitor._observe,
    "end": Monitor._end,
}
_DELTAS: dict[str, Callable[[Monitor, Track, Delta], None]] = {
    "took": Monitor._took,
    "shared": Monitor._shared,
    "gave": Monitor._gave,
    "indexed": Monitor._indexed,
    "admitted": Monitor._admitted,
    "resumed": Monitor._admitted,
    "preempted": Monitor._preempted,
    "waits": Monitor._waits,
    "parked": stays.parked,
    "unparked": stays.unparked,
    "leased": stays.leased,
    "lease_over": stays.lease_over,
    "swapped_out": Monitor._swapped_out,
    "swapped_in": Monitor._swapped_in,
    "dropped": Monitor._dropped,
    "chosen": Monitor._decided,
    "displaced": Monitor._decided,
    "spent": Monitor._decided,
    "deferred": Monitor._recorded,
    "converted": Monitor._recorded,
    "entered": Monitor._recorded,
    "finished": Monitor._ended,
    "failed": Monitor._ended,
    "cancelled": Monitor._ended,
    "expired": Monitor._ended,
}

__all__ = ["Monitor", "StepView", "Victim", "World", "canonical"]

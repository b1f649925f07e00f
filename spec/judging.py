"""The monitor's state, what rules ask of it, and how an event is judged."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import Factory, define

from . import rules
from .caps import Residents
from .content import BadRead, ContentShadow
from .drafts import Drafts
from .lane_ledger import LaneLedger
from .ledger import Ledger
from .lines import Lines
from .parking import CLAIM, Parking
from .printed import printed
from .programs import Key, bound, guard_reads, in_words, program_of, shown, words_of
from .queueing import level_of
from .registry import Conjunct
from .relation import registry
from .reserves import CLAIMED
from .rules.base import LaneCharges, TraceRule
from .spells import Spells
from .terms import walk
from .tracks import InFlight, Track
from .verdicts import Violation
from .vocabulary import LEVELS, Header, Outcome, Plan, Request

assert rules  # importing them fills the registry

NEED_A_LEDGER = ("vtc", "fair_share", "drr", "dlpm", "lcf", "round_robin", "committed_cap")
"""Claims that are judged by what each client has got."""

_HOOKS = [name for name in vars(TraceRule) if name.startswith("on_")]


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


class Judge:
    """What a monitor knows, whoever tells it."""

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
        self.program = program_of(Key.of(header.capabilities), dropped)
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
        self._unpacked: deque[Track] = deque()
        self._touched: dict[str, None] = {}
        self._given: dict[str, int] = {}
        self._looked_up: tuple[Sequence[str], list[Track | None]] = ((), [])
        self._outcome: Outcome | None = None
        self._pledges: deque[tuple[int, str, int, int]] = deque()
        self._found: list[Violation] = []
        self._reads: dict[str, Any] = {}
        self._keep_books()
        self._set_parameters()
        wanted = content and self.shows_tables
        order = header.capabilities.executor_order
        self.shadow = ContentShadow(self.settings.block_size, order, self._holders) if wanted else None
        self._bound = bound(header.capabilities)
        self.rules = [
            make() for rule, make in registry.monitors.items() if hasattr(make, "active") and self.binds(rule)
        ]
        if self.keeps_lanes:
            self.rules.append(LaneCharges())
        self._listeners = self._who_listens()

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

    def count(self, rule: str, times: int = 1) -> None:
        """A rule beside the relation held its precondition."""
        self.counts[rule] += times

    def listen(self, listener: TraceRule) -> None:
        """Tell it, too, what happens.  Who only listens breaks nothing."""
        self.rules.append(listener)
        self._listeners = self._who_listens()

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

    def says(self, conjunct: Conjunct) -> str:
        return printed(conjunct.term, registry.names, registry.state.sorts)

    def is_promoted(self, track: Track) -> bool:
        """It has seen as many admissions as the subject lets pass it: it may go next, whatever its place."""
        most = self.capabilities.constant("max_overtaken")
        return self.claims("bounded_overtaking") and self.spells.seen(track) >= most

    def class_of(self, track: Track) -> int:
        """The class of a request; smaller is better."""
        return level_of(track, self.settings.quantum) if self.claims("mlfq") else track.priority

    def computed(self, request: str, end: int, *, stop: bool) -> None:
        """A draft was right: a decode of one position."""
        self._fire("Computed", request, end, 1, stop)

    def _keep_books(self) -> None:
        """Of who waits, of what everybody has got, and of what is held back for a while."""
        s = self.settings
        self.ledger = Ledger.of(s, self.capabilities)
        self.keeps_lanes = bool(s.lanes) and any(map(self.claims, ("lanes", "shares", "burst")))
        self.keeps_ledger = any(map(self.claims, NEED_A_LEDGER)) or self.keeps_lanes
        self.lanes = {lane.name: lane for lane in s.lanes}
        self.lane_ledger = LaneLedger.of(s)
        self.residents = Residents.of(s)
        in_order = {lane.name for lane in s.lanes if lane.order == "fifo"}
        self.lines = Lines(in_order, by_length=bool(s.resident_tokens))
        self.spells = Spells()
        self.held: dict[str, Request] = {}
        self.deferred: dict[int, set[int]] = {}
        self.drafts = Drafts()
        self.parking = Parking(s.park_timeout_ns if self.claims(CLAIM) else 0)

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

    def _holders(self, block: int) -> Iterable[Track]:
        return [self.tracks[r] for r in self.world.BlockId[block].holders if r in self.tracks]

    def _tell(self, hook: str, *facts: Any) -> None:
        for listen in self._listeners[hook]:
            listen(self, *facts)

    def _who_listens(self) -> dict[str, list[Callable[..., None]]]:
        return {hook: [getattr(rule, hook) for rule in self.rules if _listens(rule, hook)] for hook in _HOOKS}

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

    def _fire_each(self, event: str, request: str, blocks: Sequence[int]) -> None:
        """An event for each block of a request, in order."""
        if len(blocks) == 1:
            self._fire(event, request, blocks[0])
        elif blocks:
            self._fire_many(event, [request] * len(blocks), blocks)

    def _note(self, event: str, rows: Sequence[tuple[Any, ...]]) -> None:
        names = list(registry.events[event].sorts)
        for number, row in self.world.failed:
            conjunct = registry.conjuncts[number]
            spoken = {part.args[0] for part in walk(conjunct.term) if part.op == "field"}
            facts = {name: value for name, value in zip(names, rows[row], strict=True) if name in spoken}
            facts |= self._reads.get(conjunct.name, {})
            facts = {name: in_words(name, value) for name, value in facts.items()}
            self._found.append(
                Violation(
                    rule=conjunct.rule,
                    conjunct=conjunct.name,
                    says=words_of(number),
                    message=self.message,
                    facts=facts,
                )
            )
        self.world.failed.clear()

    def _before(self, event: str, fields: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
        """Values that the guards of an event are about to read, by conjunct."""
        return {
            name: {text: shown(read(self.world, *fields)) for text, read in reads.items()}
            for name, reads in guard_reads(event).items()
        }

    def _end_call(self) -> None:
        for request in self._touched:
            self._fire("Grown", request)
        self._touched.clear()
        self._given.clear()
        self._fire("EndCall", self.now_ns)
        self.view = None


def _listens(rule: TraceRule, hook: str) -> bool:
    return getattr(type(rule), hook) is not getattr(TraceRule, hook)

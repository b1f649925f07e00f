"""The words of the subject protocol: what a scheduler is told and what it answers.

Six methods drive a subject (`Subject`), a seventh, `observe`, is optional.  Every change that a call causes
comes back from that call as ordered *deltas*; the closed list of their names is `DELTAS`.  Everything that
decides is an integer; units stand last in a name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from attrs import Factory, asdict, field, frozen

from .admission import ALTERNATIVES as ALTERNATIVES
from .admission import CONVERSIONS as CONVERSIONS
from .admission import OPEN as OPEN
from .admission import Door as Door
from .admission import budget_within as budget_within
from .pools import COLOCATED as COLOCATED
from .pools import DECODE as DECODE
from .pools import POOLS as POOLS
from .pools import PREFILL as PREFILL
from .pools import Pools as Pools
from .settings import HYBRID as HYBRID
from .settings import NO_LIMIT_TOKENS as NO_LIMIT_TOKENS
from .settings import OF_CLASSES as OF_CLASSES
from .settings import OF_CLIENTS as OF_CLIENTS
from .settings import OF_QUANTA as OF_QUANTA
from .settings import OF_SERVICE as OF_SERVICE
from .settings import WEIGHTS as WEIGHTS
from .settings import Lane as Lane
from .settings import Policy as Policy
from .settings import Reserve as Reserve
from .settings import Settings as Settings
from .settings import SettingsWarning as SettingsWarning
from .settings import hybrid as hybrid
from .settings import strays as strays
from .settings import unsupported as unsupported

SCHEMA = "schedspec/1"

NS_PER_S = 1_000_000_000

Level = Literal["decisions", "counters", "tables"]
LEVELS: tuple[Level, ...] = ("decisions", "counters", "tables")

Delta = tuple[Any, ...]

PREEMPTIONS = ("recompute", "swap")
"""Computed again, or saved in host blocks and brought back."""
FINISH_REASONS = ("stop", "length")

DELTAS: Mapping[str, tuple[str, ...]] = {
    "unindexed": ("blocks",),
    "gave": ("request", "blocks"),
    "preempted": ("request", "how", "requester"),
    "finished": ("request", "reason"),
    "failed": ("request", "reason"),
    "cancelled": ("request",),
    "expired": ("request",),
    "admitted": ("request", "cached_tokens"),
    "resumed": ("request", "cached_tokens"),
    "shared": ("request", "blocks"),
    "took": ("request", "blocks"),
    "indexed": ("request", "blocks"),
    "delivered": ("requests", "tokens"),
    "waits": ("request", "limit"),
    "held": ("request", "blocks", "reason"),
    "pulled": ("request", "blocks", "transfer"),
    "transferred": ("request", "outcome"),
    "adopted": ("request", "blocks"),
    "released": ("request", "blocks"),
    "parked": ("request", "dependencies"),
    "unparked": ("request",),
    "leased": ("request", "blocks", "until_ns"),
    "lease_over": ("request", "ended_by"),
    "deferred": ("request", "decided_after_ns"),
    "converted": ("request", "into"),
    "entered": ("request",),
    "swapped_out": ("request", "blocks"),
    "swapped_in": ("request", "blocks"),
    "dropped": ("request", "blocks"),
    "chosen": ("request", "by", "before", "after"),
    "displaced": ("request", "cause"),
    "spent": ("request", "held_ns", "waited_ns", "ran_ns", "whole_ns"),
}
"""Delta name -> its fields, in the order in which they stand in the tuple after the name.

`unindexed` the prefix index forgets blocks; `gave` a request returns blocks because it leaves; `preempted` names
the request that the memory is for, or None; `shared` a request joins the holders of blocks that the index names;
`took` fresh blocks, appended to its table; `admitted` and `resumed` follow the blocks that they needed; `indexed` the
index now names full blocks of the request by their token prefix; `delivered` columns: output tokens in the order in
which clients get them; `waits` why a request waits, one of `WAIT_LIMITS`, when that changes; `parked` a running request
leaves its seat until its dependencies are there; `unparked` they are, and it waits; `leased` the index keeps these
blocks for a request that is parked; `lease_over` not any more, for one of `LEASE_ENDS`; `deferred` the door holds a
request instead of refusing it, and decides within that time; `converted` it gets one of `CONVERSIONS` instead of a
refusal; `entered` the door takes in one that it held; `swapped_out` host blocks that save the first blocks of its
table, in order; `swapped_in` host blocks that are copied to the first blocks of its table, in order, and are free
again; `dropped` host blocks that are free again without that.  Of decisions: `chosen` by which of `ORDERINGS` an
admitted request was next, its place by arrival among those who waited before the step, and its place among the
admissions of the step, both from 1; `displaced` for which of `DISPLACEMENTS` a request was preempted; `spent` how long
a request that has ended was held at the door, waited and ran, and how long all of it took.

Of two pools: `held` the prefill of a request is complete, it leaves the prefill pool's running set, and its blocks stay
there under an obligation; `pulled` the decode pool sets free blocks aside for its KV, and asks the link for a transfer
of that number; `transferred` that is over, one of `TRANSFERS`; `adopted` the blocks that were set aside are its table
now (before its `admitted`); `released` an obligation ends, and its blocks are free.
"""

TRANSFERS = ("done", "failed", "timeout", "dropped")
"""How a transfer ends: as it should, by the link's report, by time alone, or because nobody wants it any more, before
the link began."""

TRANSFER_EVENTS = ("transfer_started", "transfer_done", "transfer_failed")
"""What the link tells, with the number of the `transfer`: it writes from now on, it has written all, it gave up."""

LEASE_ENDS = ("resumed", "ended", "expired", "memory")
"""Why a lease ends: its request runs again, or has ended; its time is over; no other block was left to take."""

RESOLVED, DEPENDENCY_FAILED = "resolved", "failed"
"""Types of the events by which the world says what became of a `dependency` of a `request`."""

WAIT_LIMITS = (
    "victims",
    "seats",
    "budget",
    "period",
    "results",
    "client cap",
    "lane share",
    "resident tokens",
    "adapter",
    "prefill cap",
    "peak",
    "blocks",
    "watermark",
    "order",
)
"""The closed set of reasons to wait, in the order in which they are asked; `spec/waiting.py` explains each."""

ORDERINGS = ("line", "aging", "skip", "policy", "adapter")
"""By what a request is next: it came first; it has waited long; whoever stood before it did not fit; the policy orders
so; the adapter of whoever came earlier cannot be loaded."""

DISPLACEMENTS = ("blocks", "class")
"""Why a request loses its place: others need blocks; one of a better class takes it."""

REFUSAL_REASONS = (
    "kv_blocks",
    "prompt_tokens",
    "output_tokens",
    "model_tokens",
    "token_budget",
    "other",
    "client_requests",
    "client_tokens",
    "committed_tokens",
    "rate_requests",
    "rate_tokens",
    "queue_requests",
    "queue_tokens",
    "lane_requests",
    "lane_tokens",
    "queue_age",
    "first_token",
)
PERMANENT_REASONS = REFUSAL_REASONS[:5]
"""Whoever is refused for one of these will be for ever."""


def _integers(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(values)


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


def _names(values: Iterable[str]) -> frozenset[str]:
    return frozenset(values)


def _pairs(values: Mapping[str, int] | Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(dict(values).items()))


class Unsupported(Exception):
    """A factory refuses a setting that it cannot honour, by name.  `ask`: for what one may ask instead.

    >>> raise Unsupported("prefix_caching", True)
    Traceback (most recent call last):
    schedspec.spec.vocabulary.Unsupported: setting prefix_caching=True is not supported
    >>> raise Unsupported("policy", "fcfs", "policy=vtc")
    Traceback (most recent call last):
    schedspec.spec.vocabulary.Unsupported: setting policy='fcfs' is not supported: ask for policy=vtc
    """

    def __init__(self, setting: str, value: object, ask: str = "") -> None:
        hint = f": ask for {ask}" if ask else ""
        super().__init__(f"setting {setting}={value!r} is not supported{hint}")
        self.setting = setting
        self.value = value


@frozen(kw_only=True)
class Capabilities:
    """What a subject declares of itself.  A rule binds by these and by nothing else.

    `observes` is the finest level that it shows: decisions (plans and deltas of requests), counters (`observe`
    without tables), tables (deltas of blocks, and `observe` in full).  `ordered` says that its deltas stand in
    the order in which they happened; otherwise the canonical order is used.  `claims` are promises that the
    rules name, `constants` the numbers in them: see `CLAIMS` and `CONSTANTS`.
    """

    name: str = "unnamed"
    version: str = "0"
    profile: str | None = None
    observes: Level = "decisions"
    ordered: bool = False
    claims: frozenset[str] = field(default=frozenset(), converter=_names)
    constants: tuple[tuple[str, int], ...] = field(default=(), converter=_pairs)
    executor_order: Literal["writes_first", "entry_by_entry", "reads_first"] = "writes_first"
    lookahead_tokens: int = 0
    admission_period_steps: int = 1
    null_blocks: tuple[int, ...] = field(default=(), converter=_integers)
    reserved_blocks: tuple[int, ...] = field(default=(), converter=_integers)

    def constant(self, name: str) -> int:
        """A declared constant; 0 if there is none."""
        return dict(self.constants).get(name, 0)


CLAIMS: Mapping[str, str] = {
    "hard_budget": "all tokens of a step, decodes included, stay within the token budget",
    "hybrid": "a step may mix prefill and decode, and leaves nobody out who could run",
    "exclusive": "a step is of prefill or of decode, never of both",
    "iteration_level": "requests are admitted at every iteration that has room, whatever runs",
    "iteration_fcfs": "of two requests with something left to run, the earlier one has run in at least as many steps",
    "disjoint_steps": "a request is in one step in flight at most",
    "full_chunks": "a prompt is cut where the budget or chunk_tokens ends, and nowhere else",
    "no_preemption": "nobody is preempted",
    "stall_free": "a step leaves out no decode that could run",
    "mixes_prefill": "while a decode could run, at most prefill_only_steps steps in a row do prefill alone",
    "prompt_share": "one prompt gets at most chunk_tokens of a step while another waits for prefill",
    "prefill_cap": "at most prefilling_requests prompts are in prefill at once",
    "watermark": "admissions leave watermark_blocks free while anything runs",
    "fcfs": "requests are admitted in order of arrival, a preempted one before later arrivals",
    "priority": "requests are admitted in order of (priority, arrival)",
    "edf": "requests are admitted in order of (deadline, arrival), those without a deadline last",
    "sjf": "requests are admitted in order of expected output, each token of it worth 8 arrivals",
    "srpt": "requests are admitted in order of expected output that is left, each token of it worth 8 arrivals",
    "aging": "requests are admitted in order of priority, each class of it worth 8 arrivals",
    "mlfq": "requests are admitted in order of level; a level ends after twice the service of the one before",
    "lpm": "who has the longest cached prefix is next, of the first 128 that wait",
    "bounded_overtaking": "a waiting request is overtaken at most max_overtaken times in one spell of waiting",
    "vtc": "the client with the least counter is next; a charge or a lift is all that changes a counter",
    "lcf": "the client with the least service so far is next, however long it was away",
    "round_robin": "clients are next in turn, one request each",
    "drr": "clients are next in turn, until what they got exceeds the quanta of their turns",
    "dlpm": "among clients whose quanta are not used up, who has the longest cached prefix is next",
    "lanes": "the lane with the least service per share is next, in it who came first or the client with least service",
    "fair_share": "two clients that wait get the same service, up to a constant that no interval exceeds",
    "weighted": "service of a client counts times its price",
    "per_chunk": "a prompt is charged chunk by chunk, as it is computed",
    "prediction": "predicted outputs are charged at the pick, and corrected when the request ends",
    "committed_cap": "what the running requests of a client may still be charged is bounded at each pick",
    "aged_sharing": "whoever waits long may be preferred, by at most aging_credit",
    "aging_due": "whoever waits long is preferred, by aging_credit",
    "shares": "a lane in which somebody waits gets its share of service, up to a constant",
    "caps": "client_seats, client_resident_tokens, resident_tokens and the maxima of lanes hold",
    "borrowing": "what a lane leaves unused goes to the others",
    "burst": "a lane that comes back is served at once, and ahead of the others by at most its burst",
    "objective": "a lane keeps its objective under its declared load",
    "newest_first": "the victim of a preemption is the most recently admitted request",
    "lowest_priority": "the victim is the request with the largest (priority, admission)",
    "class_preemption": "a waiting request takes the place of running ones of a lower class",
    "break": "an admission round ends at the first request that does not fit",
    "resume_order": "preempted requests are resumed before anybody who stands behind them in the queue; where clients "
    "have queues, before all who came later",
    "skip": "an admission round goes past requests that do not fit",
    "on_demand_reserve": "an admission takes the blocks of its first chunk, and growth those that the step needs",
    "full_reserve": "an admission waits until everything known of the request fits",
    "declared_reserve": "an admission takes the blocks of prompt and declared output",
    "predicted_reserve": "an admission takes the blocks of prompt and predicted output",
    "power_of_two_reserve": "an admission takes the blocks of prompt and predicted output rounded up to a power of 2",
    "model_reserve": "an admission takes the blocks of the longest request that the door lets in",
    "peak_reserve": "an admission waits until all declared output fits at every moment to come",
    "prefix_cache": "blocks of equal token prefixes are shared through an index",
    "adapters": "at most adapter_slots adapters are in use at once, and who waits for one holds up nobody else",
    "overlap": "steps are planned before earlier ones have completed",
    "bounded_queue": "queue_requests and queue_tokens hold, those of the door and those of lanes",
    "queue_age": "who has waited queue_age_ns for its first admission expires",
    "retry_after": "who comes again when a refusal said so is accepted, if nobody else came",
    "promise": "whoever is accepted is admitted within queue_age_ns, and has its first token within first_token_ns",
    "client_limits": "client_requests, client_tokens and committed_tokens hold",
    "rates": "rate_requests and rate_tokens hold in every window of rate_window_ns",
    "inter_token": "no step takes longer than inter_token_ns by the declared time model",
    "two_pools": "prefill and decode run in two pools, and KV that is not pulled stays in the prefill pool",
    "strict_split": "the prefill pool runs prefill alone, the decode pool decodes alone",
    "disconnects": "whose client is gone is cancelled at once, unless it declared to survive",
    "swap": "a preempted request may keep its KV in host blocks, and comes back with all of it",
    "cheaper_recovery": "a preempted request is swapped or recomputed, whichever is cheaper by the declared times",
    "urgency_pays": "whoever takes the place of others costs them less than the delay that it avoids",
    "wait_log": "why a request waits is logged when it changes (a delta waits)",
    "parking": "who depends on something has no seat until it is there, and ends if it fails or does not come in time",
    "decision_log": "admissions, preemptions and ends are logged with their cause (deltas chosen, displaced, spent)",
    "early": "whoever is refused for a predicted wait would be at any larger load",
    "alternatives": "who would be refused is held or converted as the door declares, once, with a record",
    "clairvoyant": "decisions may read when a request will end, though nobody is told: for oracles to compare with",
    "drafts": "a decode may have up to draft_tokens guesses verified, and those that are right are delivered with it",
    "deferred_frees": "blocks of whoever has ended are free when no step in flight can write to them any more",
    "engine": "an engine computes what is planned, and what it computed can be compared (schedspec serve-sim)",
    "one_generation": "an idempotency key names one generation while it lives, and retain_ns after it finished",
}

CONSTANTS: Mapping[str, str] = {
    "prefill_only_steps": "most steps in a row that do prefill alone while a decode could run (mixes_prefill)",
    "max_overtaken": "most times that a waiting request is overtaken (bounded_overtaking)",
    "committed_cost": "most that a client's running requests may still be charged, at a pick (committed_cap)",
    "aging_credit": "how far above the least counter an aged pick may be (aged_sharing)",
    "quantum": "service that a client gets in its turn (drr, dlpm)",
}
"""Numbers that a subject declares, and the claim that each belongs to."""

NEEDED_CONSTANTS: Mapping[str, str] = {
    "mixes_prefill": "prefill_only_steps",
    "bounded_overtaking": "max_overtaken",
    "committed_cap": "committed_cost",
    "aged_sharing": "aging_credit",
    "drr": "quantum",
    "dlpm": "quantum",
}
"""Claim -> the constant without which it says nothing."""


@frozen(kw_only=True)
class Request:
    """One generation.  `priority`: smaller is served first.  `prompt_ids`: token ids, at least one.  `lane`: the lane
    that it asks for, if there is one of that name.  `predicted_output_tokens`: what somebody expects, right or wrong.
    `adapter`: weights that have to be loaded while it runs.  `survives_disconnect`: its result is wanted though its
    client is gone.  `dependencies`: names of what must be there before it runs at all (a transfer of KV, a grammar);
    they count where requests are parked.  `was_converted`: it comes from another door, which converted it."""

    id: str
    prompt_ids: tuple[int, ...] = field(converter=_integers)
    max_output_tokens: int
    client: str = "default"
    lane: str = "default"
    priority: int = 0
    deadline_ns: int | None = None
    idempotency_key: str | None = None
    dependencies: tuple[str, ...] = field(default=(), converter=_texts)
    predicted_output_tokens: int | None = None
    adapter: str | None = None
    survives_disconnect: bool = False
    was_converted: bool = False

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt_ids)

    @property
    def declared_tokens(self) -> int:
        """Its prompt, and the most that may come out."""
        return self.prompt_tokens + self.max_output_tokens

    @property
    def expected_output_tokens(self) -> int:
        """The prediction, as far as it is one: at least 1, at most what is declared; else what is declared."""
        if self.predicted_output_tokens is None:
            return self.max_output_tokens
        return max(1, min(self.predicted_output_tokens, self.max_output_tokens))


@frozen(kw_only=True)
class Receipt:
    """The answer to `submit`.  A refusal has a `reason`, and where a limit was broken the limit and value; so has what
    a request gets instead of one: it is deferred, and decided within `decided_after_ns`, or converted, and `how` says
    into what."""

    verdict: Literal["accepted", "refused", "duplicate", "converted", "deferred"]
    reason: str | None = None
    limit: int | None = None
    value: int | None = None
    retry_after_ns: int | None = None
    of: str | None = None
    how: str | None = None
    decided_after_ns: int | None = None
    deltas: Sequence[Delta] = ()


@frozen(kw_only=True)
class Plan:
    """The decisions of one step, as columns of equal length: entry i runs positions
    [start[i], start[i] + tokens[i]) of request[i], and samples[i] (0 or 1) tokens after the last of them.  `pool` is
    whose step it is, where there are two.  `drafts`: request -> so many guesses at what follows are verified in the
    step, at the positions behind its entry."""

    step: int
    request: Sequence[str] = ()
    start: Sequence[int] = ()
    tokens: Sequence[int] = ()
    samples: Sequence[int] = ()
    deltas: Sequence[Delta] = ()
    pool: str | None = None
    drafts: Mapping[str, int] = Factory(dict)


@frozen(kw_only=True)
class Outcome:
    """What the engine computed in one step: one row per entry that sampled.  `stop`: the model ended there.  `pause`:
    what the request depends on from this token on (a tool that it called), or "" where it goes on; `accepted`: tokens
    that follow this one, one for each of its drafts that was right; it is the last of them that stops or pauses.  All
    columns are equally long, but where nobody pauses, or has a draft that was right, that one may be empty."""

    step: int
    request: Sequence[str] = ()
    token: Sequence[int] = ()
    stop: Sequence[bool] = ()
    pause: Sequence[str] = ()
    accepted: Sequence[Sequence[int]] = ()

    @property
    def pauses(self) -> dict[str, str]:
        """Who pauses -> what it depends on."""
        rows = zip(self.request, self.pause, strict=True) if self.pause else ()
        return {request: dependency for request, dependency in rows if dependency}

    @property
    def further(self) -> dict[str, Sequence[int]]:
        """Who has more than one token -> those behind the first."""
        rows = zip(self.request, self.accepted, strict=True) if self.accepted else ()
        return {request: tokens for request, tokens in rows if tokens}


@frozen(kw_only=True)
class RequestView:
    """Where a request is and how far: a row of `Observation.requests`."""

    state: Literal["waiting", "parked", "running", "swapped", "transferring"]
    issued: int
    computed: int
    outputs: int
    in_flight: int


@frozen(kw_only=True)
class Observation:
    """A snapshot.  `counters` and `requests` belong to the level counters, the rest to tables.

    `free` and `evictable` are lists as the subject keeps them, so that a block listed twice shows.
    `index` names the blocks that the prefix index points to; `obligations` are (block, owner, reason).
    `client_counters`: client -> its counter, where service is shared by counters; it belongs to counters too.
    `host_tables`: swapped request -> its host blocks, in order; `host_free`: the host blocks that hold nothing.
    """

    counters: Mapping[str, int] = Factory(dict)
    requests: Mapping[str, RequestView] = Factory(dict)
    tables: Mapping[str, Sequence[int]] = Factory(dict)
    free: Sequence[int] = ()
    evictable: Sequence[int] = ()
    reserved: Sequence[int] = ()
    null: Sequence[int] = ()
    obligations: Sequence[tuple[int, str, str]] = ()
    ref_counts: Mapping[int, int] = Factory(dict)
    index: Sequence[int] = ()
    client_counters: Mapping[str, int] = Factory(dict)
    host_tables: Mapping[str, Sequence[int]] = Factory(dict)
    host_free: Sequence[int] = ()


@frozen
class Message:
    """One call and its answer, as the monitor and the trace know them.

    kind      given           answer
    submit    Request         Receipt
    cancel    request id      deltas
    notify    event           deltas
    step      None            Plan
    complete  Outcome         deltas
    observe   None            Observation
    end       None            None: no more messages; whatever was accepted should have ended

    `line`: in which line of a file it was read, 0 where there is none; no part of what it says.
    """

    kind: Literal["submit", "cancel", "notify", "step", "complete", "observe", "end"]
    now_ns: int
    given: Any = None
    answer: Any = None
    line: int = field(default=0, eq=False, repr=False)


@frozen(kw_only=True)
class Header:
    """The first line of a trace: what was asked of the subject and what it declared.  `engine`: its name in a fleet."""

    settings: Settings
    capabilities: Capabilities
    seed: int = 0
    subject: str = "unknown"
    engine: str = ""


COUNTERS = ("running", "waiting", "swapped", "free_blocks", "used_blocks", "free_host_blocks")
"""Counters that OBS-3 knows: a subject exports those that it has.  `free_blocks` includes evictable ones, `waiting`
does not include who is swapped.
Where there are two pools those of the decode pool have `decode_` in front."""


class Subject(Protocol):
    """A scheduler under test.  A factory makes a fresh one per run: `factory(settings, seed) -> Subject`."""

    def capabilities(self) -> Capabilities: ...

    def submit(self, request: Request, now_ns: int) -> Receipt: ...

    def cancel(self, request_id: str, now_ns: int) -> Sequence[Delta]: ...

    def notify(self, event: Mapping[str, Any], now_ns: int) -> Sequence[Delta]: ...

    def step(self, now_ns: int) -> Plan: ...

    def complete(self, outcome: Outcome, now_ns: int) -> Sequence[Delta]: ...

    def observe(self) -> Observation | None: ...


SubjectFactory = Callable[[Settings, int], Subject]


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold `tokens` positions: the one formula of test and charge (KV-10)."""
    return -(-tokens // block_size)


def blocks_alone(prompt_tokens: int, max_output_tokens: int, block_size: int) -> int:
    """Blocks that a request holds at its end on an empty system: the last token is never written."""
    return blocks_for(prompt_tokens + max_output_tokens - 1, block_size)


OBJECTS = ("prices", "constants")
"""Fields of pairs that JSON writes as objects."""


def fields_as_json(value: Any) -> dict[str, Any]:
    """The fields of an attrs class; those below as they are."""
    plain = asdict(value, recurse=False)
    return plain | {name: dict(plain[name]) for name in OBJECTS if name in plain}


def to_json(value: Any) -> Any:
    """A message as plain data: attrs classes to dicts, sets to sorted lists; deltas stay arrays."""
    if hasattr(value, "__attrs_attrs__"):
        return {name: to_json(item) for name, item in fields_as_json(value).items()}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    return value

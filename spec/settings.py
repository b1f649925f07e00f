"""What is asked of a scheduler: memory and batch, whose turn it is, what service costs, lanes and caps.

A fault in settings is found when they are made, and all faults are reported at once.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from attrs import evolve, field, fields_dict, frozen

from .admission import OPEN, Door, faults_of_door
from .bounds import faults_of_drafts, faults_of_objectives, faults_of_parking, is_int, not_among, too_small
from .pools import COLOCATED, Pools, faults_of_pools
from .recovery import ALLOWED_OF_RECOVERY, LEAST_OF_RECOVERY, Recover, faults_of_recovery

Policy = Literal[
    "fcfs",
    "priority",
    "edf",
    "sjf",
    "srpt",
    "aging",
    "mlfq",
    "lpm",
    "vtc",
    "lcf",
    "round_robin",
    "drr",
    "dlpm",
    "lanes",
]

Reserve = Literal["on_demand", "known", "declared", "peak", "predicted", "power_of_two", "model"]

NO_LIMIT_TOKENS = 1_048_576

MOST_BLOCKS = 1 << 28
"""No pool is larger: a number that is has a digit too many."""

SJF_ARRIVALS = AGING_ARRIVALS = 8
"""So many later arrivals weigh as much as a token of expected output, or a class of priority: what bounds the wait of
the long and of the last."""

LPM_WINDOW = 128
"""Longest-prefix-match looks at so many of those who wait (SGLang falls back to arrival beyond that many)."""

OF_CLIENTS: tuple[Policy, ...] = ("vtc", "lcf", "round_robin", "drr", "dlpm", "lanes")
"""Policies with a queue per client."""

OF_QUANTA: tuple[Policy, ...] = ("drr", "dlpm", "mlfq")

OF_SERVICE: tuple[Policy, ...] = ("vtc", "lcf", "drr", "dlpm", "lanes")
"""Policies with counters of service."""

WEIGHTS = ("request_weight", "input_weight", "output_weight", "product_weight", "square_weight")

OF_CLASSES: tuple[Policy, ...] = ("priority", "edf", "sjf", "srpt", "aging", "mlfq")
"""Policies under which one request may be of a lower class than another: of priority, or of level."""


class SettingsWarning(UserWarning):
    """Settings that are legal, and probably not what somebody wants."""


@frozen(kw_only=True)
class Lane:
    """A service class.  A request is in the lane that it names, else in the first whose shape it has.

    `share_percent` of service is guaranteed while somebody waits in the lane; what nobody uses is borrowed.  Of the
    blocks it reserves at most `maximum_percent`, by declared length; whoever is alone in it may have more.  `order`
    within it: of arrival, or fair between clients.  A lane that comes back may be `burst` service behind, no more.
    Who arrives while the lane's unfinished requests declare at most `load_tokens` is admitted within
    `objective_steps`; 0 is no such promise.  At most `queue_requests` of it, of at most `queue_tokens`, wait for their
    first admission; 0 is no such limit.
    """

    name: str
    share_percent: int
    maximum_percent: int = 100
    order: Literal["fifo", "vtc"] = "fifo"
    by_shape: bool = True
    max_prompt_tokens: int = NO_LIMIT_TOKENS
    max_output_tokens: int = NO_LIMIT_TOKENS
    burst: int = 0
    objective_steps: int = 0
    load_tokens: int = 0
    queue_requests: int = 0
    queue_tokens: int = 0

    def admits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a request of that shape belongs here."""
        return self.by_shape and prompt_tokens <= self.max_prompt_tokens and output_tokens <= self.max_output_tokens

    @property
    def promise(self) -> tuple[object, ...]:
        """What tells it from another lane beside its name and whom it takes."""
        objectives = (self.objective_steps, self.queue_requests, self.queue_tokens)
        return (self.share_percent, self.maximum_percent, self.order, self.burst, *objectives)

    @property
    def has_queue_limits(self) -> bool:
        return bool(self.queue_requests or self.queue_tokens)


HYBRID = (
    Lane(name="interactive", share_percent=60, max_prompt_tokens=2_048, max_output_tokens=1_024, burst=4_096),
    Lane(name="long_context", share_percent=25),
    Lane(name="offline", share_percent=15, by_shape=False),
)
"""Most capacity for whoever waits for an answer, a minimum for the rest, arrival within a lane."""


def _pairs(prices: Any) -> Any:
    """In the order of clients; what is no mapping and no list of pairs stays, for `_of_prices` to refuse."""
    pairs = list(prices.items()) if isinstance(prices, Mapping) else prices
    if not isinstance(pairs, (list, tuple)):
        return prices
    if not all(isinstance(pair, (list, tuple)) and len(pair) == len(("client", "price")) for pair in pairs):
        return prices
    return tuple(sorted(map(tuple, pairs), key=lambda pair: str(pair[0])))


def _lanes(lanes: Any) -> Any:
    """What is no list of lanes stays, for `_of_lanes` to refuse."""
    return tuple(lanes) if isinstance(lanes, (list, tuple)) else lanes


@frozen(kw_only=True)
class Settings:
    """What the suite asks of a factory.  All faults are reported at once.

    `watermark_blocks` stay free at an admission while anything runs.  `reserve` says which blocks an admission
    asks for (`reserves.py`); `peak`: those of its first chunk, but it enters only if everybody's declared output will
    fit at every moment to come.  `chunk_tokens`: most
    tokens of one request in a step while others could use the rest of the budget; 0 is no such limit.

    `max_overtaken`: under a policy of one queue, whoever saw so many admissions in one spell of waiting goes next.
    `aging_picks`: a client or lane whose oldest request saw so many admissions is preferred by `aging_credit`.
    `quantum`: what a round gives a client (drr, dlpm) or the first level a request (mlfq).
    `preempt_lower_class`: a waiting request that does not fit
    may take the place of running ones of a lower class.

    Service is `request_weight` + `input_weight` · prompt + `output_weight` · outputs + `product_weight` · prompt ·
    outputs + `square_weight` · outputs², times the client's price.  The prompt is charged when it is picked or chunk by
    chunk; with `charge_prediction` so are the predicted outputs, and the charge is corrected later.

    `batch_mix`: a step mixes prefill and decode, or is of one phase.  `phase_first`: to whom the budget goes first, and
    whose step it is if it is of one phase; `admission`: to whoever was admitted first; `alternate`: as that, but steps
    of one phase take turns.  `batching` by `request`: nobody enters while anybody runs.  In between, admissions are
    tried every `admission_period_steps` steps.  `disjoint_steps`: who is in a step that is in flight is in no other.

    A cap of 0 is none.  Resident tokens are counted by declared length; whoever is alone may exceed them.
    `log_waits`: why a request waits is told when it changes.  `log_decisions`: by which rule a request is admitted, why
    it loses its place, and what its time was spent on.  `cancel_on_disconnect`: a request whose client is gone is
    cancelled.  `host_blocks`, `recover` and the times after them: what becomes of the KV of a victim (`recovery.py`).
    `pools`: prefill and decode in two (`pools.py`).

    `park_timeout_ns`: a request that depends on something (a tool, a transfer, a grammar) is parked until it is there,
    at most so long; 0: nobody looks at dependencies.  `hold_ns`: so long the prefix cache keeps for a request that is
    parked in the middle what it computed; 0: it is dropped, and computed again.  `defer_frees`: blocks of a request
    that has ended are free when no step in flight can write to them any more.  `draft_tokens`: most guesses that the
    model verifies for one decode of a step, beside its own token; 0: none.
    """

    blocks: int = 64
    block_size: int = 16
    seats: int = 8
    token_budget: int = 64
    watermark_blocks: int = 0
    policy: Policy = "fcfs"
    victim: Literal["newest", "lowest_priority"] = "newest"
    at_blocked_head: Literal["break", "skip"] = "break"
    reserve: Reserve = "on_demand"
    prefix_caching: bool = False
    chunked_prefill: bool = True
    chunk_tokens: int = 0
    overlap_depth: int = 1
    max_prompt_tokens: int = NO_LIMIT_TOKENS
    max_output_tokens: int = NO_LIMIT_TOKENS
    max_model_tokens: int = 2 * NO_LIMIT_TOKENS
    max_overtaken: int = 0
    aging_picks: int = 0
    aging_credit: int = 0
    quantum: int = 64
    preempt_lower_class: bool = False
    adapter_slots: int = 0
    request_weight: int = 0
    input_weight: int = 1
    output_weight: int = 2
    product_weight: int = 0
    square_weight: int = 0
    charge_prompt: Literal["pick", "chunk"] = "pick"
    charge_prediction: bool = False
    prices: tuple[tuple[str, int], ...] = field(default=(), converter=_pairs)
    client_seats: int = 0
    client_resident_tokens: int = 0
    client_committed_cost: int = 0
    resident_tokens: int = 0
    prefilling_requests: int = 0
    lanes: tuple[Lane, ...] = field(default=(), converter=_lanes)
    door: Door = OPEN
    batch_mix: Literal["hybrid", "exclusive"] = "hybrid"
    phase_first: Literal["admission", "decode", "prefill", "alternate"] = "admission"
    batching: Literal["iteration", "request"] = "iteration"
    admission_period_steps: int = 1
    disjoint_steps: bool = False
    log_waits: bool = False
    log_decisions: bool = False
    cancel_on_disconnect: bool = False
    park_timeout_ns: int = 0
    hold_ns: int = 0
    defer_frees: bool = False
    host_blocks: int = 0
    recover: Recover = "recompute"
    swap_block_ns: int = 0
    recompute_token_ns: int = 0
    decode_step_ns: int = 0
    pools: Pools = COLOCATED
    draft_tokens: int = 0

    def __attrs_post_init__(self) -> None:
        if self.policy == "lanes" and self.lanes == ():
            object.__setattr__(self, "lanes", HYBRID)
        faults = [*too_small(self, _LEAST), *not_among(self, _ALLOWED), *_of_prices(self), *_of_lanes(self)]
        faults += [*_contradictions(self), *faults_of_door(self), *faults_of_recovery(self), *faults_of_pools(self)]
        if faults:
            raise ValueError("settings: " + "; ".join(faults))
        _warn_of_equal_promises(self.lanes)


def hybrid(**changes: Any) -> Settings:
    """Lanes with shares, arrival within them, aging, and caps: at most a quarter of the pool for one client, and two
    prompts in prefill at once.  `changes` are settings."""
    plain = Settings(policy="lanes", aging_picks=64, aging_credit=4_096, prefilling_requests=2)
    chosen = evolve(plain, **changes)
    if "client_resident_tokens" in changes:
        return chosen
    return evolve(chosen, client_resident_tokens=max(1, chosen.blocks * chosen.block_size // 4))


_LEAST = {
    "blocks": 1,
    "block_size": 1,
    "seats": 1,
    "token_budget": 1,
    "watermark_blocks": 0,
    "chunk_tokens": 0,
    "overlap_depth": 1,
    "max_prompt_tokens": 1,
    "max_output_tokens": 1,
    "max_model_tokens": 2,
    "max_overtaken": 0,
    "aging_picks": 0,
    "aging_credit": 0,
    "quantum": 1,
    "adapter_slots": 0,
    "request_weight": 0,
    "input_weight": 0,
    "output_weight": 0,
    "product_weight": 0,
    "square_weight": 0,
    "client_seats": 0,
    "client_resident_tokens": 0,
    "client_committed_cost": 0,
    "resident_tokens": 0,
    "prefilling_requests": 0,
    "park_timeout_ns": 0,
    "hold_ns": 0,
    "admission_period_steps": 1,
    "draft_tokens": 0,
} | LEAST_OF_RECOVERY
_ALLOWED = {
    "policy": get_args(Policy),
    "victim": ("newest", "lowest_priority"),
    "at_blocked_head": ("break", "skip"),
    "reserve": get_args(Reserve),
    "charge_prompt": ("pick", "chunk"),
    "prefix_caching": (False, True),
    "chunked_prefill": (False, True),
    "preempt_lower_class": (False, True),
    "charge_prediction": (False, True),
    "batch_mix": ("hybrid", "exclusive"),
    "phase_first": ("admission", "decode", "prefill", "alternate"),
    "batching": ("iteration", "request"),
    "disjoint_steps": (False, True),
    "log_waits": (False, True),
    "log_decisions": (False, True),
    "cancel_on_disconnect": (False, True),
    "defer_frees": (False, True),
} | ALLOWED_OF_RECOVERY
_LEAST_OF_A_LANE = {
    "share_percent": 1,
    "maximum_percent": 1,
    "max_prompt_tokens": 1,
    "max_output_tokens": 1,
    "burst": 0,
    "objective_steps": 0,
    "load_tokens": 0,
    "queue_requests": 0,
    "queue_tokens": 0,
}
_ONLY_OF: tuple[tuple[tuple[str, ...], tuple[Policy, ...], str], ...] = (
    (
        ("aging_picks", "client_seats", "client_resident_tokens", "client_committed_cost", "prices"),
        OF_CLIENTS,
        "queues of clients",
    ),
    (("charge_prediction",), OF_SERVICE, "counters of service"),
    (("preempt_lower_class",), OF_CLASSES, "classes"),
)
"""Settings that say something under some policies only."""
_ALLOWED_OF_A_LANE = {"order": ("fifo", "vtc"), "by_shape": (False, True)}


def _of_prices(s: Settings) -> Iterator[str]:
    prices: Any = s.prices
    if not isinstance(prices, tuple) or not all(isinstance(pair, tuple) for pair in prices):
        yield f"prices is {prices!r}, but must be a mapping from client to price"
        return
    for client, price in prices:
        if not isinstance(client, str):
            yield f"prices has client {client!r}, but a client is a string"
        if not is_int(price) or price < 1:
            yield f"the price of client {client!r} is {price!r}, but must be an integer of at least 1"
    yield from _twice("prices", "client", (client for client, _ in prices))


def _twice(setting: str, what: str, names: Iterable[str]) -> Iterator[str]:
    for name, count in Counter(name for name in names if isinstance(name, str)).items():
        if count > 1:
            yield f"{setting} has {what} {name!r} {count} times"


def _of_lanes(s: Settings) -> Iterator[str]:
    if not isinstance(s.lanes, tuple) or not all(isinstance(lane, Lane) for lane in s.lanes):
        yield f"lanes is {s.lanes!r}, but must be a list of Lane"
        return
    for lane in s.lanes:
        yield from _of_lane(lane)
    yield from _twice("lanes", "lane", (lane.name for lane in s.lanes))
    shares = [lane.share_percent for lane in s.lanes if is_int(lane.share_percent)]
    if sum(shares) > 100 and len(shares) > 1:
        yield f"the shares of the lanes are {' + '.join(map(str, shares))} = {sum(shares)} percent, more than there is"
    if s.lanes and not any(_takes_all(lane, s) for lane in s.lanes):
        yield (
            "no lane takes a request of every shape: give the last one no limits, or max_prompt_tokens and"
            " max_output_tokens that it covers"
        )


def _takes_all(lane: Lane, s: Settings) -> bool:
    """Also where a limit is none: that is a fault of its own."""
    limits = (lane.max_prompt_tokens, s.max_prompt_tokens), (lane.max_output_tokens, s.max_output_tokens)
    return bool(lane.by_shape) and not any(is_int(a) and is_int(b) and a < b for a, b in limits)


def _of_lane(lane: Lane) -> Iterator[str]:
    of = f"lane {lane.name!r}: "
    if not isinstance(lane.name, str) or not lane.name:
        yield f"a lane has name {lane.name!r}, but must have one of at least a letter"
    yield from too_small(lane, _LEAST_OF_A_LANE, of)
    yield from not_among(lane, _ALLOWED_OF_A_LANE, of)
    share, maximum = lane.share_percent, lane.maximum_percent
    if is_int(share) and share > 100:
        yield f"{of}share_percent is {share}, but must be at most 100"
    if is_int(share) and is_int(maximum) and share <= 100 and not share <= maximum <= 100:
        yield f"{of}maximum_percent is {maximum}, but must be between its share_percent of {share} and 100"
    if bool(lane.objective_steps) != bool(lane.load_tokens):
        yield (
            f"{of}objective_steps is {lane.objective_steps} and load_tokens {lane.load_tokens}: a promise needs a load"
            " under which it holds, give both or none"
        )


def _contradictions(s: Settings) -> Iterator[str]:
    """Values that are right, each by itself; what is wrong by itself contradicts nothing."""
    for name in ("blocks", "host_blocks"):
        if _are_right(s, name) and getattr(s, name) > MOST_BLOCKS:
            yield f"{name} is {getattr(s, name)}, but must be at most {MOST_BLOCKS}"
    if _are_right(s, "watermark_blocks", "blocks") and s.watermark_blocks >= s.blocks:
        yield (
            f"watermark_blocks is {s.watermark_blocks}, but the pool has {s.blocks} blocks:"
            " a second request could never be admitted"
        )
    if s.reserve == "model" and _are_right(s, "max_model_tokens", "blocks", "block_size"):
        yield from _of_model_reserve(s)
    if _are_right(s, *WEIGHTS) and not any(getattr(s, weight) for weight in WEIGHTS):
        yield "all weights are 0: no service would ever count"
    if _are_right(s, "aging_picks", "aging_credit") and bool(s.aging_picks) != bool(s.aging_credit):
        yield (
            f"aging_picks is {s.aging_picks} and aging_credit {s.aging_credit}: whoever is preferred is preferred by"
            " something, give both or none"
        )
    if s.policy in _ALLOWED["policy"]:
        yield from _of_another_policy(s)
    if _are_right(s, "client_resident_tokens", "resident_tokens") and 0 < s.resident_tokens < s.client_resident_tokens:
        yield (
            f"client_resident_tokens is {s.client_resident_tokens}, but resident_tokens allows all clients together"
            f" {s.resident_tokens}"
        )
    if _are_right(s, "client_seats", "seats") and s.client_seats > s.seats:
        yield f"client_seats is {s.client_seats}, but there are {s.seats} seats in all"
    if _are_right(s, "park_timeout_ns", "hold_ns"):
        yield from faults_of_parking(s)
    if _are_right(s, "draft_tokens", "overlap_depth"):
        yield from faults_of_drafts(s)
    if _are_right(s, *_OF_PLACES) and not any(_of_lanes(s)):
        yield from faults_of_objectives(s)


_OF_PLACES = (
    *("blocks", "block_size", "watermark_blocks", "seats", "token_budget", "resident_tokens"),
    *("max_output_tokens", "max_model_tokens", "prefilling_requests"),
)


def _of_model_reserve(s: Settings) -> Iterator[str]:
    if s.max_model_tokens - 1 > s.blocks * s.block_size:
        longest = "has no limit" if s.max_model_tokens > NO_LIMIT_TOKENS else f"is {s.max_model_tokens}"
        yield (
            f"reserve is 'model', but max_model_tokens {longest} and the pool holds {s.blocks * s.block_size}"
            " positions: nobody could ever be admitted, give a smaller max_model_tokens"
        )


def _are_right(s: Settings, *names: str) -> bool:
    return all(is_int(value := getattr(s, name)) and value >= _LEAST[name] for name in names)


def _of_another_policy(s: Settings) -> Iterator[str]:
    if s.lanes and s.policy != "lanes":
        yield f"lanes are given, but policy is {s.policy!r}: write policy='lanes'"
    for names, policies, have in _ONLY_OF:
        for name in names:
            if getattr(s, name) and s.policy not in policies:
                yield f"{name} is given, but policy {s.policy!r} has no {have}: {', '.join(policies)} have"
    if s.max_overtaken and s.policy in OF_CLIENTS:
        yield f"max_overtaken is given, but policy {s.policy!r} has a queue per client: use aging_picks"


def strays(policy: str) -> dict[str, object]:
    """Settings that say nothing under a policy, at their defaults."""
    plain = Settings()
    names = [name for names, policies, _ in _ONLY_OF if policy not in policies for name in names]
    names += [] if policy in OF_CLASSES else ["decode_step_ns"]
    names += ["aging_credit"] if policy not in OF_CLIENTS else ["max_overtaken"]
    names += [] if policy in OF_SERVICE else [*WEIGHTS, "charge_prompt"]
    names += [] if policy in OF_QUANTA else ["quantum"]
    names += [] if policy == "lanes" else ["lanes"]
    return {name: getattr(plain, name) for name in names}


def unsupported(settings: Settings, honoured: Iterable[str]) -> str | None:
    """The first setting that is not at its default and not among those that a scheduler honours.  With this in a
    factory a setting that comes later is refused, too."""
    plain = Settings()
    known = set(honoured)
    changed = (name for name in fields_dict(Settings) if getattr(settings, name) != getattr(plain, name))
    return next((name for name in changed if name not in known), None)


def _warn_of_equal_promises(lanes: tuple[Lane, ...]) -> None:
    for place, lane in enumerate(lanes):
        for other in lanes[:place]:
            if lane.promise == other.promise:
                says = f"lanes {other.name!r} and {lane.name!r} promise the same: one lane is easier to reason about"
                warnings.warn(says, SettingsWarning, stacklevel=4)

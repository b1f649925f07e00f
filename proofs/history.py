"""History variables: what a rule promises of a whole run, where no variable of the relation says it.

Events write them, and no guard or effect of a rule reads them: they change no run (Owicki and Gries, 1976, call them
auxiliary).  Each counts or keeps something in another way than the rule does, so that the two can disagree.
"""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve, frozen

from schedspec.spec.registry import Conjunct, Registry
from schedspec.spec.relation import (
    REFUSED,
    RUNNING,
    WAITING,
    Admit,
    BeginStep,
    EndStep,
    Engine,
    Preempt,
    Refuse,
    RequestId,
    Serve,
    Share,
    Take,
)
from schedspec.spec.relation import registry as rules
from schedspec.spec.rules.door import BUDGET, KV_BLOCKS, MODEL, OTHER, OUTPUT, PROMPT
from schedspec.spec.terms import Bool, Int, Map, Set, card, forall, implies, ite

Body = Callable[..., Any]


class Watched(Engine):
    # STEP-1
    load: Int  # tokens of the step, whatever they are
    chunks: Int  # those of them that are no decode
    largest: Int  # load of the largest step so far
    largest_mixed: Int  # of those with a chunk

    # STEP-3
    served: Set[RequestId]  # entries of the step
    repeats: Int  # entries of requests that had one in the same step

    # KV-11: the most blocks in use after an admission beside somebody who runs
    fullest: Int

    # PRE-2: what the last admission said of its place among victims
    rank: Map[RequestId, Int]

    # PRE-3: blocks in use when the count of freed ones began, those that came into use since, and preemptions in vain
    mark: Int
    acquired: Int
    vain: Int

    # LIVE-2: entries of a request since its last admission
    entries: Map[RequestId, Int]

    # ADMIT-1, ADMIT-2: what was turned away, and what for
    asked_prompt: Map[RequestId, Int]
    asked_output: Map[RequestId, Int]
    reason: Map[RequestId, Int]
    named_limit: Map[RequestId, Int]
    named_value: Map[RequestId, Int]


@frozen(kw_only=True, eq=False)
class Remembered(Conjunct):
    """A conjunct over history variables: no part of the rule, and of no card."""

    @property
    def name(self) -> str:
        return f"{self.rule}.h{self.place}"


def _copy(spec: Registry) -> Registry:
    cards = {name: evolve(card, checked_by=[]) for name, card in spec.rules.items()}
    return Registry(Watched, spec.names, rules=cards, events=dict(spec.events), conjuncts=list(spec.conjuncts))


_registry = _copy(rules)
on = _registry.also


def promise(rule: str, claims: Sequence[str] | None = None, *, transition: bool = False) -> Callable[[Body], Body]:
    """What every event keeps true; it is owed by those whom the card binds, or who claim something else."""

    def register(body: Body) -> Body:
        before = len(_registry.conjuncts)
        (_registry.transition if transition else _registry.invariant)(rule)(body)
        if claims is not None:
            for place, conjunct in enumerate(_registry.conjuncts[before:], start=before):
                binding = evolve(conjunct.binding, claims=tuple(claims))
                _registry.conjuncts[place] = evolve(conjunct, binding=binding)
        return body

    return register


def _larger(new: Int, old: Int) -> Int:
    return ite(old < new, new, old)


# --- STEP-1, STEP-3 ------------------------------------------------------------------------------------------


@on("STEP-1", on=BeginStep)
def _empty(s: Watched, e: BeginStep, t: Watched) -> tuple[Bool, ...]:
    return (t.load == 0, t.chunks == 0, t.served == s.served.cleared())


@on("STEP-1", on=Serve)
def _entry(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    is_decode = s.goal[e.request] <= e.start
    return (t.load == s.load + e.tokens, t.chunks == ite(is_decode, s.chunks, s.chunks + e.tokens))


@on("STEP-1", on=EndStep)
def _weighed(s: Watched, e: EndStep, t: Watched) -> tuple[Bool, ...]:
    return (
        t.largest == _larger(s.load, s.largest),
        t.largest_mixed == ite(s.chunks == 0, s.largest_mixed, _larger(s.load, s.largest_mixed)),
    )


@promise("STEP-1")
def _tokens_are_counted(s: Watched) -> tuple[Bool, ...]:
    return (s.chunks == s.prefill, s.load == s.prefill + s.decode, s.largest_mixed <= s.token_budget)


@promise("STEP-1", claims=("hard_budget",))
def _no_step_is_larger(s: Watched) -> Bool:
    return s.largest <= s.token_budget


@on("STEP-3", on=Serve)
def _again(s: Watched, e: Serve, t: Watched) -> tuple[Bool, ...]:
    return (
        t.served == s.served.add(e.request),
        t.repeats == ite(s.served.has(e.request), s.repeats + 1, s.repeats),
    )


@promise("STEP-3")
def _nobody_twice(s: Watched) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: implies(s.served.has(r), s.served_in[r] == s.step)),
        forall(RequestId, lambda r: implies((s.step >= 1) & (s.served_in[r] == s.step), s.served.has(r))),
        s.repeats == 0,
    )


# --- KV-11 -----------------------------------------------------------------------------------------------------


@on("KV-11", on=Admit)
def _full(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.fullest == ite(s.running.is_empty(), s.fullest, _larger(card(s.in_use), s.fullest))


@promise("KV-11")
def _the_reserve_is_there(s: Watched) -> Bool:
    return implies(s.fullest >= 1, s.fullest + s.watermark <= s.pool_blocks - card(s.aside))


# --- PRE-2, PRE-3 ------------------------------------------------------------------------------------------------


@on("PRE-2", on=Admit)
def _rank(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.rank == s.rank.set(e.request, e.victim_key)


@promise("PRE-2", claims=())
def _the_key_is_that_of_the_admission(s: Watched) -> Bool:
    return forall(RequestId, lambda r: s.victim_key[r] == s.rank[r])


def _nobody_stands_behind_the_victim(s: Watched, t: Watched) -> Bool:
    def fell(r: RequestId) -> Bool:
        return (s.phase[r] == RUNNING) & (t.phase[r] == WAITING)

    def behind(r: RequestId) -> Bool:
        return forall(RequestId, lambda q: implies(s.running.has(q), s.rank[q] <= s.rank[r]))

    return forall(RequestId, lambda r: implies(fell(r), behind(r)))


for _rule_of_victims in ("newest_first", "lowest_priority"):
    promise("PRE-2", claims=(_rule_of_victims,), transition=True)(_nobody_stands_behind_the_victim)


@on("PRE-3", on=BeginStep)
def _mark(s: Watched, e: BeginStep, t: Watched) -> tuple[Bool, ...]:
    return (t.mark == card(s.in_use), t.acquired == 0)


@on("PRE-3", on=Take)
def _took(s: Watched, e: Take, t: Watched) -> Bool:
    return t.acquired == s.acquired + 1


@on("PRE-3", on=Share)
def _shared(s: Watched, e: Share, t: Watched) -> Bool:
    return t.acquired == ite(s.in_use.has(e.block), s.acquired, s.acquired + 1)


@on("PRE-3", on=Preempt)
def _preempted(s: Watched, e: Preempt, t: Watched) -> tuple[Bool, ...]:
    is_in_vain = ~e.for_itself & (s.mark + s.acquired <= card(s.in_use))
    return (
        t.mark == card(s.in_use),
        t.acquired == 0,
        t.vain == ite(is_in_vain, s.vain + 1, s.vain),
    )


@promise("PRE-3")
def _freed_blocks_are_out_of_use(s: Watched) -> tuple[Bool, ...]:
    return (s.freed == s.mark + s.acquired - card(s.in_use), s.vain == 0)


# --- LIVE-2: a rank that falls ---------------------------------------------------------------------------------


@on("LIVE-2", on=Admit)
def _begins(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.entries == s.entries.set(e.request, 0)


@on("LIVE-2", on=Serve)
def _goes_on(s: Watched, e: Serve, t: Watched) -> Bool:
    return t.entries == s.entries.set(e.request, s.entries[e.request] + 1)


@promise("LIVE-2")
def _a_stay_is_no_longer_than_what_is_known(s: Watched) -> Bool:
    """It has at most as many entries as there are tokens."""
    return forall(RequestId, lambda r: implies(s.running.has(r), s.entries[r] <= s.issued[r]))


@promise("LIVE-2", transition=True)
def _what_is_left_falls_with_each_entry(s: Watched, t: Watched) -> tuple[Bool, ...]:
    """What is left of a request that runs, prompt and declared output less what is issued, never grows, and falls with
    each entry."""

    def left(of: Watched, r: RequestId) -> Int:
        return of.prompt[r] + of.output_limit[r] - of.issued[r]

    def stays(r: RequestId) -> Bool:
        return (s.phase[r] == RUNNING) & (t.phase[r] == RUNNING)

    return (
        forall(RequestId, lambda r: implies(stays(r), left(t, r) <= left(s, r))),
        forall(RequestId, lambda r: implies(stays(r) & (s.entries[r] < t.entries[r]), left(t, r) < left(s, r))),
    )


# --- ADMIT-1, ADMIT-2 ------------------------------------------------------------------------------------------


@promise("ADMIT-1")
def _who_is_in_fits_alone(s: Watched) -> tuple[Bool, ...]:
    """The last token is never written."""

    def inside(r: RequestId) -> Bool:
        return (s.phase[r] == WAITING) | (s.phase[r] == RUNNING)

    def fits(r: RequestId) -> Bool:
        return s.prompt[r] + s.output_limit[r] - 1 <= s.usable_blocks * s.block_size

    return (
        forall(RequestId, lambda r: implies(inside(r), fits(r))),
        forall(RequestId, lambda r: implies(inside(r) & ~s.chunked, s.prompt[r] <= s.token_budget)),
    )


@on("ADMIT-1", on=Refuse)
def _turned_away(s: Watched, e: Refuse, t: Watched) -> tuple[Bool, ...]:
    r = e.request
    return (
        t.asked_prompt == s.asked_prompt.set(r, e.prompt),
        t.asked_output == s.asked_output.set(r, e.max_output),
        t.reason == s.reason.set(r, e.reason),
        t.named_limit == s.named_limit.set(r, e.limit),
        t.named_value == s.named_value.set(r, e.value),
    )


def _refused_for(s: Watched, reason: int, broken: Callable[[RequestId], Bool]) -> Bool:
    return forall(RequestId, lambda r: implies((s.phase[r] == REFUSED) & (s.reason[r] == reason), broken(r)))


@promise("ADMIT-1")
def _who_is_turned_away_did_not_fit(s: Watched) -> tuple[Bool, ...]:
    def whole(r: RequestId) -> Int:
        return s.asked_prompt[r] + s.asked_output[r] - 1

    return (
        _refused_for(s, KV_BLOCKS, lambda r: s.usable_blocks * s.block_size < whole(r)),
        _refused_for(s, BUDGET, lambda r: ~s.chunked & (s.token_budget < whole(r))),
        forall(
            RequestId,
            lambda r: implies((s.phase[r] == REFUSED) & ~(s.reason[r] == OTHER), s.named_limit[r] < s.named_value[r]),
        ),
    )


@promise("ADMIT-2")
def _who_is_turned_away_was_too_long(s: Watched) -> tuple[Bool, ...]:
    return (
        _refused_for(s, PROMPT, lambda r: s.max_prompt < s.asked_prompt[r]),
        _refused_for(s, OUTPUT, lambda r: s.max_output < s.asked_output[r]),
        _refused_for(s, MODEL, lambda r: s.max_model < s.asked_prompt[r] + s.asked_output[r]),
    )


# --- together ------------------------------------------------------------------------------------------------------


def _remembered(registry: Registry, spec: Registry) -> Registry:
    """What is not in the specification has names of its own."""
    for number in range(len(spec.conjuncts), len(registry.conjuncts)):
        old = registry.conjuncts[number]
        place = 1 + sum(isinstance(c, Remembered) and c.rule == old.rule for c in registry.conjuncts)
        registry.conjuncts[number] = Remembered(
            rule=old.rule,
            place=place,
            kind=old.kind,
            term=old.term,
            event=old.event,
            binding=old.binding,
            variable=old.variable,
        )
    return registry


registry = _remembered(_registry, rules)
HISTORY = frozenset(Watched.sorts) - frozenset(Engine.sorts)

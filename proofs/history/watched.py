"""The variables of history, and how their effects and promises are written down."""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve, frozen

import schedspec.spec.rules  # noqa: F401  (importing them fills the registry)
from schedspec.spec.registry import Conjunct, Registry
from schedspec.spec.relation import BlockId, Engine, RequestId
from schedspec.spec.relation import registry as rules
from schedspec.spec.terms import Bool, Int, Map, Set, ite

Body = Callable[..., Any]


class Watched(Engine):
    # STEP-1
    load: Int  # tokens of the step, whatever they are
    chunks: Int  # those of them that are no decode
    ends: Int  # of steps
    largest: Int  # load of the largest step so far
    largest_mixed: Int  # of those with a chunk

    # STEP-2, STEP-3, STEP-7
    fullest_batch: Int  # most requests that sat at the end of a step
    served: Set[RequestId]  # entries of the step
    repeats: Int  # entries of requests that had one in the same step
    fallen: Set[RequestId]  # victims of the step

    # STEP-11: what was cached at the admission
    begun: Map[RequestId, Int]

    # KV-11: the most blocks in use after an admission beside somebody who runs
    fullest: Int

    # PRE-2: what the last admission said of its place among victims
    rank: Map[RequestId, Int]

    # PRE-3: blocks in use when the count of freed ones began, those that came into use since, and preemptions in vain
    mark: Int
    acquired: Int
    vain: Int

    # PRE-7: how often a request was preempted, and how often resumed
    falls: Map[RequestId, Int]
    rises: Map[RequestId, Int]

    # KV-10, LIVE-2: entries of a request since its last admission
    entries: Map[RequestId, Int]
    unkept: Int  # admissions without an entry when their step ended

    # LIVE-2: who was accepted and has not ended, and how many ever came
    alive: Set[RequestId]
    arrivals: Int

    # ADMIT-1, ADMIT-2: what was turned away, and what for
    asked_prompt: Map[RequestId, Int]
    asked_output: Map[RequestId, Int]
    reason: Map[RequestId, Int]
    named_limit: Map[RequestId, Int]
    named_value: Map[RequestId, Int]

    # LIFE-2: the place that it was given at the door
    given_place: Map[RequestId, Int]

    # LIFE-4: sums of all tokens as they were told and as they were sampled; of one request how many came back for it;
    # whose token came back after a preemption in this call, and who got one in it; tokens owed when a call ended
    told: Int
    meant: Int
    gained: Map[RequestId, Int]
    brought: Set[RequestId]
    heard: Set[RequestId]
    unpaid: Int

    # LIFE-5: whose last token has come, whose spare one is the last, and who was there still when a call ended
    complete: Set[RequestId]
    last_spare: Map[RequestId, Bool]
    lingering: Int

    # LIFE-6: whose cancel has returned
    cancelled: Set[RequestId]

    # LIFE-7: calls that brought results, the one in which a late one came, and what repeated ones changed
    calls: Int
    late_in: Map[RequestId, Int]
    changed_again: Int

    # LIFE-8: the end of the last entry that came back
    reached: Map[RequestId, Int]

    # LIFE-9: whether it would have fitted alone when it ended
    fitted: Map[RequestId, Bool]

    # KV-5: blocks since it was looked at; how far it was issued, and what was reserved, since it last released
    taken: Map[RequestId, Int]
    furthest: Map[RequestId, Int]
    reserved: Map[RequestId, Int]
    overlooked: Int  # who had grown and was not looked at when a call ended

    # KV-6: blocks that it gave back and has not left with; and who had not left when a call ended
    given: Map[RequestId, Int]
    staying: Int

    # KV-14: positions of which it was certain what they hold when the block was named; entries of the index
    certain: Map[BlockId, Int]
    named: Map[BlockId, Int]
    entries_named: Int

    # PRE-9: host blocks that it took or gave back since it left or came back; whose were on the way when a call ended
    moves: Map[RequestId, Int]
    halfway: Int


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


def larger(new: Int, old: Int) -> Int:
    return ite(old < new, new, old)


def counted(condition: Bool, count: Int) -> Int:
    """One more where it holds."""
    return ite(condition, count + 1, count)


def remembered() -> Registry:
    """The relation and its history.  What is not in the specification has names of its own."""
    for number in range(len(rules.conjuncts), len(_registry.conjuncts)):
        old = _registry.conjuncts[number]
        place = 1 + sum(isinstance(c, Remembered) and c.rule == old.rule for c in _registry.conjuncts)
        _registry.conjuncts[number] = Remembered(
            rule=old.rule,
            place=place,
            kind=old.kind,
            term=old.term,
            event=old.event,
            binding=old.binding,
            variable=old.variable,
        )
    return _registry


HISTORY = frozenset(Watched.sorts) - frozenset(Engine.sorts)

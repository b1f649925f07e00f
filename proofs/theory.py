"""What the proofs take for granted beside guards and effects: parameters, the initial state, and the events.

The facts about events are no rules.  Nobody can break them by a decision: whoever turns a subject's answers
into events (the monitor) makes only events of which they hold.  Each is one line, with its reason.
"""

from collections.abc import Mapping

from attrs import frozen

import schedspec.spec.rules  # noqa: F401  (importing them fills the registry)
from schedspec.spec.registry import Registry
from schedspec.spec.relation import RUNNING, WAITING, Accept, BlockId, Computed, Engine, Late, Refuse, Spare
from schedspec.spec.terms import Bool, Int, Term, card, forall, implies
from schedspec.spec.vocabulary import REFUSAL_REASONS

from .history import registry

__all__ = ["ENGINE", "Theory"]


@frozen
class Theory:
    """A registry, and what is assumed of its parameters, its initial state and its events.

    `bounds` and `parts`: which rules over traces are proved of an algorithm by a rule of it, and which in part.  What
    the relation itself says is proved of its rules as they stand, save where it is a part.
    """

    registry: Registry
    name: str = "engine"
    bounds: Mapping[str, tuple[str, ...]] = {}
    parts: Mapping[str, tuple[str, ...]] = {}
    parameters: tuple[Term, ...] = ()
    initial: tuple[Term, ...] = ()
    chosen_initially: frozenset[str] = frozenset()  # variables that start as `initial` says, not at zero
    events: Mapping[str, tuple[Term, ...]] = {}
    scope: Mapping[str, int] = {}  # how many keys of each sort a finite scope has
    in_scope: tuple[Term, ...] = ()  # what is assumed there besides

    def written(self) -> set[str]:
        """The variables that some event changes; the others are parameters."""
        return {name for event in self.registry.events for name in self.registry.effects(event)}


def _parameters(s: Engine) -> tuple[Bool, ...]:
    return (s.block_size >= 1, s.lookahead >= 0, s.token_budget >= 1)


def _initial(s: Engine) -> tuple[Bool, ...]:
    """Each block is free or set aside, and the pool has no others; every host block is free."""
    return (
        forall(BlockId, lambda b: s.free.has(b) == ~s.aside.has(b)),
        card(s.free) + card(s.aside) == s.pool_blocks,
        card(s.host_free) == s.host_pool,
    )


def _asked(s: Engine, e: Accept | Refuse) -> tuple[Bool, ...]:
    """What a request takes when it is alone: the monitor divides, and rounds up (`vocabulary.blocks_alone`)."""
    positions: Int = e.prompt + e.max_output - 1
    room: Int = e.blocks_alone * s.block_size
    return (positions <= room, room < positions + s.block_size)


def _refused(s: Engine, e: Refuse) -> tuple[Bool, ...]:
    """A reason is a place in `REFUSAL_REASONS`: the protocol knows no other."""
    return (*_asked(s, e), e.reason >= 0, e.reason < len(REFUSAL_REASONS))


def _computed(s: Engine, e: Computed) -> tuple[Bool, ...]:
    return (
        s.phase[e.request] == RUNNING,  # any other entry of an outcome is a Spare or a Late
        (e.sampled == 0) | (e.sampled == 1),  # it is a count of the entry's tokens, and STEP-6 allows one
        # A call brings one entry per request, and LIFE-4 settles what is owed before it ends.
        implies(e.sampled == 1, ~s.owed.has(e.request)),
        ~s.late.has(e.request),
        e.end <= s.issued[e.request],  # the entry was planned, and its request has not left since
    )


def _spare(s: Engine, e: Spare) -> tuple[Bool, ...]:
    return (
        s.phase[e.request] == WAITING,  # it was preempted and still waits
        ~s.late.has(e.request),  # a call brings one entry per request
    )


def _late(s: Engine, e: Late) -> tuple[Bool, ...]:
    return (~s.owed.has(e.request), ~s.spare.has(e.request))  # a call brings one entry per request


_BEFORE = Engine("state")

ENGINE = Theory(
    registry,
    parts={"LIVE-2": ("LIVE-2",), "KV-6": ("KV-6",)},  # that snapshots show what deltas say is tested
    parameters=_parameters(_BEFORE),
    initial=_initial(_BEFORE),
    chosen_initially=frozenset({"free", "host_free"}),
    scope={"RequestId": 2, "BlockId": 3, "HostId": 2, "PrefixId": 2},
    in_scope=(_BEFORE.block_size == 2,),  # products of variables are hard, and no counter-example needs them
    events={
        "Accept": _asked(_BEFORE, Accept("field")),
        "Refuse": _refused(_BEFORE, Refuse("field")),
        "Computed": _computed(_BEFORE, Computed("field")),
        "Spare": _spare(_BEFORE, Spare("field")),
        "Late": _late(_BEFORE, Late("field")),
    },
)

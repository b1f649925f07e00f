"""PRE-9: host blocks on their way, counted one by one, over a whole run."""

from schedspec.spec.relation import Admit, End, EndCall, RequestId, Save, Swap, Unsave
from schedspec.spec.terms import Bool, card, forall

from .watched import Watched, on, promise


@on("PRE-9", on=Save)
def _is_saved(s: Watched, e: Save, t: Watched) -> Bool:
    return t.moves == s.moves.set(e.request, s.moves[e.request] + 1)


@on("PRE-9", on=Unsave)
def _is_not_needed(s: Watched, e: Unsave, t: Watched) -> Bool:
    return t.moves == s.moves.set(e.request, s.moves[e.request] + 1)


@on("PRE-9", on=Swap)
def _is_out(s: Watched, e: Swap, t: Watched) -> Bool:
    return t.moves == s.moves.set(e.request, 0)


@on("PRE-9", on=Admit)
def _is_back(s: Watched, e: Admit, t: Watched) -> Bool:
    return t.moves == s.moves.set(e.request, 0)


@on("PRE-9", on=End)
def _is_gone(s: Watched, e: End, t: Watched) -> Bool:
    return t.moves == s.moves.set(e.request, 0)


@on("PRE-9", on=EndCall)
def _is_halfway(s: Watched, e: EndCall, t: Watched) -> Bool:
    return t.halfway == s.halfway + card(s.moving)


@promise("PRE-9")
def _whose_blocks_move_arrives(s: Watched) -> tuple[Bool, ...]:
    return (
        forall(RequestId, lambda r: s.moves[r] >= 0),
        forall(RequestId, lambda r: s.moving.has(r) == (s.moves[r] >= 1)),
        s.halfway == 0,
    )


@promise("PRE-9", transition=True)
def _moves_are_counted_one_by_one(s: Watched, t: Watched) -> Bool:
    return forall(RequestId, lambda r: t.moves[r] <= s.moves[r] + 1)
